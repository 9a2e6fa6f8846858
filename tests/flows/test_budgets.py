"""Budgets: a run and all it causes spend from one account, and nothing is asked of a model that the
account cannot pay."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.agent.meter import WAIT_S, Meters
from crossclaw.agent.summary import SYSTEM
from crossclaw.agent.weight import weigh_request
from crossclaw.app import Gateway
from crossclaw.domain.budgets import Amount
from crossclaw.domain.errors import StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, Usage
from crossclaw.domain.runs import Run
from crossclaw.ledger.operations import Reserve
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.testing import (
    ScriptedProvider,
    VirtualClock,
    instructions_of,
    message_texts,
    open_gateway,
    submit,
)
from tests.flows.crashing import crashed_copy
from tests.flows.spawning import announces_in, family, reported
from tests.flows.spending import account_of, config_with, costing, ended
from tests.flows.talking import call, results_of, say


def said_last(request: ModelRequest) -> str:
    last = request.turns[-1]
    assert isinstance(last, UserTurn)
    return "".join(message_texts(last))


def has_heard(request: ModelRequest, words: str) -> bool:
    turns = [turn for turn in request.turns if isinstance(turn, UserTurn)]
    return any(Text(words) in turn.content for turn in turns)


def sends(words: str, to: str = "agent:librarian:main", timeout_s: float = 60) -> list[ToolUse]:
    asked = {"sessionKey": to, "message": words, "timeoutSeconds": timeout_s}
    return [ToolUse("c1", "sessions_send", asked)]


# ── one run ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B5")
async def test_a_run_over_its_tokens_ends_with_what_was_spent_and_the_setting(
    tmp_path: Path,
) -> None:
    calls = [costing([ToolUse(f"c{n}", "sessions_list", {})], 20_000, 100) for n in range(9)]
    model = ScriptedProvider(calls)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 50_000})) as gateway:
        run = await say(gateway, "main", "count", "r1")

        assert run.status == "error"
        assert run.error is not None
        assert "over budget: 40,200 of 50,000 tokens are spent" in run.error
        assert "budget.tokens of agent main" in run.error
        assert len(model.seen) == 2
        assert (await account_of(gateway, "r1")).spent.tokens == 40_200
        assert (await account_of(gateway, "r1")).reserved == Amount()


@pytest.mark.spec("B5")
async def test_money_is_counted_by_the_price_of_the_model(tmp_path: Path) -> None:
    model = ScriptedProvider([costing([ToolUse("c1", "sessions_list", {})], 50_000, 10_000)] * 2)
    async with open_gateway(tmp_path, model, config=config_with({"costUsd": 0.7})) as gateway:
        run = await say(gateway, "main", "hello", "r1")

        assert run.status == "error"
        assert "over budget: $0.7000 of $0.7000 are spent" in (run.error or "")
        assert "budget.costUsd" in (run.error or "")


@pytest.mark.spec("B5")
async def test_the_next_message_of_a_person_has_a_new_account(tmp_path: Path) -> None:
    model = ScriptedProvider([costing("one", 9_000, 10), costing("two", 9_000, 10)])
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 10_000})) as gateway:
        first, second = await say(gateway, "main", "a", "r1"), await say(gateway, "main", "b", "r2")

        assert (first.status, second.status) == ("ok", "ok")
        assert (await account_of(gateway, "r2")).spent.tokens == 9_010


@pytest.mark.spec("B5")
async def test_an_answer_may_be_no_longer_than_the_account_can_pay(tmp_path: Path) -> None:
    model = ScriptedProvider([costing("hi", 100, 1)] * 2)
    async with open_gateway(
        tmp_path / "1", model, config=config_with({"tokens": 90_000})
    ) as gateway:
        await say(gateway, "main", "hello", "r1")
    tokens = weigh_request(model.seen[0]) + 400
    async with open_gateway(
        tmp_path / "2", model, config=config_with({"tokens": tokens})
    ) as gateway:
        run = await say(gateway, "main", "hello", "r1")

    assert run.status == "ok"
    assert model.seen[0].output_tokens_max == 500
    assert 256 <= model.seen[1].output_tokens_max <= 410


@pytest.mark.spec("B5")
async def test_a_reply_in_pieces_pays_for_each_piece_once(tmp_path: Path) -> None:
    model = ScriptedProvider([costing("one ", 1_000, 500, cut=True), costing("two", 1_500, 20)])
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 90_000})) as gateway:
        run = await say(gateway, "main", "long", "r1")

        assert run.reply == "one two"
        assert (await account_of(gateway, "r1")).spent.tokens == 1_500 + 1_520


@pytest.mark.spec("B5")
async def test_a_gateway_without_budgets_has_no_accounts(tmp_path: Path) -> None:
    async with open_gateway(
        tmp_path, ScriptedProvider(["hello"]), config=config_with(None)
    ) as gateway:
        run = await say(gateway, "main", "hello", "r1")

        assert run.cause.purse is None
        assert await gateway.ledger.find_account("r1") is None


# ── all it causes ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B5")
async def test_a_send_and_its_rounds_and_announce_spend_from_the_first_account(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            return costing(sends("what is new?"), 1_000, 10)
        return costing("REPLY_SKIP" if "turn 2" in instructions_of(request) else "words", 1_000, 10)

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 100_000})) as gateway:
        await say(gateway, "main", "go", "r1")
        for follower in ("round-1", "round-2", "announce"):
            run = await ended(gateway, f"r1::c1::{follower}")
            assert run.cause.purse is not None
            assert run.cause.purse.account_id == "r1"

        assert len(model.seen) == 6
        assert (await account_of(gateway, "r1")).spent.tokens == 6 * 1_010


@pytest.mark.spec("B5")
async def test_the_requester_hears_that_its_send_was_over_budget(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            return costing(sends("read all"), 1_000, 10)
        if has_heard(request, "read all"):
            return costing([ToolUse("x1", "sessions_list", {})], 58_000, 10)
        return costing("the librarian could not", 100, 10)

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 60_000})) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (result,) = await results_of(gateway, run)

        assert result["status"] == "error"
        assert "over budget: 59,020 of 60,000 tokens are spent" in result["error"]
        assert run.status == "error"
        exchange = await gateway.ledger.find_exchange("r1::c1")
        assert exchange is not None
        assert exchange.state == "over"
        assert exchange.turn == 0


@pytest.mark.spec("B5")
async def test_a_child_over_budget_says_so_in_its_report(tmp_path: Path) -> None:
    def work(request: ModelRequest) -> Any:
        return costing([ToolUse(f"w{len(request.turns)}", "session_status", {})], 50_000, 10)

    config = config_with({"tokens": 60_000})
    async with open_gateway(tmp_path, family(work=work), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)

        assert spawn.status == "error"
        (report,) = await announces_in(gateway)
        assert "Status: error" in report
        assert "over budget: 50," in report
        assert "budget.tokens of agent main" in report


@pytest.mark.spec("B5")
async def test_an_agent_with_a_budget_of_its_own_keeps_it_when_another_one_pays(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            return costing(sends("read all"), 1_000, 10)
        if has_heard(request, "read all"):
            return costing([ToolUse("x1", "sessions_list", {})], 8_500, 10)
        return costing("fine", 1_000, 10)

    config = config_with({"tokens": 100_000}, {"librarian": {"budget": {"tokens": 9_000}}})
    async with open_gateway(tmp_path, ScriptedProvider(answer), config=config) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (result,) = await results_of(gateway, run)

        assert "of 9,000 tokens are spent" in result["error"]
        assert "agent librarian" in result["error"]
        assert run.status == "ok"
        inner, outer = await account_of(gateway, "r1::c1"), await account_of(gateway, "r1")
        assert (inner.parent_id, inner.spent.tokens) == ("r1", 8_510)
        assert outer.spent.tokens == 8_510 + 2 * 1_010


@pytest.mark.spec("B5")
async def test_an_agent_with_a_large_budget_cannot_spend_more_than_whoever_sends(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            return costing(sends("read all"), 1_000, 10)
        if has_heard(request, "read all"):
            return costing([ToolUse(f"x{len(request.turns)}", "sessions_list", {})], 8_000, 10)
        return costing("fine", 1_000, 10)

    own = {"main": {"budget": {"tokens": 20_000}}, "librarian": {"budget": {"tokens": 900_000}}}
    async with open_gateway(
        tmp_path, ScriptedProvider(answer), config=config_with(None, own)
    ) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (result,) = await results_of(gateway, run)

        assert "of 20,000 tokens are spent" in result["error"]
        assert (await account_of(gateway, "r1")).spent.tokens <= 20_000


@pytest.mark.spec("B5")
@pytest.mark.parametrize("own", [None, {"tokens": 900_000, "costUsd": 900.0, "minutes": 900}])
async def test_a_spawn_draws_from_its_parents_account_and_has_never_more(
    tmp_path: Path, own: dict[str, Any] | None
) -> None:
    """Also where the agent of the child may spend far more when somebody else asks it."""

    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            asked = {"task": "read all", "agentId": "librarian"}
            return costing([ToolUse("c1", "sessions_spawn", asked)], 1_000, 10)
        if "read all" in str(request.turns[0]):
            return costing([ToolUse(f"x{len(request.turns)}", "session_status", {})], 8_000, 10)
        return costing("fine", 10, 10)

    parent = {
        "budget": {"tokens": 40_000, "costUsd": 5.0, "minutes": 5},
        "subagents": {"allowAgents": ["librarian"]},
    }
    agents: dict[str, dict[str, Any]] = {
        "main": parent,
        "librarian": {"budget": own} if own else {},
    }
    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=config_with(None, agents)) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        child = await gateway.run_store.find(spawn.run_id)
        outer = await account_of(gateway, "r1")

    assert child is not None
    assert child.cause.purse is not None
    assert child.cause.purse.ends_at_ms == outer.ends_at_ms
    assert "of 40,000 tokens are spent" in (child.error or "")
    # One call at most costs more than was set aside for it: the service counts 8,000 where we guess less.
    assert 24_000 < outer.spent.tokens < 40_000 + 8_010, "what the child spent is its parent's"


@pytest.mark.spec("B5")
async def test_a_parent_that_is_woken_by_its_child_spends_from_the_same_account(
    tmp_path: Path,
) -> None:
    config = config_with({"tokens": 90_000})
    subagents = msgspec.structs.replace(config.agents.defaults.subagents, wake_parent=True)
    defaults = msgspec.structs.replace(config.agents.defaults, subagents=subagents)
    agents = msgspec.structs.replace(config.agents, defaults=defaults)
    config = msgspec.structs.replace(config, agents=agents)
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        woken = await ended(gateway, "r1::c1::wake")

        assert woken.cause.purse is not None
        assert woken.cause.purse.account_id == "r1"


@pytest.mark.spec("B5", "M5")
async def test_the_summaries_of_a_compaction_are_paid_for(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        if request.system.startswith(SYSTEM):
            return costing("the story so far", 700, 70)
        return costing("words " * 400, 100, 10)

    async with open_gateway(
        tmp_path, ScriptedProvider(answer), config=config_with({"tokens": 90_000})
    ) as gateway:
        for number in range(4):
            await say(gateway, "main", "tell me more", f"r{number}")
        done = await call(gateway, "sessions.compact", key="main")
        assert done["compacted"]

        (row,) = (await call(gateway, "sessions.list"))["sessions"]
        assert row["budget"]["tokensSpent"] == 770


@pytest.mark.spec("B5")
async def test_a_summary_that_cannot_be_paid_is_not_written(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        assert not request.system.startswith(SYSTEM)
        return costing("words " * 400, 100, 10)

    model = ScriptedProvider(answer)
    config = config_with({"tokens": 90_000})
    async with open_gateway(tmp_path, model, config=config) as gateway:
        for number in range(4):
            await say(gateway, "main", "tell me more", f"r{number}")
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 300})) as gateway:
        done = await call(gateway, "sessions.compact", key="main")

        assert not done["compacted"]
        assert "over budget" in done["reason"]


async def side_by_side(folder: Path, delay_s: float) -> tuple[Run, Run]:
    """Two runs of one budget that holds enough for one call at a time; the second call takes long."""

    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            return costing(sends("think", timeout_s=0), 100, 1)
        return costing("done", 100, 1)

    class Slow(ScriptedProvider):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            if len(self.seen) == 1:
                self.seen.append(request)  # so that the other one is not slow as well
                await anyio.sleep(delay_s)
                self.seen.remove(request)
            return await super().complete(request, tell)

    model = ScriptedProvider(answer)
    async with open_gateway(
        folder / "1", model, config=config_with({"tokens": 900_000})
    ) as gateway:
        await say(gateway, "main", "go", "r1")
        await ended(gateway, "r1::c1")
    tokens = max(map(weigh_request, model.seen)) * 3 // 2 + 700
    async with open_gateway(
        folder / "2", Slow(answer), config=config_with({"tokens": tokens})
    ) as gateway:
        return await say(gateway, "main", "go", "r1"), await ended(gateway, "r1::c1")


@pytest.mark.spec("B5")
async def test_what_others_have_reserved_is_waited_for(tmp_path: Path) -> None:
    first, second = await side_by_side(tmp_path, delay_s=40)

    assert (first.status, second.status) == ("ok", "ok")
    assert abs((first.ended_at or 0) - (second.ended_at or 0)) < 40_000
    assert max(first.ended_at or 0, second.ended_at or 0) >= (first.started_at or 0) + 40_000


@pytest.mark.spec("B5")
async def test_what_others_hold_for_too_long_is_not_waited_for(tmp_path: Path) -> None:
    ends = await side_by_side(tmp_path, delay_s=WAIT_S + 30)

    (failed,) = [run for run in ends if run.status != "ok"]
    assert "other runs of the same budget have held" in (failed.error or "")
    assert "raise the budget of agent main" in (failed.error or "")


# ── time ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B5")
async def test_the_time_of_a_budget_ends_a_run_and_the_send_it_waits_for(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        return sends("think long", timeout_s=0) if said_last(request) == "go" else "done"

    model = ScriptedProvider(answer, delay_s=40)
    async with open_gateway(tmp_path, model, config=config_with({"minutes": 1})) as gateway:
        run = await say(gateway, "main", "go", "r1")
        sent = await ended(gateway, "r1::c1")

        for each in (run, sent):
            assert each.status == "error"
            assert "over budget: the 1 min " in (each.error or "")
            assert each.ended_at is not None
        assert (run.ended_at or 0) - (run.started_at or 0) == 60_000
        assert run.ended_at == sent.ended_at


@pytest.mark.spec("B5")
async def test_what_is_still_queued_when_the_time_is_over_asks_no_model(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        return sends("when you can", timeout_s=0) if said_last(request) == "go" else "done"

    class Slow(ScriptedProvider):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            if has_heard(request, "busy"):
                await anyio.sleep(100)
            return await super().complete(request, tell)

    model = Slow(answer)
    async with open_gateway(tmp_path, model, config=config_with({"minutes": 1})) as gateway:
        await submit(gateway, SessionKey.main("librarian"), "busy", run_id="first")
        await anyio.sleep(30)
        await submit(gateway, SessionKey.main("librarian"), "busy", run_id="second")
        await say(gateway, "main", "go", "r1")
        sent = await ended(gateway, "r1::c1")

        assert sent.status == "error"
        assert "over budget: the 1 min " in (sent.error or "")
        assert not any(has_heard(request, "when you can") for request in model.seen)


@pytest.mark.spec("B5")
async def test_a_run_whose_own_time_is_shorter_still_ends_as_a_timeout(tmp_path: Path) -> None:
    model = ScriptedProvider(["late"], delay_s=4000)
    async with open_gateway(tmp_path, model, config=config_with({"minutes": 30})) as gateway:
        run = await say(gateway, "main", "go", "r1")

        assert run.status == "timeout"


# ── cut off ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B5")
async def test_a_call_that_is_stopped_is_paid_for_as_far_as_anybody_knows(tmp_path: Path) -> None:
    model = ScriptedProvider(["never heard"], delay_s=500)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 90_000})) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(5)
        assert (await account_of(gateway, "r1")).reserved.tokens > 500
        await gateway.lanes.abort("r1", "enough")

        account = await account_of(gateway, "r1")
        assert account.reserved == Amount()
        assert 0 < account.spent.tokens < 5_000


@pytest.mark.spec("B5", "M5")
async def test_a_summary_that_is_stopped_is_paid_for_as_well(tmp_path: Path) -> None:
    class Slow(ScriptedProvider):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            if request.system.startswith(SYSTEM):
                await anyio.sleep(500)
            return await super().complete(request, tell)

    model = Slow(lambda _: costing("words " * 400, 100, 10))
    async with (
        open_gateway(tmp_path, model, config=config_with({"tokens": 90_000})) as gateway,
        anyio.create_task_group() as tasks,
    ):
        for number in range(4):
            await say(gateway, "main", "tell me more", f"r{number}")
        tasks.start_soon(partial(call, gateway, "sessions.compact", key="main"))
        await anyio.sleep(5)
        (run,) = await gateway.ledger.list_open_runs(SessionKey.main("main"))
        assert (await account_of(gateway, run.run_id)).reserved.tokens > 0
        await gateway.lanes.abort(run.run_id, "enough")

        account = await account_of(gateway, run.run_id)
        assert account.reserved == Amount()
        assert 0 < account.spent.tokens < 5_000


@pytest.mark.spec("B5", "B1")
async def test_a_call_that_was_cut_off_by_the_end_of_the_gateway_is_paid_for(
    tmp_path: Path,
) -> None:
    config = config_with({"tokens": 90_000})
    async with open_gateway(tmp_path, ScriptedProvider(["never heard"], delay_s=500), config=config) as gateway:  # fmt: skip
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(5)
    model = ScriptedProvider([costing("here again", 3_000, 10)])
    async with open_gateway(tmp_path, model, config=config, clock=VirtualClock()) as gateway:
        run = await ended(gateway, "r1")
        account = await account_of(gateway, "r1")

        assert run.status == "ok"
        assert 3_010 < account.spent.tokens < 8_000


@pytest.mark.spec("B5")
@pytest.mark.parametrize("trouble", ["stopped", "a full disk"])
async def test_what_was_counted_is_not_lost_when_the_next_reservation_is_cut_off(
    tmp_path: Path, trouble: str
) -> None:
    class Troubled:
        """Between the meter and the ledger."""

        async def do(self, op: Any) -> Any:
            if trouble == "a full disk":
                raise StoreError("no room")
            scope.cancel()
            return await gateway.ledger.do(op)

    async def free(address: str, usage: Usage) -> float:
        return 0.0

    model = ScriptedProvider(["never heard"], delay_s=500)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 90_000})) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(5)
        run = await gateway.run_store.find("r1")
        assert run is not None
        troubled: Any = Troubled()
        meter = Meters(troubled, free, VirtualClock()).of(run)
        assert meter is not None
        await meter.count("scripted/test", 10, Usage(700, 70))
        with anyio.CancelScope() as scope, suppress(StoreError):
            await meter.reserve("scripted/test", model.seen[0], 10)

        assert (await account_of(gateway, "r1")).spent.tokens + meter.take().tokens == 770


@pytest.mark.spec("B5", "B1")
async def test_what_a_dead_process_had_reserved_is_free_again(tmp_path: Path) -> None:
    config = config_with({"tokens": 6_000})
    model = ScriptedProvider(["never heard"], delay_s=500)
    async with open_gateway(tmp_path / "gateway", model, config=config) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(5)
        assert (await account_of(gateway, "r1")).reserved.tokens > 0
        copy = crashed_copy(tmp_path / "gateway")
        await gateway.lanes.abort("r1", "this gateway has died")

    model = ScriptedProvider([costing("here again", 3_000, 10)])
    async with open_gateway(copy, model, config=config, clock=VirtualClock()) as gateway:
        run = await ended(gateway, "r1")
        account = await account_of(gateway, "r1")

        assert run.status == "ok"
        assert account.spent.tokens == 3_010
        assert account.reserved == Amount()


@pytest.mark.spec("B5")
async def test_two_calls_at_once_cannot_reserve_the_same_tokens(tmp_path: Path) -> None:
    """The others wait while the first ones hold what is left, until it is spent."""

    def answer(request: ModelRequest) -> Any:
        if said_last(request) == "go":
            tasks = [ToolUse(f"s{n}", "sessions_spawn", {"task": f"task {n}"}) for n in range(4)]
            return costing(tasks, 1_000, 10)
        return costing("done", 1_000, 10)

    model = ScriptedProvider(answer, delay_s=30)
    most = 0

    async def watch(gateway: Gateway) -> None:
        nonlocal most
        while True:
            await anyio.sleep(1)
            account = await account_of(gateway, "r1")
            used = account.spent + account.reserved
            most = max(most, used.tokens)

    async with (
        open_gateway(tmp_path, model, config=config_with({"tokens": 9_000})) as gateway,
        anyio.create_task_group() as tasks,
    ):
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        tasks.start_soon(watch, gateway)
        outcomes = [await ended(gateway, f"r1::s{n}::announce") for n in range(4)]
        tasks.cancel_scope.cancel()

    assert {run.status for run in outcomes} == {"ok", "error"}
    assert any("over budget" in (run.error or "") for run in outcomes)
    assert 5_000 < most <= 9_000


@pytest.mark.spec("B5")
async def test_a_reservation_by_a_run_that_has_ended_is_refused(tmp_path: Path) -> None:
    async with open_gateway(
        tmp_path, ScriptedProvider(["hello"]), config=config_with({"tokens": 9_000})
    ) as gateway:
        run = await say(gateway, "main", "hello", "r1")
        late = Reserve(
            fence=run.fence, account_id="r1", fixed=Amount(1), output=Amount(1), at=run.created_at
        )
        with pytest.raises(Exception, match="this write is void"):
            await gateway.ledger.do(late)


# ── shown ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B5")
async def test_rows_status_and_usage_show_what_is_spent(tmp_path: Path) -> None:
    config = config_with({"tokens": 50_000, "costUsd": 2, "minutes": 10})
    model = ScriptedProvider([costing("hello", 4_000, 500)])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await say(gateway, "main", "hello", "r1")
        text = "4,500 of 50,000 tokens, $0.0500 of $2.0000, 10m00s left"

        (row,) = (await call(gateway, "sessions.list"))["sessions"]
        assert row["budget"]["text"].startswith(text)
        assert (row["budget"]["tokens"], row["budget"]["tokensSpent"]) == (50_000, 4_500)
        described = await call(gateway, "sessions.describe", key="main")
        assert described["session"]["budget"] == row["budget"]
        (told,) = (await call(gateway, "tool.sessions_list"))["sessions"]
        assert told["budget"] == row["budget"]
        status = await call(gateway, "tool.session_status", sessionKey="main")
        assert f"Budget: {text}" in status["statusText"]
        usage = await say(gateway, "main", "/usage", "u1")
        assert f"Budget: {text}" in (usage.reply or "")


@pytest.mark.spec("B5")
async def test_where_there_is_no_budget_no_row_speaks_of_one(tmp_path: Path) -> None:
    async with open_gateway(
        tmp_path, ScriptedProvider(["hello"]), config=config_with(None)
    ) as gateway:
        await say(gateway, "main", "hello", "r1")

        (row,) = (await call(gateway, "sessions.list"))["sessions"]
        assert "budget" not in row
        status = await call(gateway, "tool.session_status", sessionKey="main")
        assert "Budget" not in status["statusText"]
