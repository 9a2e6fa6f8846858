"""Short ways to say what ledger tests say often."""

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, Usage, UserMessage
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    Claim,
    Claimed,
    Dedupe,
    EndRun,
    EnsureSession,
    NotYet,
    Submit,
    Submitted,
)

ANA = SessionKey.named("main", "ana")
BEN = SessionKey.named("main", "ben")
CHO = SessionKey.named("ops", "cho")
OK = Outcome("ok", reply="done")


def session(key: SessionKey) -> EnsureSession:
    return EnsureSession(new=NewSession(key=key, session_id=f"id-of-{key.name}"), at=1)


def run(run_id: str, key: SessionKey = ANA, text: str = "hello") -> NewRun:
    return NewRun(run_id=run_id, key=key, kind="chat", message=UserMessage(text))


def says(text: str, entry_id: str = "e") -> NewEntry:
    message = AssistantMessage([Text(text)], usage=Usage(10, 5), stop_reason="end_turn")
    return NewEntry(entry_id=entry_id, message=message)


async def submit(
    ledger: Ledger,
    run_id: str,
    key: SessionKey = ANA,
    text: str = "hello",
    dedupe: Dedupe | None = None,
) -> Submitted:
    results = await ledger.commit(
        session(key), Submit(new=run(run_id, key, text), at=2, dedupe=dedupe)
    )
    answer: Submitted = results[1]
    return answer


async def claim(ledger: Ledger, key: SessionKey = ANA, owner: str = "me") -> Run:
    claimed = await find_claim(ledger, key, owner)
    assert claimed is not None, f"nothing to claim in {key}"
    return claimed.run


async def find_claim(ledger: Ledger, key: SessionKey = ANA, owner: str = "me") -> Claimed | None:
    claimed = await ledger.do(Claim(key=key, owner=owner, at=3))
    assert not isinstance(claimed, NotYet), "nothing here is asked to wait"
    return claimed


async def begun(ledger: Ledger, run_id: str, key: SessionKey = ANA) -> Run:
    await submit(ledger, run_id, key)
    return await claim(ledger, key)


async def end(ledger: Ledger, run: Run, outcome: Outcome = OK) -> Run:
    (ended,) = await ledger.do(EndRun(fence=run.fence, outcome=outcome, at=9))
    return ended
