"""Sharing: which steps may advance side by side, and which wait for each other.

Steps of one transaction that touch the same session (or run, or key) run one after the other, in
the order in which they came; all others together. What an operation touches is said here. One that
is not named here, or whose run is not known, runs alone: that is always right, and only slower.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.runs import Cause
from crossclaw.ledger import operations as ops
from crossclaw.ledger.channels import ForgetHeard, RememberHeard, SaveCursor
from crossclaw.ledger.gateways import TellGateways
from crossclaw.ledger.media import KeepMedia
from crossclaw.ledger.pieces import (
    BeginPreview,
    DropPreview,
    NotePreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.ledger.writing import WriterStep

RUNS_KNOWN_MAX = 20_000  # runs under way and those just ended

Touched = Iterable[str] | None
"""Names of what an operation touches; None if it may touch anything."""


class _SessionAndAccount(NamedTuple):
    """A run's session, and the account that its costs are added to."""

    key: str
    account: str


def _known(run_id: str, key: SessionKey, cause: Cause) -> _SessionAndAccount:
    """What is known of a run. All accounts of a tree of runs have one name: a run pays from several
    of them."""
    return _SessionAndAccount(key.text, f"account:{cause.chain[0] if cause.chain else run_id}")


class Sharing:
    def __init__(self) -> None:
        self._runs: OrderedDict[str, _SessionAndAccount] = OrderedDict()

    def learn(self, step: WriterStep) -> None:
        """Remembers the runs that a step has claimed: their writes come next."""
        for result in step.results:
            if isinstance(result, ops.Claimed):
                run = result.run
                known = _known(run.run_id, run.key, run.cause)
                keep_newest(self._runs, run.run_id, known, RUNS_KNOWN_MAX)

    def touched(self, steps: Sequence[WriterStep]) -> list[set[str] | None]:
        """The names of what each step touches."""
        return [self._touched(step) for step in steps]

    def rounds(
        self, steps: Sequence[WriterStep], all_touched: Sequence[set[str] | None]
    ) -> list[list[WriterStep]]:
        """The steps in groups whose members share nothing, in order."""
        rounds: list[list[WriterStep]] = []
        after: dict[str, int] = {}
        floor = 0
        for step, touched in zip(steps, all_touched, strict=True):
            if touched is None:
                rounds.append([step])
                floor = len(rounds)
                continue
            place = max((after.get(name, 0) for name in touched), default=0)
            place = max(place, floor)
            if place == len(rounds):
                rounds.append([])
            rounds[place].append(step)
            after.update(dict.fromkeys(touched, place + 1))
        return rounds

    def _touched(self, step: WriterStep) -> set[str] | None:
        names: set[str] = set()
        submitted = {
            op.new.run_id: _known(op.new.run_id, op.new.key, op.new.cause)
            for op in step.ops
            if isinstance(op, ops.Submit)
        }
        for op in step.ops:
            say = _TOUCHED.get(type(op))
            if say is not None:
                said = say(op)
                if said is None:
                    return None
                names.update(said)
                continue
            run_id = _run_of(op)
            known = submitted.get(run_id) or self._runs.get(run_id)
            if known is None:
                return None
            names.add(known.key)
            if isinstance(op, ops.Append) and any(new.spent is not None for new in op.entries):
                names.add(known.account)
        return names


def _run_of(op: Any) -> str:
    """The run that an operation works on, if nothing else depends on it."""
    if isinstance(op, ops.Append | ops.EndRun | ops.Join | ops.StartTool | ops.ReleaseRun):
        return op.fence.run_id
    return op.run_id if isinstance(op, ops.EndOpenRun) else ""


def _submit(op: ops.Submit) -> Iterable[str]:
    yield op.new.key.text
    yield f"run:{op.new.run_id}"
    if op.new.cause.chain:
        yield f"root:{op.new.cause.chain[0]}"
    if op.dedupe is not None:
        yield f"dedupe:{op.dedupe.scope}:{op.dedupe.key}"


def _exchange(op: ops.PutExchange | ops.SetExchange) -> Iterable[str]:
    x = op.exchange
    return {x.requester_key or "", x.target_key, f"exchange:{x.exchange_id}", f"root:{x.root}"}


def _spawn(op: ops.PutSpawn | ops.SetSpawn) -> Iterable[str]:
    x = op.spawn
    return {x.parent_key, x.child_key, f"run:{x.run_id}", f"root:{x.root or x.run_id}"}


def _heard(op: RememberHeard | ForgetHeard) -> Iterable[str]:
    chat = op.heard if isinstance(op, RememberHeard) else op
    yield f"heard:{chat.channel}:{chat.account_id}:{chat.chat}:{chat.thread_id}"
    if isinstance(op, RememberHeard):
        yield f"dedupe:{op.dedupe.scope}:{op.dedupe.key}"


def _sent(op: Any) -> Iterable[str]:
    """What operations on a delivery touch: its row and its pieces."""
    return [f"sent:{op.delivery_id}"]


def _preview(op: NotePreview | DropPreview) -> Iterable[str]:
    return [f"delivery:{op.delivery_key}"]


def _take_delivery(op: ops.TakeDelivery) -> Touched:
    """What taking a delivery touches: also its session, and its preview."""
    if not op.key or not op.delivery_key:
        return None
    return [op.key, f"delivery:{op.delivery_key}", f"sent:{op.delivery_id}"]


_TOUCHED: dict[type, Callable[[Any], Touched]] = {
    ops.EnsureSession: lambda op: [op.new.key.text, f"session:{op.new.session_id}"],
    ops.Submit: _submit,
    ops.Claim: lambda op: [op.key.text],
    ops.Inject: lambda op: [op.key.text],
    ops.PutExchange: _exchange,
    ops.SetExchange: _exchange,
    ops.PutSpawn: _spawn,
    ops.SetSpawn: _spawn,
    ops.PutDelivery: lambda op: [op.new.key.text, f"delivery:{op.new.delivery_key}"],
    ops.TakeDelivery: _take_delivery,
    ops.SettleDelivery: _sent,
    SplitDelivery: _sent,
    TakePiece: _sent,
    SettlePiece: _sent,
    BeginPreview: lambda op: [f"delivery:{op.delivery_key}", "previews"],  # old ones go with it
    NotePreview: _preview,
    DropPreview: _preview,
    SaveCursor: lambda op: [f"cursor:{op.channel}:{op.account_id}:{op.name}"],
    RememberHeard: _heard,
    ForgetHeard: _heard,
    ops.Audit: lambda op: [],
    TellGateways: lambda op: [],
    KeepMedia: lambda op: [],  # one statement, which stores what is not there
}
