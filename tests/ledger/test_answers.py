"""What the reads answer after the operations that make it so: jobs, children, sends, devices, archives, imports."""

from typing import Any

import msgspec
import pytest

from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.budgets import Allowance, Amount
from crossclaw.domain.compactions import Obligation
from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import Fenced, NotFound
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.jobs import AgentTurn, Every, Job, JobSpec, Tick, TickId
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.agreed import AgreeTool, SeeTools
from crossclaw.ledger.channels import SaveCursor
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.imports import (
    BeginImport,
    ImportedEntry,
    ImportedSession,
    ImportEntries,
    ImportState,
)
from crossclaw.ledger.jobs import (
    DeleteJob,
    MoveJob,
    PutJob,
    SettleTick,
    SwitchOffJob,
    SwitchOffJobs,
    TakeTick,
)
from crossclaw.ledger.operations import (
    Append,
    ArchiveSession,
    ArmTimer,
    Claim,
    Claimed,
    Dedupe,
    DeleteCredential,
    DeleteSession,
    MarkCompressed,
    MarkExported,
    PassTime,
    PatchSession,
    PinEntry,
    PutCredential,
    PutExchange,
    PutSpawn,
    ResetSession,
    SetAsideDamaged,
    SetExchange,
    SetSpawn,
    Spend,
    Submit,
    Timer,
    UnarchiveSession,
)
from tests.ledger.making import ANA, BEN, CHO, begun, end, run, says, session, submit

replace = msgspec.structs.replace


def job(job_id: str, next_at: int | None, *makers: CredentialRef) -> Job:
    spec = JobSpec(
        name=job_id,
        schedule=Every(every_ms=60_000),
        session_target="isolated",
        payload=AgentTurn(message="go \0 \\u0000"),
        authority=Authority(made_by=frozenset(makers)),
    )
    return Job(
        job_id=job_id,
        agent_id="main",
        spec=spec,
        enabled=True,
        next_at=next_at,
        created_at=1,
        updated_at=1,
    )


async def test_jobs_are_due_once_and_move_on(ledger: Ledger) -> None:
    early, late = job("early", 10), job("late", 20)
    await ledger.commit(PutJob(job=late), PutJob(job=early), session(ANA))
    tick = Tick(job_id="early", at=10, status="running", run_id="r1")

    assert [each.job_id for each in await ledger.list_due_jobs(due_before=20, limit=9)] == [
        "early",
        "late",
    ]
    await ledger.commit(
        TakeTick(job=early, tick=tick, next_at=70), Submit(new=run("r1", ANA), at=10)
    )
    with pytest.raises(Fenced):  # read before the tick was taken
        await ledger.do(MoveJob(job=early, next_at=99))
    await ledger.do(MoveJob(job=late, next_at=30))

    assert await ledger.count_ticks_under_way() == 1
    assert await ledger.next_job_at(after=30) == 70
    assert await ledger.list_due_jobs(due_before=20, limit=9) == []
    settle = SettleTick(tick=TickId("early", 10), status="ok", at=11, summary="went")
    assert [await ledger.do(settle), await ledger.do(settle)] == [True, False]
    (told,) = await ledger.list_ticks("early", limit=9)
    assert (told.status, told.summary) == ("ok", "went")
    assert await ledger.list_ticks(None, limit=9, status="error") == []


async def test_jobs_stop_with_the_credential_they_go_back_to(ledger: Ledger) -> None:
    """Whatever stands in their messages: nobody keeps a credential from being taken away by what a job says."""
    await ledger.commit(
        PutJob(job=job("mine", 10)),
        PutJob(job=job("its", 10, CredentialRef("device:1", 1))),
        PutJob(job=job("gone", 10)),
    )

    off = SwitchOffJobs(credential_ids=("device:1",), reason="it left", at=5)
    assert await ledger.do(off) == ["its"]
    mine = await ledger.find_job("mine")
    assert mine is not None
    await ledger.commit(SwitchOffJob(job=mine, reason="broken", at=6), DeleteJob(job_id="gone"))

    told = {each.job_id: (each.enabled, each.off_because) for each in await ledger.list_jobs()}
    assert told == {"mine": (False, "broken"), "its": (False, "it left")}


def child(key: str, state: Any = "running") -> Spawn:
    return Spawn(
        child_key=key,
        agent_id="main",
        parent_key=ANA.text,
        run_id=f"run of {key}",
        task="count",
        cleanup="keep",
        created_at=1,
        state=state,
    )


async def test_a_session_owes_what_its_children_sends_and_timers_have_under_way(
    ledger: Ledger,
) -> None:
    exchange = Exchange(
        exchange_id="x",
        agent_id="main",
        requester_key=ANA.text,
        target_key=BEN.text,
        run_id="r1",
        request="when?",
        turns_max=5,
        created_at=1,
    )
    bell = Timer(
        timer_key="bell", agent_id="main", kind="bell", due_at=0, payload={"sessionKey": ANA.text}
    )
    await submit(ledger, "r1", BEN)
    await ledger.commit(
        session(ANA),
        PutExchange(exchange=exchange, runs_max=99),
        PutSpawn(spawn=child(CHO.text), runs_max=99, children_max=9),
        ArmTimer(timer=bell),
    )

    owed = await ledger.list_obligations(ANA)
    assert sorted(each.kind for each in owed) == ["child", "send", "timer"]
    assert all(isinstance(each, Obligation) for each in owed)
    assert await ledger.have_talked(BEN, ANA)
    assert not await ledger.have_talked(ANA, CHO)

    await ledger.commit(
        SetExchange(exchange=replace(exchange, state="over", ended_at=9)),
        SetSpawn(spawn=replace(child(CHO.text), state="over", ended_at=9)),
    )
    found, spawn = await ledger.find_exchange("x"), await ledger.find_spawn(CHO)
    assert found is not None
    assert spawn is not None
    assert (found.state, spawn.state) == ("over", "over")
    assert [len(await ledger.list_spawns(ANA, open_only=only)) for only in (False, True)] == [1, 0]


async def test_time_that_the_clock_was_set_ahead_by_makes_no_timer_due(ledger: Ledger) -> None:
    bell = Timer(timer_key="bell", agent_id="main", kind="bell", due_at=1_000_000)
    await ledger.commit(ArmTimer(timer=bell), PassTime(at=0, elapsed_ms=0, kinds=("bell",)))

    moved = await ledger.do(PassTime(at=900_000, elapsed_ms=60_000, kinds=("bell",)))

    assert moved == 840_000
    assert await ledger.list_timers(due_before=1_800_000, limit=9) == []


async def test_time_that_the_clock_was_set_ahead_by_is_no_time_ago(ledger: Ledger) -> None:
    async def ago(now: int, passed_ms: int) -> int:
        return await ledger.moment_ago(now=now, passed_ms=passed_ms)

    for at, elapsed_ms in ((1_000_000, 0), (9_000_000, 60_000), (9_060_000, 60_000)):
        await ledger.do(PassTime(at=at, elapsed_ms=elapsed_ms, kinds=()))

    assert await ago(9_060_000, 60_000) == 9_000_000  # none of it in between
    assert await ago(9_060_000, 60_001) == 1_059_999
    assert await ago(9_060_000, 500_000) == 620_000
    await ledger.do(PassTime(at=1_240_000, elapsed_ms=60_000, kinds=()))  # put right
    assert await ago(1_240_000, 500_000) == 740_000


async def test_credentials_are_put_replaced_and_forgotten_once(ledger: Ledger) -> None:
    phone = Credential(
        credential_id="device:1",
        kind="device",
        subject="phone",
        role="operator",
        scopes=("operator.read",),
        epoch=1,
        created_at=1,
        particulars=DeviceDescription(public_key="k"),
    )
    await ledger.do(PutCredential(credential=phone))
    await ledger.do(PutCredential(credential=replace(phone, epoch=2)))

    assert [each.epoch for each in await ledger.list_credentials()] == [2]
    await ledger.do(DeleteCredential(credential_id="device:1"))
    with pytest.raises(NotFound):
        await ledger.do(DeleteCredential(credential_id="device:1"))
    assert await ledger.list_credentials() == []


async def test_a_session_is_changed_put_away_brought_back_and_deleted(ledger: Ledger) -> None:
    await ledger.commit(session(ANA), session(BEN))
    await ledger.do(PatchSession(key=ANA, changes={"label": "the one"}, at=2))
    await ledger.do(ArchiveSession(key=ANA, at=3))

    assert [each.label for each in await ledger.list_archived(before=9, limit=9)] == ["the one"]
    assert await ledger.do(ArchiveSession(key=ANA, at=4)) is None
    assert await ledger.do(UnarchiveSession(key=ANA, at=5)) is not None
    await ledger.do(ResetSession(key=ANA, session_id="second", at=6))
    past = await ledger.list_transcripts(ANA, limit=9, offset=0)
    assert [each.session_id for each in past] == ["id-of-ana", "second"]
    gone = await ledger.do(DeleteSession(key=ANA, at=7))
    assert sorted(gone) == ["id-of-ana", "second"]
    assert await ledger.find_session(ANA) is None


async def test_quiet_sessions_are_those_that_nothing_happened_in_and_that_are_listed(
    ledger: Ledger,
) -> None:
    await ledger.commit(session(ANA), session(BEN), session(CHO))
    await ledger.do(PatchSession(key=BEN, changes={"label": "busy"}, at=50))
    await ledger.do(ArchiveSession(key=CHO, at=2))

    assert [each.key for each in await ledger.list_quiet(before=50, limit=9)] == [ANA]
    assert [each.key for each in await ledger.list_quiet(before=51, limit=9)] == [ANA, BEN]
    assert [each.key for each in await ledger.list_quiet(before=51, limit=1)] == [ANA]


async def test_the_ends_of_transcripts_pins_and_the_newest_compaction_are_found(
    ledger: Ledger,
) -> None:
    told: dict[str, object] = {"reason": "manual", "tokensBefore": 9, "tokensAfter": 1}
    running = await begun(ledger, "r1", ANA)
    await ledger.do(
        Append(
            fence=running.fence,
            entries=[says("one", "e1"), NewEntry(entry_id="e2", note=told, type="compaction")],
            at=4,
        )
    )
    await ledger.do(PinEntry(session_id="id-of-ana", entry_id="e1"))

    tails = await ledger.list_tails(["id-of-ana", "nobody"], limit=1)
    assert [each.entry_id for each in tails["id-of-ana"]] == ["e1"]
    assert tails["nobody"] == []
    assert [each.entry_id for each in await ledger.list_pinned("id-of-ana")] == ["e1"]
    newest = await ledger.find_compaction("id-of-ana")
    assert newest is not None
    assert newest.note == told
    assert await ledger.has_open_run(ANA)
    await end(ledger, running)
    assert not await ledger.has_open_run(ANA)


async def test_old_copies_are_compressed_unless_something_was_said_since(ledger: Ledger) -> None:
    running = await begun(ledger, "r1", ANA)
    await end(ledger, running)
    await ledger.do(MarkExported(exports=[("id-of-ana", 1, 100)]))

    old = await ledger.list_old_exports(before=99, limit=9)
    assert [each.session_id for each in old] == ["id-of-ana"]
    compress = MarkCompressed(session_id="id-of-ana", seq=1, at=9)
    assert await ledger.do(compress)
    assert await ledger.list_compressed(["id-of-ana", "nobody"]) == {"id-of-ana"}
    assert await ledger.list_old_exports(before=99, limit=9) == []
    assert not await ledger.do(replace(compress, seq=2))


async def test_runs_are_found_by_their_request_and_by_who_made_them(ledger: Ledger) -> None:
    made = Authority(made_by=frozenset({CredentialRef("device:1", 1)}))
    await submit(ledger, "r1", ANA, dedupe=Dedupe("chat", "k", "d"))
    await ledger.commit(session(BEN), Submit(new=replace(run("r2", BEN), authority=made), at=2))

    assert await ledger.find_deduped(Dedupe("chat", "k", "d")) == "r1"
    assert await ledger.find_deduped(Dedupe("chat", "other", "d")) is None
    assert await ledger.list_request_times("chat", "k", since=1, limit=9) == [2]
    for scope, prefix, since in (("chat", "o", 1), ("inbound", "k", 1), ("chat", "k", 2)):
        assert await ledger.list_request_times(scope, prefix, since=since, limit=9) == []
    assert [each.run_id for each in await ledger.list_made_runs()] == ["r2"]
    assert await ledger.do(SetAsideDamaged(key=ANA, at=3)) == []  # all of it can be read


async def test_what_a_run_spends_is_found_with_its_session(ledger: Ledger) -> None:
    await submit(ledger, "r1", ANA)
    claimed = await ledger.do(Claim(key=ANA, owner="me", at=3, allowance=Allowance(tokens=100)))
    assert isinstance(claimed, Claimed)
    await ledger.do(Spend(fence=claimed.run.fence, spent=Amount(tokens=7)))

    accounts = await ledger.list_accounts([ANA, BEN])
    assert {key: each.spent.tokens for key, each in accounts.items()} == {ANA: 7}


async def test_a_changed_tool_is_held_until_it_is_agreed_to(ledger: Ledger) -> None:
    first = SeeTools(server="files", tools={"read": ("d1", "reads")}, at=1)
    assert await ledger.do(first) == []
    assert await ledger.do(replace(first, tools={"read": ("d2", "deletes")}, at=2)) == ["read"]

    (held,) = await ledger.list_held_tools()
    assert (held.words, held.new_words) == ("reads", "deletes")
    assert await ledger.do(AgreeTool(server="files", tool="read", digest="d2", at=3))
    assert await ledger.list_held_tools() == []


async def test_a_cursor_is_of_one_account_and_moves(ledger: Ledger) -> None:
    saved = SaveCursor(channel="telegram", account_id="default", name="offset", value="7", at=1)
    await ledger.do(saved)
    await ledger.do(replace(saved, account_id="work", value="100", at=2))
    await ledger.do(replace(saved, value="8", at=3))

    assert await ledger.find_cursor("telegram", "default", "offset") == "8"
    assert await ledger.find_cursor("telegram", "work", "offset") == "100"
    assert await ledger.find_cursor("telegram", "work", "other") is None


async def test_an_import_goes_on_where_it_stopped_and_never_twice(ledger: Ledger) -> None:
    foreign = ImportedSession(key=ANA, session_id="old", created_at=1, updated_at=2, columns={})
    begin = BeginImport(session=foreign, path="old.jsonl", at=3)
    before = await ledger.do(begin)
    assert before is not None
    after = replace(before, bytes=10, lines=1, entries=1)
    step = ImportEntries(
        session_id="old", entries=[ImportedEntry(says("hi"), 1)], before=before, after=after
    )
    await ledger.do(step)
    with pytest.raises(Fenced):
        await ledger.do(step)

    again = await ledger.do(begin)
    assert isinstance(again, ImportState)
    assert (again.lines, again.last_seq) == (1, 1)
