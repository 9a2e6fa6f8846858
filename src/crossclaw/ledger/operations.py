"""Operations: the parts of a step. They are data, not code, so an engine may batch the steps of
many callers."""

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from crossclaw.domain.budgets import Allowance, Amount, Grant
from crossclaw.domain.credentials import Credential
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Fence, NewRun, Outcome, Run
from crossclaw.domain.sessions import Entry, NewEntry, NewSession, Session
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.deliveries import Delivery as Delivery
from crossclaw.ledger.deliveries import DeliveryFile as DeliveryFile
from crossclaw.ledger.deliveries import DeliveryPreview as DeliveryPreview
from crossclaw.ledger.deliveries import DeliveryState as DeliveryState
from crossclaw.ledger.deliveries import NewDelivery as NewDelivery
from crossclaw.ledger.deliveries import TakenDelivery as TakenDelivery
from crossclaw.ledger.deliveries import media_holder as media_holder

R = TypeVar("R")

LANE_RUNS_MAX = 1_000  # a session that far behind will not catch up; whoever sends must know


class Op(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One operation of a step; `R` is the type of its result."""


# ── sessions ───────────────────────────────────────────────────────────────────────────────────


class EnsureSession(Op[Session], frozen=True):
    """Make the session of this key if it does not exist. A given address becomes its newest."""

    new: NewSession
    at: int


class PatchSession(Op[Session], frozen=True):
    """Change settings of a session, by column name; None clears."""

    key: SessionKey
    changes: dict[str, Any]
    at: int


class ResetSession(Op[Session], frozen=True):
    """Give the key a new session id. The old transcript stays readable by its own id. A damaged row
    is made anew."""

    key: SessionKey
    session_id: str
    at: int
    if_untouched_since: int | None = None
    """A condition: it was last changed then and nothing is queued; otherwise nothing changes."""


class DeleteSession(Op[list[str]], frozen=True):
    """Delete a session and all its transcripts. The result is their session ids; each has a timer
    (`aside:<session id>`) until its copy on disk was set aside. Its pending deliveries are
    withdrawn, and if its own send policy denied, also those of others to its chat."""

    key: SessionKey
    at: int
    if_archived_at: int | None = None
    """A condition: it has been archived since then; otherwise nothing changes and the result is
    empty."""


class ArchiveSession(Op[Session | None], frozen=True):
    """Archive a session: not listed, not written to, still readable. None if it does not exist or
    is archived already; Busy if it has open runs."""

    key: SessionKey
    at: int


class UnarchiveSession(Op[Session | None], frozen=True):
    """Unarchive a session. None if it does not exist or is not archived."""

    key: SessionKey
    at: int


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


class Dedupe(msgspec.Struct, frozen=True):
    """Identifies a request: the same key in the same scope is the same request; another `digest` is
    another payload."""

    scope: str
    key: str
    digest: str


class Submitted(msgspec.Struct, frozen=True):
    run_id: str
    duplicate: bool = False


class AlreadyAccepted(Exception):
    """A run was accepted under this dedupe key before. Nothing of the step is stored, since it was the first time."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"accepted before, as run {run_id}")
        self.run_id = run_id


class Submit(Op[Submitted], frozen=True):
    """Accept a run into its session's lane, with its message in the inbox. The session must exist.
    A known dedupe key is AlreadyAccepted; with another digest it is KeyReused."""

    new: NewRun
    at: int
    dedupe: Dedupe | None = None


class Claimed(msgspec.Struct, frozen=True):
    run: Run
    entry: Entry | None
    """The run's message as it entered the transcript; None if a run is resumed."""
    joined: "Joined | None" = None
    dropped: tuple[Run, ...] = ()
    """Runs that ended because too many were waiting."""


class Joined(msgspec.Struct, frozen=True):
    """Runs whose messages another run answers with its own, and these messages as they entered the
    transcript."""

    runs: tuple[Run, ...] = ()
    entries: tuple[Entry, ...] = ()


class NotYet(msgspec.Struct, frozen=True):
    """Says when to claim again: more messages may be on their way."""

    until: int


class Claim(Op[Claimed | NotYet | None], frozen=True):
    """Claim the lane's first run, if no run of the session is open yet. Its message moves from the
    inbox into the transcript in the same step, and so do those that its queue mode lets it answer
    as well."""

    key: SessionKey
    owner: str
    at: int
    allowance: Allowance | None = None
    """The budget of the session's agent: a run that has no account yet opens one."""
    now: str | None = None
    """The current time for the runtime's words; without it messages get no such words."""


class SetAsideDamaged(Op[list[Run]], frozen=True):
    """End the unreadable open runs of a lane with an error, so that they do not block it. The
    result is these, and those whose message alone is damaged: they are still open, and end as any
    run does."""

    key: SessionKey
    at: int


class Join(Op[Joined], frozen=True):
    """Let messages that wait right behind a run and should steer it enter the transcript."""

    fence: Fence
    at: int
    now: str | None = None
    """The current time, as in `Claim`."""


class Append(Op[list[Entry]], frozen=True):
    """Append entries by a run. This is progress: the run's count of attempts begins anew."""

    fence: Fence
    entries: list[NewEntry]
    at: int


class Inject(Op[list[Entry]], frozen=True):
    """Append entries by somebody else: an announce, a note from a client. With `if_there`, a
    session that was deleted meanwhile gets none, without an error."""

    key: SessionKey
    entries: list[NewEntry]
    at: int
    if_there: bool = False
    shown: bool = False
    """Whether the session's chats get the text, as words that came from no run."""


PINS_MAX = 20  # every request carries them for ever: what a small model can still bear
PINNED_BYTES_MAX = 64 * 1024


class PinEntry(Op[Entry], frozen=True):
    """Pin a message, so that no compaction takes it out of the view; or unpin it."""

    session_id: str
    entry_id: str
    pinned: bool = True


class EndRun(Op[list[Run]], frozen=True):
    """End a run, and those whose messages it answered as well; it comes first in the result. Put
    what follows from it into the same step."""

    fence: Fence
    outcome: Outcome
    at: int


class OpenEnd(NamedTuple):
    """What ending a run from outside has stored: the runs that ended, and their messages and last
    entries."""

    runs: list[Run]
    entries: list[Entry]


class EndOpenRun(Op[OpenEnd], frozen=True):
    """End a run from outside, whoever has claimed it, with last entries, and those whose messages
    it answers; nothing if it had already ended. If something follows, that would follow twice: then
    `fenced` makes the whole step void."""

    run_id: str
    outcome: Outcome
    at: int
    entries: tuple[NewEntry, ...] = ()
    fenced: bool = False


class ReleaseRun(Op[None], frozen=True):
    """Put a run back at its place in the lane, as if this attempt had not been made."""

    fence: Fence


class Recovered(msgspec.Struct, frozen=True):
    """What a dead owner left: lanes with work; runs that are given up, because they crash the
    process; and lanes whose first run may do so, in the groups in which they are to begin, a window
    apart."""

    keys: list[SessionKey]
    given_up: list[Run]
    groups: list[list[SessionKey]]
    window_ms: int
    gone: tuple[str, ...] = ()
    """The names of gateways whose lease had expired."""
    runs: int = 0
    """How many runs of these gateways continue on others."""


class Recover(Op[Recovered], frozen=True):
    """Put runs of other owners back into their lanes. One that only waited when they died does not
    count as tried."""

    owner: str
    at: int


class NoteUptime(Op[None], frozen=True):
    """Store how long this process has been up, for the next one, if a suspect ends this one."""

    uptime_ms: int


class StartTool(Op[bool], frozen=True):
    """Record that a tool with effects begins; False if it had begun before (and was cut off)."""

    fence: Fence
    tool_use_id: str
    name: str
    at: int


class Spend(Op[None], frozen=True):
    """Record what a run has spent, when neither an entry nor a further call does."""

    fence: Fence
    spent: Amount


class Reserve(Op[Grant], frozen=True):
    """Reserve the cost of a model call before it, on the account and all outer ones; the result
    says why not. `spent` is the cost of an earlier call of the run that no entry has stored."""

    fence: Fence
    account_id: str
    fixed: Amount
    """The cost of the call before the model says anything."""
    output: Amount
    """The highest cost of its answer."""
    at: int
    priced: bool = True
    """Whether the model's price is known."""
    spent: Amount = Amount()


class BeginWait(Op[list[SessionKey]], frozen=True):
    """Record that a run waits for another. The result is the circle of sessions that this would
    close, the waiting one first; then nothing was stored. Empty if the wait is stored."""

    fence: Fence
    target_run_id: str
    at: int


class EndWait(Op[None], frozen=True):
    fence: Fence
    target_run_id: str


# ── exchanges ──────────────────────────────────────────────────────────────────────────────────


class PutExchange(Op[None], frozen=True):
    """Begin an exchange with a send; the same send again does not begin another. With its rounds
    and its announce it must fit into `runs_max` runs of its root cause, otherwise it is
    TooManyRuns."""

    exchange: Exchange
    runs_max: int


class SetExchange(Op[None], frozen=True):
    """Store how far an exchange has come, in the step that ends the run before."""

    exchange: Exchange


# ── spawns ─────────────────────────────────────────────────────────────────────────────────────


class PutSpawn(Op[None], frozen=True):
    """Give a task to a child; the same spawn again does not give it twice. With its report it must
    fit into `runs_max` runs of its root cause, otherwise it is TooManyRuns, and its parent has at
    most `children_max` at work, otherwise it is TooManyChildren."""

    spawn: Spawn
    runs_max: int
    children_max: int


class SetSpawn(Op[None], frozen=True):
    """Store how far a spawn has come, in the step that ends the run before."""

    spawn: Spawn


# ── deliveries ─────────────────────────────────────────────────────────────────────────────────


class PutDelivery(Op[bool], frozen=True):
    """Put a delivery into the outbox; True if it is new; only then `mirror` enters the transcript.
    `if_there`: nothing for a session that is gone."""

    new: NewDelivery
    at: int
    mirror: NewEntry | None = None
    if_there: bool = False


class TakeDelivery(Op[TakenDelivery | None], frozen=True):
    """Move a delivery from pending to sending, before the channel is called; None if somebody else
    did, or if its session was deleted meanwhile."""

    delivery_id: int
    at: int
    key: str = ""
    """The key of its session; with `delivery_key`, as they were read: by these an engine knows what
    the step touches."""
    delivery_key: str = ""


class SettleDelivery(Op[None], frozen=True):
    """Store how the attempt ended; `pending` with a later `not_before` is a retry, which the
    delivery of a session that was deleted meanwhile does not get."""

    delivery_id: int
    state: DeliveryState
    at: int
    not_before: int = 0
    error: str | None = None
    platform_id: str | None = None
    tried: bool = True
    """Whether it was passed to its channel; if not, that was no attempt."""
    unsent: bool = False  # nothing of this attempt has left


# ── timers, exports, housekeeping ──────────────────────────────────────────────────────────────


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    timer_key: str
    """A unique key: setting the timer again moves it."""
    agent_id: str
    kind: str
    due_at: int
    payload: dict[str, Any] = {}


ASIDE = "aside"  # timers whose transcript's copy is to be set aside: its session was deleted
ASIDE_AFTER_MS = 3_000  # whoever deletes does it at once; this is for one that dies before


def aside_key(session_id: str) -> str:
    return f"{ASIDE}:{session_id}"


class ArmTimer(Op[None], frozen=True):
    timer: Timer


FAR_MS = 2**62  # later than any time
JUMP_MS = 120_000  # a clock set by less was put right; a gateway is restarted in less


class PassTime(Op[int], frozen=True):
    """Count the time that has really passed since the last look (none while the gateway was not
    running). Timers of these kinds are due after a time and not at an hour: what the clock moved
    beyond that is added to them. The result is by how much, in milliseconds."""

    at: int
    elapsed_ms: int
    kinds: tuple[str, ...]


class TakeTimer(Op[bool], frozen=True):
    """Remove a timer in the step that does its work; False if it is gone."""

    timer_key: str


class Export(msgspec.Struct, frozen=True):
    """How far a transcript's JSONL copy has come."""

    agent_id: str
    session_id: str
    key: str
    created_at: int
    last_seq: int
    exported_seq: int
    exported_bytes: int
    compressed_at: int | None = None


class MarkCompressed(Op[bool], frozen=True):
    """Mark the copy as compressed; False if entries have come since `seq`."""

    session_id: str
    seq: int
    at: int


class MarkExported(Op[None], frozen=True):
    """Store how far uncompressed copies have come."""

    exports: list[tuple[str, int, int]]
    """The copies: (session id, last exported seq, bytes of the file)."""


class PutCredential(Op[None], frozen=True):
    """Store a device's credential, or its request for one, in place of what has the same id."""

    credential: Credential
    over: int | None = None
    """The epoch that it must replace, 0 if none may exist; otherwise it is Fenced. None: replace
    anything."""


class DeleteCredential(Op[None], frozen=True):
    """Delete a credential. NotFound if it is gone already: of two who decide at the same time, one
    decides."""

    credential_id: str


class Audit(Op[None], frozen=True):
    """Write a decision to the audit log."""

    at: int
    agent_id: str
    principal: str
    action: str
    target: str
    allowed: bool
    reason: str


class PruneDedupe(Op[int], frozen=True):
    """Delete old idempotency keys, run counts of root causes that have ended, and files of
    deliveries that have not arrived."""

    before: int
