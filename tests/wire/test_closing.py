"""The gateway goes; its clients are told."""

import signal
import socket
import time

import anyio
import pytest

from crossclaw.config.gateway import GatewayConfig
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.gateway.server import CannotListen, bind, listen_host
from tests.wire.serving import dial, guest, open_server


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_clients_hear_of_the_end_and_are_closed_as_for_a_restart(protocol: int) -> None:
    async with open_server() as served, guest(served, protocol) as peer, dial(served) as stranger:
        waiting = await peer.send("wait")
        began = time.monotonic()
        served.stop()
        closed = await peer.closed()
        await served.stopped.wait()
        took = time.monotonic() - began
        assert (await stranger.closed())[0] == 1012

    assert closed == (1012, "service restart")
    (shutdown,) = [frame for frame in peer.events if frame.get("event") == "shutdown"]
    assert shutdown["payload"] == {"reason": "service restart"}
    assert waiting not in [frame.get("id") for frame in peer.events]
    assert took < 2


async def test_what_is_nearly_done_is_still_answered_and_new_work_is_not_begun() -> None:
    async with open_server() as served, guest(served) as peer:
        waiting = await peer.send("wait")
        await peer.ask("echo")
        served.stop()
        await peer.event("shutdown")
        late = await peer.ask("echo")
        served.release.set()
        answer = await peer.answer(waiting)

    assert late["error"]["code"] == "UNAVAILABLE"
    assert late["error"]["retryable"] is True
    assert answer["payload"] == {"waited": True}


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end() -> None:
    async with open_server() as served, guest(served) as peer:
        peer.socket.transport.pause_reading()
        began = time.monotonic()
        served.stop()
        await served.stopped.wait()
        took = time.monotonic() - began
        peer.socket.transport.resume_reading()

    assert took < 2


async def test_who_comes_while_a_gateway_closes_waits_for_the_next_one_who_serves_its_port() -> (
    None
):
    """Accepted by the one that closes, it would be an open socket that nobody reads."""
    with bind("127.0.0.1", 0) as listener, socket.socket() as late:
        async with open_server(listener=listener) as served, guest(served) as peer:
            await peer.send("wait")
            await peer.ask("echo")
            served.stop()
            await peer.event("shutdown")
            late.connect(("127.0.0.1", served.port))
            late.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            late.setblocking(False)
            await served.stopped.wait()
            with pytest.raises(BlockingIOError):  # neither answered nor sent away
                late.recv(1)
        async with open_server(listener=listener):
            with anyio.fail_after(30):
                await anyio.wait_readable(late)
            assert late.recv(12) == b"HTTP/1.1 200"


async def test_the_port_is_free_again() -> None:
    async with open_server() as served:
        port = served.port
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            bind("127.0.0.1", port).close()

    bind("127.0.0.1", port).close()


async def test_signals_are_not_taken_from_us() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with open_server():
        await anyio.sleep(0.01)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio looks at this number before it turns Nagle's algorithm off."""
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_where_to_listen_is_asked_for_by_name() -> None:
    assert listen_host(GatewayConfig()) == "127.0.0.1"
    assert listen_host(GatewayConfig(bind="lan")) == "0.0.0.0"
    assert listen_host(GatewayConfig(bind="custom", custom_bind_host="::1")) == "::1"
    with pytest.raises(ConfigInvalid, match=r"gateway\.bind"):
        listen_host(GatewayConfig(bind="tailnet"))
