"""After a send: the agents speak in turn, the target announces, and no restart repeats a step."""

import json
from math import inf
from pathlib import Path

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.operations import EnsureSession
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import MemoryChannel, ScriptedProvider, instructions_of, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, results_of, say, two_agents

LIBRARIAN = SessionKey.main("librarian")
MAIN = SessionKey.main("main")


def talkative(announce: str = "All settled.", skip_at: int = 99) -> ScriptedProvider:
    """Main asks the librarian; in the rounds each says its turn's number; then the announce."""

    def answer(request: ModelRequest) -> list[ToolUse] | str:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        if "posted to your chat" in instructions_of(request):
            return announce
        if "this is turn" in instructions_of(request):
            turn = int(instructions_of(request).split("this is turn ")[1].split()[0])
            return "REPLY_SKIP" if turn >= skip_at else f"turn {turn}"
        if last.results:
            return "asked"
        words = [block.text for block in last.content if isinstance(block, Text)][-1]
        if words == "ask":
            return [
                ToolUse(
                    f"c{len(request.turns)}",
                    "sessions_send",
                    {"agentId": "librarian", "message": "where?"},
                )
            ]
        return "shelf nine"

    return ScriptedProvider(answer)


async def settled(gateway: Gateway, run_id: str = "r1") -> None:
    """Until the exchange is over."""
    for _ in range(200):
        found = await gateway.ledger.find_exchange(await exchange_id(gateway, run_id))
        if found is not None and found.state == "over":
            return
        await anyio.sleep(1)
    raise AssertionError("the exchange does not end")


async def exchange_id(gateway: Gateway, run_id: str) -> str:
    run = await gateway.run_store.find(run_id)
    assert run is not None
    entries = await gateway.ledger.list_entries(run.session_id, limit=50)
    calls = [
        e.message.tool_calls[0].id
        for e in entries
        if isinstance(e.message, AssistantMessage) and e.message.tool_calls
    ]
    return f"{run_id}::{calls[0]}" if calls else ""


async def heard(gateway: Gateway, key: SessionKey) -> list[str]:
    """What other agents said into a session, in order."""
    session = await gateway.ledger.find_session(key)
    assert session is not None
    entries = await gateway.ledger.list_entries(session.session_id, limit=100)
    return [
        str(entry.message.content)
        for entry in entries
        if isinstance(entry.message, UserMessage)
        and entry.message.provenance is not None
        and entry.message.provenance.kind == "inter_session"
    ]


@pytest.mark.spec("S6")
async def test_the_agents_speak_in_turn_until_their_turns_are_used(tmp_path: Path) -> None:
    model = talkative()
    async with open_gateway(tmp_path, model, config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        to_main, to_librarian = await heard(gateway, MAIN), await heard(gateway, LIBRARIAN)

    for turn, role in enumerate(("requester", "target", "requester", "target"), start=1):
        assert f"You are the {role}; this is turn {turn} of" in str(model.seen)
    assert to_main == ["shelf nine", "turn 2", "turn 4"]
    assert to_librarian[:3] == ["where?", "turn 1", "turn 3"]
    assert len(to_librarian) == 4  # and the announce step


@pytest.mark.spec("S6")
@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_the_config_says_how_many_turns(tmp_path: Path, turns: int) -> None:
    config = two_agents(agentToAgent={"maxPingPongTurns": turns})
    async with open_gateway(tmp_path, talkative(), config=config) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        rounds = len(await heard(gateway, MAIN)) + len(await heard(gateway, LIBRARIAN)) - 2

    assert rounds == turns


@pytest.mark.spec("S6")
async def test_reply_skip_ends_the_rounds(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=2), config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        to_main = await heard(gateway, MAIN)

    assert to_main == ["shelf nine"]


@pytest.mark.spec("S5")
async def test_the_target_is_told_who_asks_outside_of_the_words(tmp_path: Path) -> None:
    model = talkative(skip_at=1)
    async with open_gateway(tmp_path, model, config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)

    asked = next(
        request
        for request in model.seen
        if "Another agent has sent you" in instructions_of(request)
    )
    assert "agent:main:main" in instructions_of(asked)
    assert "agent:librarian:main" in instructions_of(asked)
    _runtime, marker, words, _end = asked.turns[-1].content
    assert isinstance(marker, Text)
    assert "agent:main:main through sessions_send" in marker.text
    assert words == Text("where?")


async def chat_with_librarian(folder: Path, announce: str) -> tuple[MemoryChannel, str | None]:
    """The librarian has a chat of its own; main asks it something."""
    chat = MemoryChannel("telegram")
    async with open_gateway(
        folder, talkative(announce, skip_at=1), config=two_agents(), channels=[chat]
    ) as gateway:
        await give_address(gateway, chat)
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        await anyio.sleep(30)
        found = await gateway.ledger.find_exchange(await exchange_id(gateway, "r1"))
    assert found is not None
    return chat, found.announce


async def give_address(gateway: Gateway, chat: MemoryChannel) -> None:
    new = NewSession(
        key=LIBRARIAN, session_id="lib", channel=chat.name, address=Address(chat.name, "room 9")
    )
    await gateway.ledger.do(EnsureSession(new=new, at=1))


@pytest.mark.spec("S7")
async def test_the_announce_goes_to_the_targets_chat(tmp_path: Path) -> None:
    chat, announced = await chat_with_librarian(tmp_path, "The atlas stands on shelf nine.")

    assert chat.sent == [("room 9", "The atlas stands on shelf nine.")]
    assert announced == "delivered"


@pytest.mark.spec("S7")
@pytest.mark.parametrize("token", ["ANNOUNCE_SKIP", " ANNOUNCE_SKIP\n", "REPLY_SKIP"])
async def test_a_control_token_never_reaches_a_chat(tmp_path: Path, token: str) -> None:
    chat, announced = await chat_with_librarian(tmp_path, token)

    assert chat.sent == []
    assert announced == "silent"


@pytest.mark.spec("S7")
async def test_an_announce_without_an_address_stays_in_the_transcript_marked(
    tmp_path: Path,
) -> None:
    async with open_gateway(
        tmp_path, talkative("Nobody hears this.", skip_at=1), config=two_agents()
    ) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        session = await gateway.ledger.find_session(LIBRARIAN)
        entries = await gateway.ledger.list_entries(session.session_id, limit=50)  # type: ignore[union-attr]
        page = await call(gateway, "chat.history", sessionKey=LIBRARIAN.text, limit=1)

    assert len(page["messages"]) == 1  # a note takes no message's place
    last, note = entries[-2:]
    assert isinstance(last.message, AssistantMessage)
    assert last.message.text == "Nobody hears this."
    assert note.note is not None
    assert (note.type, note.note["delivered"]) == ("note", False)


@pytest.mark.spec("S7")
async def test_an_announce_to_somebody_on_the_page_has_arrived(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=1), config=two_agents()) as gateway:
        await say(gateway, "agent:librarian:main", "where?", "r0")  # he has it open
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        found = await gateway.ledger.find_exchange(await exchange_id(gateway, "r1"))
        session = await gateway.ledger.find_session(LIBRARIAN)
        entries = await gateway.ledger.list_entries(session.session_id, limit=50)  # type: ignore[union-attr]
        page = await call(gateway, "chat.history", sessionKey="agent:librarian:main", limit=1)

    assert found is not None
    assert found.announce == "delivered"
    assert [entry for entry in entries if entry.type == "note"] == []
    assert page["messages"][-1]["content"][0]["text"] == "All settled."


@pytest.mark.spec("S3")
async def test_a_wait_that_was_over_does_not_end_the_exchange(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talkative(), config=two_agents()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="ask", idempotencyKey="r1")
        await gateway.run_store.wait("r1", timeout_s=60)
        await settled(gateway)
        assert len(await heard(gateway, MAIN)) == 3


@pytest.mark.spec("B1", "S7")
async def test_a_restart_at_any_moment_continues_and_never_repeats(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    copies: list[Path] = []
    chat = MemoryChannel("telegram", knows_key_s=inf)
    async with open_gateway(folder, talkative(), config=two_agents(), channels=[chat]) as gateway:
        await give_address(gateway, chat)
        gateway.feed.subscribe(
            lambda _: copies.append(crashed_copy(folder, f"moment {len(copies)}"))
        )
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)

    assert len(copies) > 30
    for copy in copies[1::3]:
        later = MemoryChannel("telegram", knows_key_s=inf)
        async with open_gateway(
            copy, talkative(), config=two_agents(), channels=[later]
        ) as gateway:
            await gateway.run_store.wait("r1", timeout_s=600)
            await settled(gateway)
            await anyio.sleep(30)
            to_main, to_librarian = await heard(gateway, MAIN), await heard(gateway, LIBRARIAN)
            delivery = await gateway.ledger.find_delivery(
                f"announce:{await exchange_id(gateway, 'r1')}"
            )
        assert to_main == ["shelf nine", "turn 2", "turn 4"]
        assert to_librarian[:3] == ["where?", "turn 1", "turn 3"]
        assert len(to_librarian) == 4
        assert delivery is not None
        assert delivery.state == "delivered"


async def exchange_without(folder: Path, how: str, who: str, words: str) -> list[str]:
    """One of the two goes away in the middle; which runs there were after the first."""
    intake, shelf = SessionKey.named("main", "desk"), SessionKey.named("librarian", "shelf")
    asked = {"sessionKey": shelf.text, "message": words, "timeoutSeconds": 0}
    async with open_gateway(folder, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, shelf.text, "say: open", "r0")
        run = await say(gateway, intake.text, f"tool: sessions_send {json.dumps(asked)}", "r1")
        (sent,) = await results_of(gateway, run)
        await anyio.sleep(1)
        await call(gateway, how, key=(intake if who == "requester" else shelf).text)
        await anyio.sleep(600)
        exchange = await gateway.ledger.find_exchange(sent["runId"])
        names = ("round-1", "round-2", "announce")
        ran = [name for name in names if await gateway.run_store.find(f"{sent['runId']}::{name}")]
    assert exchange is not None
    assert exchange.state == "over"
    return ran


@pytest.mark.spec("S6", "S7")
@pytest.mark.parametrize("how", ["sessions.delete", "sessions.archive"])
async def test_without_its_requester_an_exchange_has_no_rounds(tmp_path: Path, how: str) -> None:
    slow = "wait: 60\nsay: here"

    assert await exchange_without(tmp_path, how, "requester", slow) == ["announce"]


@pytest.mark.spec("S6", "S7")
@pytest.mark.parametrize("how", ["sessions.delete", "sessions.archive"])
async def test_without_its_target_an_exchange_is_over(tmp_path: Path, how: str) -> None:
    slow_requester = "say: wait: 60"

    assert await exchange_without(tmp_path, how, "target", slow_requester) == ["round-1"]
