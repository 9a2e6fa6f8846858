"""Strangers: who is not known yet has a place, a deadline and a pause, and takes nothing from anybody else."""

import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import httpx2
import msgspec
import pytest
from anyio.abc import SocketStream
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from websockets.exceptions import ConnectionClosed, WebSocketException

from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.sockets import UnauthenticatedConnections
from tests.wire.serving import (
    TOKEN,
    Peer,
    Served,
    SignedDevice,
    connect_params,
    dial,
    guest,
    open_server,
)

NEVER_S = 3600.0
ENDLESS = GatewayLimits(
    stranger_time_s=NEVER_S,
    header_time_s=NEVER_S,
    handshake_time_s=NEVER_S,
    body_time_s=NEVER_S,
    close_s=NEVER_S,
)
PATIENT = msgspec.structs.replace(ENDLESS, stranger_time_s=0.2)
"""No stage ends by itself: what ends is ended by the one deadline of strangers."""
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
STAGES = {
    "nothing": b"",
    "half a request line": b"GE",
    "headers without an end": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "an upgrade that announces a body": UPGRADE + b"Content-Length: 5\r\n\r\n",
    "an upgrade that announces chunks": UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n",
    "an upgrade and no word": UPGRADE + b"\r\n",
    "an upgrade and half a frame": UPGRADE + b"\r\n\x81",
    "an open route, and no further request": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "an open route, and half a further one": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET",
    "blank lines": b"\r\n\r\n",
}


async def _answer(_request: Request, _principal: Principal) -> Response:
    return PlainTextResponse("for whoever shows the secret")


async def _answer_much(_request: Request, _principal: Principal) -> Response:
    return PlainTextResponse(b"x" * LARGE_BYTES)


SECRET = Endpoint(method="GET", path="/secret", handle=_answer)
LARGE_BYTES = 50_000_000
LARGE = Endpoint(method="GET", path="/large", handle=_answer_much, door=None)


@asynccontextmanager
async def stranger(served: Served, says: bytes = b"") -> AsyncGenerator[SocketStream]:
    async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
        if says:
            await stream.send(says)
        yield stream


async def end_of(stream: SocketStream) -> None:
    """Until the other side has ended it."""
    with anyio.fail_after(30), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


@pytest.mark.spec("G1")
@pytest.mark.parametrize("says", STAGES.values(), ids=STAGES)
async def test_every_stranger_has_a_deadline_whatever_stage_it_is_in(says: bytes) -> None:
    async with open_server(limits=PATIENT) as served, guest(served) as known:
        async with stranger(served, says) as stream:
            await end_of(stream)
        assert (await known.ask("echo", {"text": "still here"}))["ok"]


async def test_a_stranger_that_reads_no_answer_is_cut_off_too() -> None:
    """Closing would wait until it has read all of it."""
    asking, got = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 0
    async with (
        open_server(limits=PATIENT, endpoints=[LARGE]) as served,
        stranger(served, asking) as stream,
        stranger(served) as later,
    ):
        await end_of(later)
        with anyio.fail_after(30), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                got += len(await stream.receive())
    assert got < LARGE_BYTES


async def test_an_upgrade_on_a_connection_that_is_known_begins_as_a_stranger() -> None:
    """A proxy keeps a connection for many: one who showed the secret on it does not vouch for the next."""
    asked = f"GET /secret HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    limits = GatewayLimits(stranger_time_s=2, header_time_s=NEVER_S, handshake_time_s=NEVER_S)
    async with (
        open_server(limits=limits, endpoints=[SECRET]) as served,
        stranger(served, asked.encode()) as stream,
    ):
        assert b"200" in await stream.receive()
        await stream.send(UPGRADE + b"\r\n")
        await end_of(stream)


async def test_who_is_known_outlives_the_deadline_of_strangers() -> None:
    async with open_server(limits=PATIENT) as served, guest(served) as known:
        async with stranger(served) as stream:
            await end_of(stream)
        async with stranger(served) as stream:
            await end_of(stream)
        assert (await known.ask("echo"))["ok"]


async def test_when_the_places_are_full_the_oldest_stranger_goes_and_no_known_client() -> None:
    limits = msgspec.structs.replace(ENDLESS, strangers_per_address_max=3)
    async with (
        open_server(limits=limits) as served,
        guest(served) as known,
        dial(served) as oldest,
        dial(served) as second,
        dial(served),
        dial(served),
    ):
        with anyio.fail_after(30), suppress(ConnectionClosed):
            while True:
                await oldest.socket.recv()
        assert (await second.ask("connect", connect_params()))["ok"]
        async with guest(served), guest(served), guest(served), guest(served):
            pass  # who is known takes no stranger's place
        assert (await known.ask("echo"))["ok"]


async def test_the_places_of_all_addresses_together_are_full_in_the_same_way() -> None:
    limits = msgspec.structs.replace(ENDLESS, strangers_max=2)
    async with (
        open_server(limits=limits) as served,
        stranger(served) as oldest,
        stranger(served),
        guest(served) as known,
    ):
        await end_of(oldest)
        assert (await known.ask("echo"))["ok"]


async def test_a_flood_from_one_address_pushes_out_its_own() -> None:
    limits = msgspec.structs.replace(ENDLESS, strangers_max=6)
    enough, pushed_out = anyio.Event(), list[int]()

    async def come(served: Served) -> None:
        async with await anyio.connect_tcp(
            "127.0.0.1", served.port, local_host="127.0.0.2"
        ) as stream:
            await end_of(stream)
        pushed_out.append(1)
        if len(pushed_out) == 50:
            enough.set()

    async with (
        open_server(limits=limits) as served,
        dial(served) as other,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(60):
            tasks.start_soon(come, served)
        with anyio.fail_after(30):
            await enough.wait()
        assert (await other.ask("connect", connect_params()))["ok"]
        tasks.cancel_scope.cancel()


def test_strangers_leave_most_of_the_open_files_to_whoever_shows_the_secret() -> None:
    assert UnauthenticatedConnections(GatewayLimits(), files_max=256)._places == 64
    for enough in (1_000_000, resource.RLIM_INFINITY):
        assert (
            UnauthenticatedConnections(GatewayLimits(), files_max=enough)._places
            == GatewayLimits().strangers_max
        )


async def test_a_thousand_strangers_that_come_at_once_keep_nobody_out() -> None:
    async with open_server() as served, anyio.create_task_group() as tasks:

        async def come(number: int) -> None:
            says = list(STAGES.values())[number % len(STAGES)]
            with suppress(OSError, anyio.BrokenResourceError):
                async with stranger(served, says):
                    await anyio.sleep_forever()

        for number in range(1000):
            tasks.start_soon(come, number)
        for _ in range(5):
            async with guest(served) as peer:
                assert (await peer.ask("echo", {"text": "in"}))["ok"]
        tasks.cancel_scope.cancel()


async def test_wrong_secrets_never_make_the_right_one_fail() -> None:
    """Four wrong ones wait as long as this takes; all others are dropped, and the right one comes in."""
    limits = msgspec.structs.replace(
        ENDLESS, pauses_per_address_max=4, pause_s_first=NEVER_S, pause_s_max=NEVER_S
    )
    dropped, all_dropped = list[str](), anyio.Event()

    def drop(how: str) -> None:
        dropped.append(how)
        if len(dropped) == 76:
            all_dropped.set()

    async def knock(served: Served, number: int) -> None:
        field = ("token", "password")[number % 2]
        try:
            async with dial(served) as peer:
                await peer.ask("connect", connect_params(auth={field: f"guess {number}"}))
        except (WebSocketException, OSError):
            drop("over a WebSocket")

    async def ask(served: Served, secret: str) -> int | None:
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(timeout=60, verify=False) as client:
            try:
                url = f"http://127.0.0.1:{served.port}/secret"
                return (await client.get(url, headers=headers)).status_code
            except (httpx2.RemoteProtocolError, httpx2.ReadError):
                drop("over HTTP")
        return None

    async with (
        open_server(limits=limits, endpoints=[SECRET]) as served,
        anyio.create_task_group() as guessing,
    ):
        for number in range(40):
            guessing.start_soon(knock, served, number)
            guessing.start_soon(ask, served, "wrong")
        for _ in range(10):
            async with guest(served) as peer:
                assert (await peer.ask("echo"))["ok"]
            assert await ask(served, TOKEN) == 200
        with anyio.fail_after(60):
            await all_dropped.wait()
        assert served.authenticator.verified == 100
        guessing.cancel_scope.cancel()


async def test_whoever_has_shown_the_right_secret_keeps_its_place() -> None:
    """Between the secret and the welcome a device is written down; strangers that come meanwhile do not
    take its place, and its own deadline goes on."""
    limits = GatewayLimits(strangers_per_address_max=1)
    async with open_server(limits=limits) as served:
        released, knocking = anyio.Event(), anyio.Event()

        async def slow_commit(*ops: object) -> list[None]:
            knocking.set()
            await released.wait()
            return [None] * len(ops)

        served.ledger.commit = slow_commit  # type: ignore[method-assign]
        async with dial(served) as peer, anyio.create_task_group() as tasks:
            answers: list[bool] = []
            tasks.start_soon(_come_with_a_device, peer, answers)
            await knocking.wait()
            async with stranger(served) as first, stranger(served):
                await end_of(first)
                released.set()
    assert answers == [True]


async def _come_with_a_device(peer: Peer, answers: list[bool]) -> None:
    challenge = (await peer.next())["payload"]
    params = connect_params()
    params["device"] = SignedDevice().sign(params, challenge["nonce"], challenge["ts"], "v3")
    answers.append((await peer.ask("connect", params))["ok"])
