"""A chat account on one gateway, its runs on the other: chats and clients see what they would see on one."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.delivery import signals
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece, ThinkingPiece
from crossclaw.testing import MemoryChannel, ScriptedProvider
from tests.breaking import break_off
from tests.cluster.linked import Linked, linked, see_each_other, until
from tests.ending import SOON_S
from tests.flows.talking import call
from tests.flows.test_chat_signals import CHATTY, OPEN, PARTS, WHOLE
from tests.wire.serving import guest

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
AGENTS = {"agents": {"list": [{"id": "main"}, {"id": "librarian"}]}}


class Dictated:
    """A model that writes as far as it is let."""

    name = "dictated"

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.parts = [anyio.Event() for _ in PARTS]

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self.asked.set()
        for part, go in zip(PARTS, self.parts, strict=True):
            await go.wait()
            tell(ThinkingPiece("hm"))
            tell(TextPiece(part))
        return AssistantMessage([Text(WHOLE)], stop_reason="end_turn")

    async def close(self) -> None:
        pass


@pytest.fixture
def chats() -> list[MemoryChannel]:
    settings = msgspec.structs.replace(OPEN, streaming="partial")
    quick = msgspec.structs.replace(CHATTY, edit_every_s=0.01, typing_every_s=0.05)
    return [MemoryChannel(traits=quick, settings=settings, knows_key_s=1e9) for _ in "ab"]


@pytest.fixture
def models() -> list[Any]:
    return [ScriptedProvider([]), Dictated()]


@pytest.fixture
async def pair(
    tmp_path: Path,
    url: str,
    quick_links: None,
    monkeypatch: pytest.MonkeyPatch,
    chats: list[MemoryChannel],
    models: list[Any],
) -> AsyncGenerator[tuple[Linked, Linked]]:
    """The first has the account; runs of main are the second's."""
    monkeypatch.setattr(signals, "FIRST_S", 0.01)
    async with AsyncExitStack() as stack:
        opened = []
        for name, chat, model, agent in zip(
            "ab", chats, models, ("librarian", "main"), strict=True
        ):
            one = linked(tmp_path, url, name, model, AGENTS, served=[agent], channels=[chat])
            opened.append(await stack.enter_async_context(one))
            await until(lambda: chats[0].host is not None)
        a, b = opened
        await see_each_other(a, b)
        yield a, b


@pytest.mark.spec("N8", "B2")
async def test_a_chat_sees_typing_and_the_reply_as_it_is_written_on_another_gateway(
    pair: tuple[Linked, Linked], chats: list[MemoryChannel], models: list[Any]
) -> None:
    chat, model = chats[0], models[1]
    run_id = await chat.say("ann", "hi")
    with anyio.fail_after(SOON_S):
        await model.asked.wait()
        await until(lambda: ("ann", True) in chat.typing)
        model.parts[0].set()
        model.parts[1].set()
        await until(lambda: "The second one." in str(chat.shown))
        assert WHOLE not in str(chat.shown)
        for each in model.parts:
            each.set()
        await until(lambda: list(chat.shown.values()) == [WHOLE])
    a, _b = pair

    async def is_delivered() -> bool:
        found = await a.gateway.ledger.find_delivery(f"reply:{run_id}")
        return found is not None and found.state == "delivered"

    await until(is_delivered)
    assert len(chat.sent) == 1, "one message, which was changed"
    assert chats[1].typing == [], "the other gateway has no account"
    await until(lambda: chat.typing[-1] == ("ann", False))


async def test_a_page_on_one_gateway_shows_a_run_on_the_other(
    pair: tuple[Linked, Linked], models: list[Any]
) -> None:
    a, _b = pair
    model = models[1]
    page = {"id": "webchat-ui", "version": "1", "platform": "web", "mode": "webchat"}
    async with guest(a, protocol=3, client=page) as seen:
        sent = {"sessionKey": "main", "message": "write", "idempotencyKey": "r1"}
        assert (await seen.ask("chat.send", sent))["ok"]
        model.parts[0].set()

        async def chat(state: str) -> Any:
            while (frame := await seen.event("chat", SOON_S))["payload"]["state"] != state:
                pass
            return frame["payload"]

        delta = await chat("delta")
        assert PARTS[0].strip() in str(delta["message"])
        for each in model.parts:
            each.set()
        final = await chat("final")
        assert (final["runId"], WHOLE in str(final["message"])) == ("r1", True)
        history = (await seen.ask("chat.history", {"sessionKey": "main"}))["payload"]["messages"]
        assert [each["role"] for each in history] == ["user", "assistant"]
        waited = (await seen.ask("agent.wait", {"runId": "r1", "timeoutMs": 0}))["payload"]
        assert waited["status"] == "ok"


async def test_how_an_account_is_and_its_restart_are_asked_of_its_gateway(
    pair: tuple[Linked, Linked], chats: list[MemoryChannel], url: str
) -> None:
    _, b = pair
    role = "channel:memory:default"
    await until(lambda: b.gateway.neighbours.find_holder(role) is not None)
    (here,) = [each.state for each in b.gateway.channels.list_status()]
    assert here == "elsewhere"
    told = await call(b.gateway, "channels.status", probe=True)
    (row,) = told["channelAccounts"]["memory"]
    assert (row["state"], row["connected"], row["probe"]["ok"]) == ("running", True, True)
    assert (await call(b.gateway, "channels.start", channel="memory"))["started"]

    async def is_told() -> bool:
        rows = (await call(b.gateway, "attention.list", kinds=["channel"]))["rows"]
        return [each["why"] for each in rows] == ["the token was revoked"]

    break_off(chats[0].host, "the token was revoked")
    await until(is_told)


@pytest.mark.spec("K3")
async def test_heartbeats_are_stopped_on_all_gateways(pair: tuple[Linked, Linked]) -> None:
    a, b = pair
    await call(b.gateway, "set-heartbeats", enabled=False)
    assert not a.gateway.schedule.heartbeats.enabled
    await call(a.gateway, "set-heartbeats", enabled=True)
    assert b.gateway.schedule.heartbeats.enabled
