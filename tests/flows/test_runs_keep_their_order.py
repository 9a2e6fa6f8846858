"""Lanes: one run at a time in a session and in order; sessions side by side; slots and limits."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.errors import KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.domain.runs import Run
from crossclaw.ledger.operations import Op, Submit
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece
from crossclaw.testing import ScriptedProvider, open_gateway, submit
from tests.flows.interposing import Step, interpose
from tests.flows.tools import Hanging

ANA = SessionKey.named("main", "ana")


class Recording:
    """A model that takes its time and notes who is being answered when."""

    name = "recording"

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self.spans: list[tuple[str, float, float]] = []
        self.at_once = 0
        self.most_at_once = 0

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        words = [block.text for block in request.turns[-1].content if isinstance(block, Text)][-1]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        began = anyio.current_time()
        try:
            await anyio.sleep(self._seconds)
        finally:
            self.at_once -= 1
        self.spans.append((words, began, anyio.current_time()))
        return AssistantMessage([Text(f"re: {words}")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


async def ask(gateway: Gateway, key: SessionKey, text: str) -> Run:
    run = await gateway.run_store.wait((await submit(gateway, key, text)).run_id)
    assert run is not None
    return run


@pytest.mark.spec("M2")
async def test_a_session_answers_one_message_after_the_other(tmp_path: Path) -> None:
    model = Recording()
    async with open_gateway(tmp_path, model) as gateway:
        ids = [(await submit(gateway, ANA, f"m{n}")).run_id for n in range(5)]
        last = await gateway.run_store.wait(ids[-1])

    assert last is not None
    assert [words for words, _, _ in model.spans] == ["m0", "m1", "m2", "m3", "m4"]
    assert model.most_at_once == 1


async def test_a_thousand_sessions_take_as_long_as_one(tmp_path: Path) -> None:
    model = Recording(60.0)
    began = anyio.current_time()
    async with open_gateway(tmp_path, model) as gateway, anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(ask, gateway, SessionKey.named("main", f"s{number}"), "hi")
    took = anyio.current_time() - began

    # The provider's cap of 64 calls makes four waves out of two hundred.
    assert model.most_at_once == 64
    assert took == pytest.approx(240, abs=10)


async def test_the_configured_number_of_runs_is_honoured(tmp_path: Path) -> None:
    config = Config()
    defaults = msgspec.structs.replace(config.agents.defaults, max_concurrent=3)
    agents = msgspec.structs.replace(config.agents, defaults=defaults)
    model = Recording()
    async with (
        open_gateway(
            tmp_path, model, config=msgspec.structs.replace(config, agents=agents)
        ) as gateway,
        anyio.create_task_group() as tasks,
    ):
        for number in range(9):
            tasks.start_soon(ask, gateway, SessionKey.named("main", f"s{number}"), "hi")

    assert model.most_at_once == 3


async def test_the_same_run_id_is_one_run_and_another_message_is_refused(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["once"])) as gateway:
        first = await submit(gateway, ANA, "hi", run_id="mine")
        again = await submit(gateway, ANA, "hi", run_id="mine")
        with pytest.raises(KeyReused):
            await submit(gateway, ANA, "something else", run_id="mine")
        run = await gateway.run_store.wait("mine")

    assert (first.run_id, again.run_id) == ("mine", "mine")
    assert run is not None
    assert run.reply == "once"


async def test_waiting_ends_when_its_time_is_over_and_the_run_goes_on(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Recording(100.0)) as gateway:
        run_id = (await submit(gateway, ANA, "slow")).run_id
        early = await gateway.run_store.wait(run_id, timeout_s=10)
        late = await gateway.run_store.wait(run_id, timeout_s=200)

    assert early is not None
    assert late is not None
    assert (early.status, late.status) == ("running", "ok")


async def test_waiting_for_nobody_ends_with_nothing(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        assert await gateway.run_store.wait("never heard of", timeout_s=30) is None


async def test_a_run_over_its_time_is_stopped_and_the_next_one_runs(tmp_path: Path) -> None:
    model = Recording(100.0)
    async with open_gateway(tmp_path, model) as gateway:
        slow = await submit(gateway, ANA, "slow", timeout_s=30)
        fine = await submit(gateway, ANA, "fine", timeout_s=130)
        stopped, ended = (
            await gateway.run_store.wait(slow.run_id),
            await gateway.run_store.wait(fine.run_id),
        )

    assert stopped is not None
    assert ended is not None
    assert (stopped.status, stopped.error) == ("timeout", "the run was stopped after 30 s")
    assert ended.status == "ok"
    assert stopped.ended_at - stopped.started_at == pytest.approx(30_000, abs=10)  # type: ignore[operator]


async def test_an_aborted_run_keeps_the_words_it_had_said(tmp_path: Path) -> None:
    class Halfway(Recording):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            tell(TextPiece("Once upon a "))
            return await super().complete(request, tell)

    async with open_gateway(tmp_path, Halfway(1000.0)) as gateway:
        run_id = (await submit(gateway, ANA, "tell me a story")).run_id
        await anyio.sleep(1)
        assert await gateway.lanes.abort(run_id, "enough") is True
        run = await gateway.run_store.wait(run_id)
        session = await gateway.ledger.find_session(ANA)
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]
        assert await gateway.lanes.abort(run_id, "again") is False

    assert run is not None
    assert session is not None
    assert (run.status, run.error, session.aborted_last_run) == ("aborted", "enough", True)
    partial = entries[-1].message
    assert isinstance(partial, AssistantMessage)
    assert (partial.text, partial.stop_reason) == ("Once upon a ", "aborted")


async def test_aborting_a_session_stops_the_running_and_the_queued(tmp_path: Path) -> None:
    hang = Hanging()
    model = ScriptedProvider([[ToolUse("c", "hang", {})]])
    async with open_gateway(tmp_path, model, tools=[hang]) as gateway:
        ids = [(await submit(gateway, ANA, f"m{n}")).run_id for n in range(3)]
        await hang.begun.wait()
        aborted = await gateway.lanes.abort_session(ANA, "stop")
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]
        entries = await gateway.ledger.list_entries(runs[0].session_id, limit=9)  # type: ignore[union-attr]

    assert sorted(aborted) == sorted(ids)
    assert [run.status for run in runs if run] == ["aborted"] * 3
    texts = [entry.message.content for entry in entries if isinstance(entry.message, UserMessage)]
    assert sorted(texts) == ["m0", "m1", "m2"]  # nothing accepted is lost


async def status_of(gateway: Gateway, run_id: str) -> str | None:
    run = await gateway.run_store.find(run_id)
    return run.status if run else None


async def test_a_message_to_an_idle_session_begins_in_the_step_that_accepts_it(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, Recording()) as gateway:
        first = await submit(gateway, ANA, "m0")
        assert await status_of(gateway, first.run_id) == "running"
        second = await submit(gateway, ANA, "m1")
        assert await status_of(gateway, second.run_id) == "queued"
        assert await gateway.run_store.wait(second.run_id)
        third = await submit(gateway, ANA, "m2")  # while the lane looks whether there is more
        last = await gateway.run_store.wait(third.run_id)

    assert last is not None
    assert last.reply == "re: m2"


async def test_a_message_begins_after_it_was_accepted_in_the_words_of_the_feed(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    async with open_gateway(tmp_path, Recording()) as gateway:
        gateway.feed.subscribe(lambda event: told.append(type(event).__name__))
        submitted = await submit(gateway, ANA, "hi")
        assert told == ["RunAccepted"]  # whoever submits may say that it listens before more comes
        await gateway.run_store.wait(submitted.run_id)

    assert told[:3] == ["RunAccepted", "EntryAppended", "RunStarted"]


async def test_without_a_free_slot_a_message_is_accepted_and_waits(tmp_path: Path) -> None:
    config = Config()
    defaults = msgspec.structs.replace(config.agents.defaults, max_concurrent=1)
    agents = msgspec.structs.replace(config.agents, defaults=defaults)
    config = msgspec.structs.replace(config, agents=agents)
    async with open_gateway(tmp_path, Recording(), config=config) as gateway:
        first = await submit(gateway, ANA, "first")
        second = await submit(gateway, SessionKey.named("main", "ben"), "second")
        assert await status_of(gateway, first.run_id) == "running"
        assert await status_of(gateway, second.run_id) == "queued"
        ended = await gateway.run_store.wait(second.run_id)

    assert ended is not None
    assert ended.status == "ok"
    assert gateway.slots.taken == 0


async def test_a_message_that_is_refused_leaves_its_lane_free(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Recording()) as gateway:
        await gateway.run_store.wait((await submit(gateway, ANA, "hi", run_id="mine")).run_id)
        await anyio.sleep(1)
        with pytest.raises(KeyReused):
            await submit(gateway, ANA, "something else", run_id="mine")
        assert gateway.slots.taken == 0
        run = await ask(gateway, ANA, "and now?")

    assert run.reply == "re: and now?"


async def test_a_caller_who_leaves_while_its_message_is_accepted_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, Recording()) as gateway:
        with anyio.CancelScope() as gone:

            async def leave(commit: Step, *ops: Op[Any]) -> list[Any]:
                gone.cancel()
                return await commit(*ops)

            interpose(monkeypatch, gateway, Submit, leave)
            await submit(gateway, ANA, "hi", run_id="mine")
        run = await gateway.run_store.wait("mine", timeout_s=30)
        after = await ask(gateway, ANA, "and me?")

    assert run is not None
    assert (run.reply, after.reply) == ("re: hi", "re: and me?")
    assert gateway.slots.taken == 0
