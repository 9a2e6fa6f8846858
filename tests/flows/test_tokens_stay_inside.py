"""Control tokens are for the gateway: whichever way one comes, no chat and no page is shown it."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.exchanges import CONTROL_TOKENS
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.spawning import announces_in, family, reported

TOKENS = ("REPLY_SKIP", "ANNOUNCE_SKIP", "NO_REPLY", "HEARTBEAT_OK")


def test_these_are_the_tokens() -> None:
    assert set(TOKENS) == CONTROL_TOKENS


@pytest.mark.spec("S7")
@pytest.mark.parametrize("token", TOKENS)
async def test_an_agent_that_has_nothing_to_say_in_a_chat_says_nothing(
    tmp_path: Path, token: str
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    replies = [f"\n {token} ", f"About {token}: it is a word.", f"{token}."]
    async with open_gateway(tmp_path, ScriptedProvider(replies), channels=[chat]) as gateway:
        for number in range(len(replies)):
            await gateway.run_store.wait(await chat.say("ana", f"hi {number}", group="g1"))
        await chat.wait_sent(2)
        await anyio.sleep(60)

    assert [text for _, text in chat.sent] == replies[1:]  # a token counts when it is all


@pytest.mark.spec("S7", "S6")
async def test_a_token_in_several_blocks_is_still_one(tmp_path: Path) -> None:
    class InBlocks(ScriptedProvider):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            whole = await super().complete(request, tell)
            return AssistantMessage([Text("NO_"), Text("REPLY")], whole.timestamp)

    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, InBlocks(["x"]), channels=[chat]) as gateway:
        run = await gateway.run_store.wait(await chat.say("ana", "hi"))
        await anyio.sleep(60)

    assert run is not None
    assert run.reply == "NO_REPLY"
    assert chat.sent == []


@pytest.mark.spec("P5", "S7")
@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "said", ["{}", "Result: {}", "**Result:** {}", "Status: fine\nResult:\n{}"]
)
async def test_a_child_that_announces_a_token_is_silent_under_every_heading(
    tmp_path: Path, token: str, said: str
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    model = family(announce=said.format(token))
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await reported(gateway)
        await anyio.sleep(60)
        (told,) = await announces_in(gateway)

    assert "nothing to announce" in told
    assert [text for _, text in chat.sent] == ["ok"]


@pytest.mark.spec("P5", "S7")
async def test_what_is_said_beside_a_token_is_reported_without_it(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    model = family(announce="Result: ANNOUNCE_SKIP\nNotes: the shelf is empty")
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await reported(gateway)
        await chat.wait_sent(2)

    posted = chat.sent[-1][1]
    assert "SKIP" not in posted
    assert "Result: forty-two\nNotes: the shelf is empty" in posted
