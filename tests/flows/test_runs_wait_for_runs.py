"""A run waits for a run of another session: its slot is free meanwhile, and circles end at once."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Text, ToolUse
from crossclaw.domain.runs import Run
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, open_gateway, submit
from crossclaw.tools.contract import Tool, ToolContext
from tests.flows.tools import declared


class Question(msgspec.Struct):
    session: str
    text: str
    timeout_s: float = 60.0


class Ask(Tool[Question]):
    """Sends into another session and waits; the real `sessions_send` comes with the session tools."""

    declared, description, params = declared("ask", "once"), "Asks another session.", Question

    def __init__(self) -> None:
        self.gateway: Gateway | None = None

    async def call(self, context: ToolContext, params: Question) -> Any:
        assert self.gateway is not None
        run_id = f"{context.run.run_id}/{context.tool_use_id}"
        key = SessionKey.named("main", params.session)
        await submit(self.gateway, key, params.text, run_id=run_id)
        waited = await self.gateway.waits.wait(context.run, run_id, params.timeout_s)
        if waited.circle:
            return "circle " + " → ".join(key.name for key in waited.circle)
        return waited.run.reply if waited.run and waited.run.ended else "timeout"


def obedient(request: ModelRequest) -> list[ToolUse] | str:
    """`ask NAME TEXT` asks; anything else is answered with what was heard last."""
    last = request.turns[-1]
    assert isinstance(last, UserTurn)
    if last.results:
        return f"heard: {last.results[-1].content[0].text}"  # type: ignore[union-attr]
    words = [block.text for block in last.content if isinstance(block, Text)][-1]
    if words.startswith("ask "):
        calls = [line.split(" ", 2) for line in words.splitlines()]
        return [
            ToolUse(f"c{len(request.turns)}-{n}", "ask", {"session": name, "text": text})
            for n, (_, name, text) in enumerate(calls)
        ]
    return f"answer to {words}"


async def run_story(
    folder: Path,
    *messages: tuple[str, str],
    slots: int | None = None,
    thinks_s: float = 1.0,
) -> list[Run]:
    config = Config()
    defaults = msgspec.structs.replace(config.agents.defaults, max_concurrent=slots)
    agents = msgspec.structs.replace(config.agents, defaults=defaults)
    config = msgspec.structs.replace(config, agents=agents)
    ask, model = Ask(), ScriptedProvider(obedient, delay_s=thinks_s)
    async with open_gateway(folder, model, tools=[ask], config=config) as gateway:
        ask.gateway = gateway
        ids = [
            (await submit(gateway, SessionKey.named("main", name), text)).run_id
            for name, text in messages
        ]
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]
        for (
            key
        ) in await gateway.ledger.lanes_with_work():  # what was asked and nobody waits for now
            for run in await gateway.ledger.list_open_runs(key):
                await gateway.run_store.wait(run.run_id)
        await anyio.wait_all_tasks_blocked()
        assert gateway.slots.taken == 0
    return [run for run in runs if run is not None]


async def test_a_run_asks_another_session_and_gets_its_answer(tmp_path: Path) -> None:
    (run,) = await run_story(tmp_path, ("ana", "ask ben the time"))

    assert run.reply == "heard: answer to the time"


async def test_a_waiting_run_gives_its_only_slot_to_the_one_it_waits_for(tmp_path: Path) -> None:
    (run,) = await run_story(tmp_path, ("ana", "ask ben ask cho the way"), slots=1)

    assert run.reply == "heard: heard: answer to the way"


async def test_several_questions_at_once_share_one_slot(tmp_path: Path) -> None:
    (run,) = await run_story(tmp_path, ("ana", "ask ben one\nask cho two\nask dan three"), slots=1)

    assert run.status == "ok"
    assert (run.reply or "").startswith("heard: answer to ")


@pytest.mark.parametrize("slots", [4, 8])
async def test_nine_questions_in_one_message_end_also_when_slots_are_scarce(
    tmp_path: Path, slots: int
) -> None:
    """Eight calls are made side by side. Their waits are over together, and the last comes back for the
    slot, which others have for longer; then the ninth begins, and comes back as well."""
    nine = "\n".join(f"ask s{n} question {n}" for n in range(9))
    others = [(f"other{n}", "hello") for n in range(slots)]

    first, *rest = await run_story(tmp_path, ("ana", nine), *others, slots=slots, thinks_s=70.0)

    assert (first.status, {run.status for run in rest}) == ("ok", {"ok"})
    assert first.reply == "heard: timeout"


@pytest.mark.spec("S9")
async def test_a_circle_of_waits_is_noticed_at_once_and_everybody_ends(tmp_path: Path) -> None:
    began = anyio.current_time()
    (run,) = await run_story(tmp_path, ("ana", "ask ben ask ana hello"))

    assert run.reply == "heard: heard: circle ben → ana → ben"
    assert anyio.current_time() - began < 30  # long before any wait would have timed out


@pytest.mark.spec("S9")
async def test_a_circle_over_the_queue_is_noticed_too(tmp_path: Path) -> None:
    """Ana waits for a run that is queued behind Ben's, which then waits for Ana."""
    runs = await run_story(tmp_path, ("ben", "ask ana one"), ("ana", "ask ben two"))

    assert [run.status for run in runs] == ["ok", "ok"]
    assert sum("circle" in (run.reply or "") for run in runs) == 1
