"""Calls that wait for a yes, and what was allowed for good, as rows."""

import msgspec
import pytest

from crossclaw.domain.approvals import (
    Approval,
    ApprovalAnswer,
    ExecRule,
    NewApproval,
    ProposedCall,
    StandingGrant,
)
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.errors import Busy, Fenced, Invalid, NotFound
from crossclaw.domain.runs import Fence, Run
from crossclaw.ledger import approvals
from crossclaw.ledger.approvals import (
    AnswerApproval,
    AskApproval,
    ExpireApproval,
    PutGrants,
    RevokeGrant,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import DeleteSession, EndRun, Recover, ReleaseRun
from tests.ledger.making import ANA, OK, claim, submit

LS = ProposedCall(tool="exec", shown="ls -l", program="/usr/bin/ls", arguments=("-l",))
PIPE = ProposedCall(tool="exec", shown="ls | cat", why_unlisted="a pipe")


def new(approval_id: str = "a1", call_id: str = "c1", wish: ProposedCall = LS) -> NewApproval:
    return NewApproval(
        approval_id=approval_id, tool_use_id=call_id, wish=wish, agents=("main",), expires_at=100
    )


async def ask(ledger: Ledger, run: Run, asked: NewApproval | None = None) -> Approval:
    return await ledger.do(AskApproval(fence=run.fence, new=asked or new(), at=10))


def answer(
    approval_id: str = "a1", word: ApprovalAnswer = "allow-once", at: int = 20, **more: object
) -> AnswerApproval:
    given = {"by": "ana", "makers": (CredentialRef("device:x", 3),)} | more
    return AnswerApproval(approval_id=approval_id, answer=word, at=at, **given)  # type: ignore[arg-type]


def grant(grant_id: str = "g1", **more: object) -> StandingGrant:
    first = {"agent_id": "main", "tool": "exec", "created_at": 5, "program": "/usr/bin/ls"}
    return StandingGrant(grant_id=grant_id, **(first | {"arguments": ("-l",)} | more))  # type: ignore[arg-type]


async def begun(ledger: Ledger) -> Run:
    await submit(ledger, "r1")
    return await claim(ledger)


async def status_of(ledger: Ledger, run_id: str = "r1") -> str:
    run = await ledger.find_run(run_id)
    assert run is not None
    return run.status


@pytest.mark.spec("B9")
async def test_a_call_is_asked_about_once_and_its_run_waits(ledger: Ledger) -> None:
    run = await begun(ledger)

    first = await ask(ledger, run)
    again = await ask(ledger, run, new("another-id"))

    assert first == again
    assert (first.approval_id, first.key, first.wish, first.status) == ("a1", ANA, LS, "waiting")
    assert await status_of(ledger) == "waiting"
    assert await ledger.list_waiting_approvals() == [first]
    with pytest.raises(Fenced):
        await ledger.do(AskApproval(fence=Fence("r1", run.epoch + 1), new=new("a2", "c2"), at=10))


@pytest.mark.spec("B9")
async def test_it_is_answered_once_and_the_run_goes_on_when_nothing_else_waits(
    ledger: Ledger,
) -> None:
    run = await begun(ledger)
    await ask(ledger, run)
    await ask(ledger, run, new("a2", "c2"))

    answered = await ledger.do(answer())
    between = await status_of(ledger)
    await ledger.do(answer("a2", "deny"))

    assert (answered.status, answered.answered_by, answered.makers) == (
        "allow-once",
        "ana",
        (CredentialRef("device:x", 3),),
    )
    assert (between, await status_of(ledger)) == ("waiting", "running")
    assert await ledger.find_approval("a1") == answered
    for late in (answer(), answer("a2"), answer("nobody")):
        with pytest.raises(NotFound):
            await ledger.do(late)


@pytest.mark.spec("B9")
async def test_after_its_time_it_cannot_be_answered_and_ends_as_a_no(ledger: Ledger) -> None:
    await ask(ledger, await begun(ledger))

    early = await ledger.do(ExpireApproval(approval_id="a1", at=99))
    with pytest.raises(NotFound):
        await ledger.do(answer(at=100))
    expired = await ledger.do(ExpireApproval(approval_id="a1", at=100))

    assert early is None
    assert expired is not None
    assert (expired.status, expired.allowed) == ("timeout", False)
    assert await status_of(ledger) == "running"
    assert await ledger.do(ExpireApproval(approval_id="a1", at=101)) is None


@pytest.mark.spec("B9")
async def test_always_is_stored_with_the_answer_and_never_for_what_only_a_shell_reads(
    ledger: Ledger,
) -> None:
    run = await begun(ledger)
    await ask(ledger, run)
    await ask(ledger, run, new("a2", "c2", PIPE))

    await ledger.do(answer(word="allow-always", grants=(grant(), grant("g2", agent_id="ops"))))
    with pytest.raises(Invalid, match="only this once: it has a pipe"):
        await ledger.do(answer("a2", "allow-always"))
    await ledger.do(answer("a2", "allow-once", grants=()))

    everybody = await ledger.list_grants(agent_ids=None, limit=9)
    assert {each.grant_id for each in everybody} == {"g1", "g2"}
    assert await ledger.list_grants(agent_ids=["main", "*"], limit=9) == [grant()]
    assert await ledger.list_grants(agent_ids=None, limit=1) != []


async def test_what_was_allowed_before_is_one_and_can_be_taken_back(ledger: Ledger) -> None:
    rule = grant("g3", rule=ExecRule("allowlist", "on-miss"), program=None, arguments=None)
    newer = grant("g9", created_at=9, granted_by="ben")
    elsewhere = grant("g4", agent_id="ops", folder="/work", sandboxed=True)

    made = await ledger.do(PutGrants(grants=(grant(), rule)))
    kept = await ledger.do(PutGrants(grants=(newer, rule)))
    await ledger.do(PutGrants(grants=(newer,), anew=True))

    there = await ledger.do(PutGrants(grants=(elsewhere, grant("g5", agent_id="ops"))))

    assert (made, kept, there) == (2, 0, 2)
    assert elsewhere in await ledger.list_grants(agent_ids=["ops"], limit=9)
    assert await ledger.list_grants(agent_ids=["main"], limit=9) == [newer, rule]
    assert await ledger.do(RevokeGrant(grant_id="g9")) == newer
    assert await ledger.do(RevokeGrant(grant_id="g9")) is None
    assert await ledger.list_grants(agent_ids=["main"], limit=9) == [rule]


@pytest.mark.spec("B9", "B1")
async def test_a_question_outlives_its_process_and_costs_no_attempt(ledger: Ledger) -> None:
    run = await begun(ledger)
    await ask(ledger, run)

    await ledger.do(Recover(owner="another", at=30))
    again = await claim(ledger, owner="another")
    found = await ask(ledger, again, new("other"))
    await ledger.do(ReleaseRun(fence=again.fence))

    assert (found.approval_id, again.attempt) == ("a1", run.attempt)
    assert [each.approval_id for each in await ledger.list_waiting_approvals()] == ["a1"]


@pytest.mark.spec("B9")
async def test_the_end_of_the_run_withdraws_it_and_deleting_the_session_removes_it(
    ledger: Ledger,
) -> None:
    run = await begun(ledger)
    await ask(ledger, run)

    await ledger.do(EndRun(fence=run.fence, outcome=OK, at=50))
    withdrawn = await ledger.find_approval("a1")
    with pytest.raises(NotFound):
        await ledger.do(answer())
    await ledger.do(DeleteSession(key=ANA, at=60))

    assert withdrawn is not None
    assert (withdrawn.status, withdrawn.answered_at) == ("withdrawn", 50)
    assert await ledger.list_waiting_approvals() == []
    assert await ledger.find_approval("a1") is None


async def test_beyond_the_limit_nobody_is_asked(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossclaw.ledger.sqlite.approvals.WAITING_MAX", 1)
    run = await begun(ledger)
    first = await ask(ledger, run)

    with pytest.raises(Busy, match="answer some of them first"):
        await ask(ledger, run, new("a2", "c2"))

    assert approvals.WAITING_MAX > 1
    assert await ask(ledger, run) == msgspec.structs.replace(first)
