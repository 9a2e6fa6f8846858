"""Runs in the ledger: accepted once, claimed in order, ended once."""

import msgspec
import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Busy, Fenced, KeyReused, NotFound
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Cause, NewRun, Outcome, RunPlan
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    LANE_RUNS_MAX,
    AlreadyAccepted,
    Append,
    Claim,
    Dedupe,
    EndOpenRun,
    Inject,
    PruneDedupe,
    Recover,
    ReleaseRun,
    StartTool,
    Submit,
)
from tests.ledger.making import ANA, BEN, begun, claim, end, find_claim, run, says, session, submit


@pytest.mark.spec("M2", "B1")
async def test_a_message_enters_the_transcript_with_the_claim_of_its_run(ledger: Ledger) -> None:
    await submit(ledger, "r1", text="good morning")
    assert await ledger.list_entries("id-of-ana", limit=9) == []
    assert (await ledger.find_inbox("r1")) == UserMessage("good morning")

    claimed = await find_claim(ledger)

    assert claimed is not None
    assert claimed.run.status == "running"
    assert await ledger.list_entries("id-of-ana", limit=9) == [claimed.entry]
    assert await ledger.find_inbox("r1") is None


async def test_a_run_keeps_all_that_it_was_accepted_with(ledger: Ledger) -> None:
    new = NewRun(
        run_id="r1",
        key=ANA,
        kind="send",
        message=UserMessage("hi"),
        plan=RunPlan(deliver=False, context="be brief", timeout_ms=5000),
        authority=Authority(sandboxed=True, tools=frozenset({"read"})),
        cause=Cause(("r0",), 1),
    )
    await ledger.commit(session(ANA), Submit(new=new, at=2))

    found = await ledger.find_run("r1")

    assert found is not None
    assert (found.kind, found.plan, found.authority, found.cause) == (
        new.kind, new.plan, new.authority, new.cause,
    )  # fmt: skip


async def test_a_lane_has_one_run_at_a_time_in_the_order_of_acceptance(ledger: Ledger) -> None:
    for number in range(3):
        await submit(ledger, f"r{number}")

    first = await claim(ledger)
    assert first.run_id == "r0"
    assert await find_claim(ledger) is None
    await end(ledger, first)
    assert (await claim(ledger)).run_id == "r1"


async def test_lanes_do_not_wait_for_each_other(ledger: Ledger) -> None:
    await begun(ledger, "r1", ANA)

    assert (await begun(ledger, "r2", BEN)).run_id == "r2"


async def test_a_full_lane_refuses_more_and_says_so(ledger: Ledger) -> None:
    await ledger.commit(
        session(ANA), *(Submit(new=run(f"r{n}"), at=2) for n in range(LANE_RUNS_MAX))
    )

    with pytest.raises(Busy, match="1000 messages waiting"):
        await submit(ledger, "one more")
    await submit(ledger, "elsewhere", BEN)


@pytest.mark.spec("B1")
async def test_the_same_dedupe_key_is_one_run(ledger: Ledger) -> None:
    key = Dedupe("chat", "k", "digest")

    assert (await submit(ledger, "r1", dedupe=key)).run_id == "r1"
    with pytest.raises(AlreadyAccepted, match="r1") as known:
        await submit(ledger, "r2", dedupe=key)

    assert known.value.run_id == "r1"
    assert [each.run_id for each in await ledger.list_open_runs(ANA)] == ["r1"]


async def test_of_a_repeated_message_nothing_else_is_stored_either(ledger: Ledger) -> None:
    key, note = Dedupe("chat", "k", "digest"), NewEntry(entry_id="n1", type="note", note={"a": 1})
    await submit(ledger, "r1", dedupe=key)

    for ops in (
        (Inject(key=ANA, entries=[note], at=2), Submit(new=run("r2"), at=2, dedupe=key)),
        (Submit(new=run("r2"), at=2, dedupe=key), Inject(key=ANA, entries=[note], at=2)),
    ):
        with pytest.raises(AlreadyAccepted):
            await ledger.commit(*ops)

    found = await ledger.find_session(ANA)
    assert found is not None
    assert await ledger.list_entries(found.session_id, limit=10) == []


async def test_a_dedupe_key_with_another_payload_is_refused_and_nothing_is_stored(
    ledger: Ledger,
) -> None:
    await submit(ledger, "r1", dedupe=Dedupe("chat", "k", "one"))

    with pytest.raises(KeyReused):
        await submit(ledger, "r2", BEN, dedupe=Dedupe("chat", "k", "another"))
    assert await ledger.find_run("r2") is None
    assert await ledger.find_session(BEN) is None  # the whole step is void


async def test_a_run_id_names_one_run_for_ever(ledger: Ledger) -> None:
    await submit(ledger, "r1")

    with pytest.raises(KeyReused):
        await submit(ledger, "r1", BEN)


async def test_old_dedupe_keys_are_thrown_away(ledger: Ledger) -> None:
    await submit(ledger, "r1", dedupe=Dedupe("chat", "k", "d"))

    assert await ledger.do(PruneDedupe(before=2)) == 0
    assert await ledger.do(PruneDedupe(before=3)) == 1


async def test_a_run_needs_its_session(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="unknown session"):
        await ledger.do(Submit(new=run("r1"), at=1))


@pytest.mark.spec("B1")
async def test_a_writer_that_lost_its_claim_writes_nothing(ledger: Ledger) -> None:
    old = await begun(ledger, "r1")
    await ledger.do(Recover(owner="another process", at=9))
    new = await claim(ledger, owner="another process")

    with pytest.raises(Fenced):
        await ledger.do(Append(fence=old.fence, entries=[says("too late")], at=4))
    with pytest.raises(Fenced):
        await end(ledger, old)
    await end(ledger, new)
    assert [entry.run_id for entry in await ledger.list_entries("id-of-ana", limit=9)] == ["r1"]


@pytest.mark.spec("B1")
async def test_a_run_that_was_given_back_is_not_ended_by_who_had_it(ledger: Ledger) -> None:
    old = await begun(ledger, "r1")
    await ledger.do(ReleaseRun(fence=old.fence))

    with pytest.raises(Fenced):
        await end(ledger, old)
    found = await ledger.find_run("r1")
    assert found is not None
    assert found.status == "queued"


async def test_a_run_ends_once(ledger: Ledger) -> None:
    begun_run = await begun(ledger, "r1")
    await end(ledger, begun_run)

    with pytest.raises(Fenced):
        await end(ledger, begun_run, Outcome("error", error="again"))
    assert await ledger.do(EndOpenRun(run_id="r1", outcome=Outcome("aborted"), at=9)) == ([], [])
    found = await ledger.find_run("r1")
    assert found is not None
    assert (found.status, found.reply) == ("ok", "done")


@pytest.mark.spec("B1")
async def test_a_message_whose_run_is_aborted_before_it_began_is_not_lost(ledger: Ledger) -> None:
    await submit(ledger, "r1", text="remember me")

    ended = await ledger.do(EndOpenRun(run_id="r1", outcome=Outcome("aborted"), at=5))

    assert [run.run_id for run in ended.runs] == ["r1"]
    (entry,) = await ledger.list_entries("id-of-ana", limit=9)
    assert ended.entries == [entry]
    assert entry.message == UserMessage("remember me")
    assert await find_claim(ledger) is None


@pytest.mark.spec("B1")
async def test_what_a_dead_process_left_goes_back_to_the_head_of_its_lane(ledger: Ledger) -> None:
    await begun(ledger, "r1")
    await submit(ledger, "r2")

    recovered = await ledger.do(Recover(owner="next", at=9))
    again = await find_claim(ledger, owner="next")

    assert recovered.keys == [ANA]
    assert again is not None
    assert (again.run.run_id, again.run.attempt, again.entry) == ("r1", 2, None)


async def test_attempts_without_progress_are_counted_and_progress_begins_anew(
    ledger: Ledger,
) -> None:
    await submit(ledger, "r1")
    for boot in ("b1", "b2"):
        await ledger.do(Recover(owner=boot, at=9))
        latest = await claim(ledger, owner=boot)
    assert latest.attempt == 2

    await ledger.do(Append(fence=latest.fence, entries=[says("a step")], at=4))
    for boot in ("b3", "b4", "b5"):
        assert (await ledger.do(Recover(owner=boot, at=9))).given_up == []
        await claim(ledger, owner=boot)

    recovered = await ledger.do(Recover(owner="b6", at=9))
    assert [each.run_id for each in recovered.given_up] == ["r1"]


async def test_a_released_run_has_not_been_tried(ledger: Ledger) -> None:
    for _ in range(5):
        each = await begun(ledger, "r1") if _ == 0 else await claim(ledger)
        await ledger.do(ReleaseRun(fence=each.fence))

    assert (await ledger.do(Recover(owner="next", at=9))).given_up == []
    assert (await claim(ledger)).attempt == 1


async def test_a_tool_begins_once(ledger: Ledger) -> None:
    each = await begun(ledger, "r1")
    begin = StartTool(fence=each.fence, tool_use_id="t1", name="exec", at=4)

    assert await ledger.do(begin) is True
    assert await ledger.do(begin) is False
    assert await ledger.tool_was_started("r1", "t1")
    assert not await ledger.tool_was_started("r1", "t2")


async def test_a_session_counts_its_tokens_and_knows_when_it_was_active(ledger: Ledger) -> None:
    each = await begun(ledger, "r1")
    await ledger.do(Append(fence=each.fence, entries=[says("one"), says("two")], at=4))
    await end(ledger, each)

    found = await ledger.find_session(ANA)

    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (20, 10, 15)
    assert (found.updated_at, found.system_sent) == (9, True)


@pytest.mark.spec("B1")
async def test_a_step_is_all_or_nothing(ledger: Ledger) -> None:
    each = await begun(ledger, "r1")
    await end(ledger, each)

    with pytest.raises(Fenced):
        await ledger.commit(
            Inject(key=ANA, entries=[says("half a step")], at=5),
            Append(fence=each.fence, entries=[says("void")], at=5),
        )
    assert await ledger.last_seq("id-of-ana") == 1
    assert await ledger.search("half", limit=9, sight=EVERYTHING) == []


async def test_a_claim_of_nothing_is_nothing(ledger: Ledger) -> None:
    assert await ledger.do(Claim(key=ANA, owner="me", at=1)) is None


def test_operations_are_plain_data() -> None:
    op = Submit(new=run("r1"), at=2)

    assert msgspec.structs.replace(op, at=3).at == 3
    with pytest.raises(AttributeError):
        op.at = 4  # type: ignore[misc]


async def test_the_entries_of_a_run_are_its_own_in_order_and_no_more_than_asked_for(
    ledger: Ledger,
) -> None:
    first = await begun(ledger, "r1")
    await ledger.do(Append(fence=first.fence, entries=[says("one", "e1")], at=3))
    await ledger.do(Inject(key=ANA, entries=[says("somebody else", "e2")], at=3))
    await ledger.do(Append(fence=first.fence, entries=[says("two", "e3")], at=3))
    await end(ledger, first)
    await begun(ledger, "r2")

    found = await ledger.monitoring.entries_of_run("r1", limit=9)
    two = await ledger.monitoring.entries_of_run("r1", limit=2)

    assert [entry.entry_id for entry in found[1:]] == ["e1", "e3"]
    assert {entry.run_id for entry in found} == {"r1"}
    assert two == found[:2]
    assert await ledger.monitoring.entries_of_run("r9", limit=9) == []
