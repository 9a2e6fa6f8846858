"""Answers that are cut, refused or broken off: the run says so, loops end, and everything spent is counted."""

from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import ModelDeclined, ProviderOverloaded
from crossclaw.domain.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolResultMessage,
    ToolUse,
    Usage,
)
from crossclaw.providers.calls import RAW
from crossclaw.providers.contract import LostSpending, ModelRequest, TellPiece, TextPiece
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say
from tests.flows.tools import Counting

MAIN = "agent:main:main"


def thought_only(tokens: int = 8_192) -> AssistantMessage:
    usage = Usage(input=100, output=tokens)
    return AssistantMessage([Thinking("…")], stop_reason="max_tokens", usage=usage)


def cut_call(name: str = "count") -> AssistantMessage:
    half = ToolUse("c", name, {RAW: '{"path": "long.txt", "content": "' + "x" * 3_000})
    return AssistantMessage([half], stop_reason="max_tokens", usage=Usage(output=8_192))


async def test_an_answer_cut_before_its_first_word_is_asked_again_with_more_room(
    tmp_path: Path,
) -> None:
    whole = AssistantMessage([Text("42")], usage=Usage(input=100, output=12_000))
    model = ScriptedProvider([thought_only(), whole])
    async with open_gateway(tmp_path, model) as gateway:
        run = await say(gateway, MAIN, "think", "r1")
        session = await gateway.ledger.find_session(run.key)
    assert (run.status, run.reply) == ("ok", "42")
    assert [asked.more_room for asked in model.seen] == [False, True]
    assert session is not None
    assert (session.input_tokens, session.output_tokens) == (200, 20_192)


async def test_an_answer_that_is_never_more_than_thinking_ends_the_run_with_the_reason(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider([thought_only(), thought_only(32_000), "I am here"])
    async with open_gateway(tmp_path, model) as gateway:
        run = await say(gateway, MAIN, "think", "r1")
        session = await gateway.ledger.find_session(run.key)
        again = await say(gateway, MAIN, "hello?", "r2")
    assert run.status == "error"
    assert "said nothing, twice" in (run.error or "")
    assert len(model.seen) == 3
    assert session is not None
    assert session.output_tokens == 40_192
    assert again.reply == "I am here"


async def test_two_equal_cuts_end_a_run(tmp_path: Path) -> None:
    model = ScriptedProvider([cut_call(), cut_call(), "never asked"])
    async with open_gateway(tmp_path, model, tools=[Counting("count")]) as gateway:
        run = await say(gateway, MAIN, "write a long file", "r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)
    assert run.status == "error"
    assert "cut off twice in a row in the middle of a call of count" in (run.error or "")
    assert model.left == 1
    (result,) = [e.message for e in entries if isinstance(e.message, ToolResultMessage)]
    assert str(result.content).startswith("Not run: your answer reached its length limit")
    assert len(str(result.content)) < 700


async def test_a_cut_and_then_another_way_goes_on(tmp_path: Path) -> None:
    parts = [ToolUse("c1", "count", {})]
    model = ScriptedProvider([cut_call(), parts, cut_call(), parts, "done"])
    async with open_gateway(tmp_path, model, tools=[Counting("count")]) as gateway:
        assert (await say(gateway, MAIN, "write a long file", "r1")).reply == "done"


class Breaking:
    """Says some words and breaks off, or goes on for ever; what that has cost is told."""

    name = "scripted"

    def __init__(self, *, for_ever: bool = False) -> None:
        self._for_ever = for_ever
        self.calls = 0

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self.calls += 1
        if self.calls > 1:
            return AssistantMessage("whole", usage=Usage(input=100, output=3))
        tell(TextPiece("one two"))
        try:
            if self._for_ever:
                await anyio.sleep_forever()
        except BaseException:
            tell(LostSpending(Usage(input=12_486, output=2)))
            raise
        tell(LostSpending(Usage(input=90, output=2)))
        raise ProviderOverloaded("broke off")

    async def close(self) -> None:
        pass


async def test_an_attempt_that_failed_in_the_middle_is_counted(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Breaking()) as gateway:
        run = await say(gateway, MAIN, "go", "r1")
        session = await gateway.ledger.find_session(run.key)
    assert run.reply == "whole"
    assert session is not None
    assert (session.input_tokens, session.output_tokens) == (190, 5)


async def test_an_aborted_run_is_counted(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Breaking(for_ever=True)) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(1)
        await call(gateway, "chat.abort", sessionKey="main")
        run = await gateway.run_store.wait("r1")
        assert run is not None
        session = await gateway.ledger.find_session(run.key)
    assert run.status == "aborted"
    assert session is not None
    assert (session.input_tokens, session.output_tokens) == (12_486, 2)


@pytest.mark.parametrize("fallback", [True, False])
async def test_a_model_that_declines_asks_the_fallback_and_is_shown_as_one(
    tmp_path: Path, fallback: bool
) -> None:
    refusal = ModelDeclined("the model declined to answer (cyber)")
    model = ScriptedProvider([refusal, "the second answers", "the first again"])
    other = ["scripted/other"] if fallback else []
    chosen = {"primary": "scripted/scripted", "fallbacks": other}
    config = msgspec.convert({"agents": {"list": [{"id": "main", "model": chosen}]}}, Config)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        run = await say(gateway, MAIN, "go", "r1")
        if fallback:
            await say(gateway, MAIN, "and now?", "r2")
    if fallback:
        assert run.reply == "the second answers"
        assert [asked.model for asked in model.seen] == ["scripted", "other", "scripted"]
    else:
        assert run.status == "error"
        assert "declined" in (run.error or "")


async def test_agent_answers_with_what_a_whole_long_run_has_used(tmp_path: Path) -> None:
    calls = [[ToolUse(f"a{n}", "count", {}), ToolUse(f"b{n}", "count", {})] for n in range(90)]
    answers = [AssistantMessage([*each], usage=Usage(input=10, output=1), stop_reason="tool_use") for each in calls]  # fmt: skip
    model = ScriptedProvider([*answers, AssistantMessage([Text("ok")], usage=Usage(10, 1))])
    async with open_gateway(tmp_path, model, tools=[Counting("count")]) as gateway:
        done = await call(gateway, "agent", message="count", idempotencyKey="r1")

    assert done["result"]["meta"]["agentMeta"]["usage"]["input"] == 910
