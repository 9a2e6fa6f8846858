"""A gateway that is asked to leave: nothing new begins, what is under way ends, the rest goes on at the next start."""

from pathlib import Path

import anyio
import pytest

from crossclaw.app.leaving import Leaving
from crossclaw.domain.errors import Invalid
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, two_agents

pytestmark = pytest.mark.spec("B1")

ASKS = (
    'tool: sessions_send {"agentId": "librarian", "message": "wait: 3\\nsay: Nine.", "timeoutSeconds": 30}'
    "\nthen:\nsay: It is nine."
)


async def test_what_is_under_way_ends_and_what_comes_then_waits_for_the_next_start(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(
            gateway, "chat.send", sessionKey="a", message="wait: 5\nsay: done", idempotencyKey="1"
        )
        leaving = Leaving()
        leaving.ask(60)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leaving.drain, gateway.slots, lambda: gateway.lanes.at_work)
            await anyio.sleep(1)
            for name in ("a", "b"):
                await call(
                    gateway,
                    "chat.send",
                    sessionKey=name,
                    message="say: later",
                    idempotencyKey=f"2{name}",
                )
        ended_at = anyio.current_time()
        first = await gateway.ledger.find_run("1")
        waiting = [await gateway.ledger.find_run(f"2{name}") for name in ("a", "b")]
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        after = await gateway.run_store.wait("2b", timeout_s=60)

    assert first is not None
    assert (first.status, first.reply) == ("ok", "done")
    assert ended_at < 10
    assert [run.status for run in waiting if run] == ["queued", "queued"]
    assert after is not None
    assert after.reply == "later"


async def test_a_run_that_takes_longer_than_the_limit_goes_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(
            gateway, "chat.send", sessionKey="a", message="wait: 50\nsay: done", idempotencyKey="1"
        )
        leaving = Leaving()
        leaving.ask(3)
        await leaving.drain(gateway.slots, lambda: gateway.lanes.at_work)
        left_at = anyio.current_time()
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        after = await gateway.run_store.wait("1", timeout_s=600)

    assert left_at < 5
    assert after is not None
    assert (after.status, after.reply) == ("ok", "done")


async def test_the_log_says_where_a_run_goes_on_that_was_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "crossclaw.app.leaving")
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        for among_others in (False, True):
            leaving = Leaving()
            leaving.ask(0.2)
            await leaving.drain(gateway.slots, lambda: True, among_others=among_others)

    left = [line for line in caplog.messages if "what is under way" in line]
    assert [line.partition("goes on ")[2] for line in left] == [
        "at the next start",
        "on another gateway",
    ]


async def test_a_run_that_waits_for_another_under_way_ends_with_its_answer(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message=ASKS, idempotencyKey="1")
        await anyio.sleep(1)
        assert {str(run.key.agent_id) for run in gateway.lanes.under_way} == {"main", "librarian"}
        leaving = Leaving()
        leaving.ask(60)
        await leaving.drain(gateway.slots, lambda: gateway.lanes.at_work)
        run = await gateway.ledger.find_run("1")

    assert run is not None
    assert run.reply == "It is nine."


async def test_whoever_opened_the_store_for_one_call_cannot_be_asked_to_leave(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        with pytest.raises(Invalid, match="no gateway serves here"):
            await call(gateway, "gateway.stop")
