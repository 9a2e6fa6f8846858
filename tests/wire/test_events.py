"""Hearing, over a real socket, with a real gateway behind."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.events import ReplyPiece
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import ScriptedProvider, open_gateway, submit
from tests.flows.talking import call
from tests.wire.serving import Peer, Served, dial, guest, open_server

MAIN = SessionKey.main("main")


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_a_run_of_the_gateway_is_heard_from_start_to_end(
    tmp_path: Path, protocol: int
) -> None:
    model = ScriptedProvider(["Good morning, Ana!"])
    async with (
        open_gateway(tmp_path, model, clock=SystemClock(), inline=False) as gateway,
        open_server(feed=gateway.feed) as served,
        guest(served, protocol) as peer,
    ):
        await peer.ask("subscribe", {"key": "agent:main:main"})
        run_id = (await submit(gateway, MAIN, "hello")).run_id
        final = await _final(peer)
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        entries = await gateway.ledger.list_entries(session.session_id, limit=9)

    assert final["runId"] == run_id
    assert final["message"]["content"] == [{"type": "text", "text": "Good morning, Ana!"}]
    assert len(entries) == 2  # the reply is in the transcript before the final is told
    names = [(frame["event"], frame["payload"].get("stream")) for frame in peer.events]
    assert ("agent", "lifecycle") in names
    assert ("agent", "assistant") in names
    messages = [f["payload"]["message"] for f in peer.events if f["event"] == "session.message"]
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def _final(peer: Peer) -> Any:
    while True:
        frame = await peer.event("chat")
        if frame["payload"]["state"] == "final":
            return frame["payload"]


class Gated(ScriptedProvider):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__(["first", "together"])
        self.open = anyio.Event()

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        await self.open.wait()
        return await super().complete(request, tell)


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_each_of_the_messages_that_are_answered_together_gets_its_final_and_is_shown_once(
    tmp_path: Path, protocol: int
) -> None:
    config = msgspec.convert({"messages": {"queue": {"debounceMs": 0}}}, Config)
    model = Gated()
    async with (
        open_gateway(tmp_path, model, config=config, clock=SystemClock(), inline=False) as gateway,
        open_server(feed=gateway.feed) as served,
        guest(served, protocol) as follower,
        guest(served, protocol) as asker,
    ):
        await follower.ask("subscribe", {"key": "agent:main:main"})
        for peer in (follower, asker):
            assert (await peer.ask("follow", {"runId": "c", "key": "main"}))["ok"]
        for run_id in ("a", "b", "c"):
            await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey=run_id)
        model.open.set()
        told = [await _chats(follower, finals=3), await _chats(asker, finals=1)]

    shown, own = ([(each["runId"], _words(each)) for each in one] for one in told)
    assert [each for each in shown if each[0] != "a"] == [
        ("b", "together"),  # a delta
        ("b", "together"),
        ("c", None),
    ]
    assert own == [("c", "together"), ("c", "together")]
    users = [f for f in follower.events if f["event"] == "session.message"]
    roles = [frame["payload"]["message"]["role"] for frame in users]
    assert roles == ["user", "assistant", "user", "user", "assistant"]


async def _chats(peer: Peer, *, finals: int) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    while [each["state"] for each in told].count("final") < finals:
        told.append((await peer.event("chat"))["payload"])
    return told


def _words(chat: dict[str, Any]) -> str | None:
    message = chat.get("message")
    return message and message["content"][0]["text"]


@pytest.mark.spec("G1")
async def test_seq_grows_by_one_on_each_connection() -> None:
    async with open_server() as served, guest(served) as one, guest(served) as two:
        await one.ask("subscribe", {"key": "agent:main:main"})
        await two.ask("subscribe", {"key": "agent:main:other"})
        for key in (MAIN, SessionKey.named("main", "other"), MAIN, MAIN):
            served.feed.publish(ReplyPiece(f"run {key}", key, "x", "x"))
            await anyio.sleep(0.06)
        await one.ask("echo")
        await two.ask("echo")

    for peer in (one, two):
        seqs = [frame["seq"] for frame in peer.events if "seq" in frame]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= 2


@pytest.mark.spec("G1")
async def test_ticks_and_health_come_by_themselves() -> None:
    limits = GatewayLimits(tick_s=0.05, health_s=0.08)
    async with open_server(limits=limits) as served, guest(served) as peer:
        assert peer.hello["policy"]["tickIntervalMs"] == 50
        for _ in range(2):
            tick = await peer.event("tick")
            assert isinstance(tick["payload"]["ts"], int)
        for _ in range(2):
            assert (await peer.event("health"))["payload"]["ok"] is True


async def test_text_that_waits_goes_out_without_a_further_piece() -> None:
    async with open_server() as served, guest(served) as peer:
        await peer.ask("follow", {"runId": "r1", "key": "main"})
        served.feed.publish(ReplyPiece("r1", MAIN, "one", "one"))
        served.feed.publish(ReplyPiece("r1", MAIN, " two", "one two"))
        texts = [(await peer.event("chat"))["payload"]["deltaText"] for _ in range(2)]

    assert texts == ["one", " two"]


@pytest.mark.spec("G1")
async def test_a_client_that_does_not_read_is_closed_and_others_do_not_notice() -> None:
    limits = GatewayLimits(buffered_bytes_max_4=200_000)
    async with open_server(limits=limits) as served, guest(served) as slow, guest(served) as good:
        await slow.ask("subscribe", {"key": "agent:main:main"})
        slow.socket.transport.pause_reading()
        await _flood(served, good)
        slow.socket.transport.resume_reading()
        code, reason = await slow.closed()

    assert (code, reason) == (1008, "slow consumer")


async def test_ticks_and_deltas_are_dropped_before_a_client_is() -> None:
    limits = GatewayLimits(buffered_bytes_max_4=50_000_000, dropping_share=0.001, tick_s=0.02)
    async with open_server(limits=limits) as served, guest(served) as slow, guest(served) as good:
        await slow.ask("subscribe", {"key": "agent:main:main"})
        slow.socket.transport.pause_reading()
        await _flood(served, good)
        for _ in range(5):
            await good.event("tick")
        slow.socket.transport.resume_reading()
        answer = await slow.ask("echo", {"text": "here again"})

    assert answer["ok"]
    seqs = [frame["seq"] for frame in slow.events if "seq" in frame]
    assert seqs == list(range(1, len(seqs) + 1))
    deltas = [frame for frame in slow.events if frame.get("event") == "chat"]
    assert len(deltas) < 20


async def test_who_pings_and_does_not_read_is_cut_off() -> None:
    limits = GatewayLimits(pongs_bytes_max=20_000)
    async with open_server(limits=limits) as served, dial(served) as peer:
        peer.socket.transport.pause_reading()
        transport = peer.socket.transport
        masked = b"\x89\xfd" + b"\0" * 4 + b"p" * 125
        with anyio.move_on_after(5):
            while not transport.is_closing():
                transport.write(masked * 1000)
                await anyio.sleep(0.01)

        assert transport.is_closing()


async def _flood(served: Served, good: Peer) -> None:
    """Four megabytes in forty events, more than a socket's buffers hold."""
    for number in range(40):
        served.feed.publish(ReplyPiece(f"r{number}", MAIN, "x" * 100_000, "x" * 100_000))
        assert (await good.ask("echo"))["ok"]
