"""Operations: what a step is made of. Data, not code, so an engine may batch the steps of many callers."""

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
from crossclaw.ledger.deliveries import Taken as Taken
from crossclaw.ledger.deliveries import media_holder as media_holder

R = TypeVar("R")

LANE_RUNS_MAX = 1_000  # a session that far behind will not catch up; whoever sends must know


class Op(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One operation of a step; `R` is what it answers."""


# ── sessions ───────────────────────────────────────────────────────────────────────────────────


class EnsureSession(Op[Session], frozen=True):
    """The session of this key, made if it is not there. An address given is its newest."""

    new: NewSession
    at: int


class PatchSession(Op[Session], frozen=True):
    """Change what may be set on a session; None clears. Names are the columns' own."""

    key: SessionKey
    changes: dict[str, Any]
    at: int


class ResetSession(Op[Session], frozen=True):
    """A new session id under the same key. The old transcript stays readable by its own id. A damaged row is made anew."""

    key: SessionKey
    session_id: str
    at: int
    if_untouched_since: int | None = None
    """Only when it was last changed then and nothing is queued; otherwise it stays as it is."""


class DeleteSession(Op[list[str]], frozen=True):
    """Forget a session and all its transcripts. Answers their session ids; a timer of each
    (`aside:<session id>`) stands until its copy on disk was set aside. What it has still to say is
    not said any more, and if its own send policy denied, neither is what others say to its chat."""

    key: SessionKey
    at: int
    if_archived_at: int | None = None
    """Only while it is put away since then; otherwise it stays, and nothing is answered."""


class ArchiveSession(Op[Session | None], frozen=True):
    """Put a session away: not listed, not written to, still readable. None when it is not there or
    has been put away before; one with open runs is Busy."""

    key: SessionKey
    at: int


class UnarchiveSession(Op[Session | None], frozen=True):
    """Bring back a session that was put away. None when it is not there or not put away."""

    key: SessionKey
    at: int


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


class Dedupe(msgspec.Struct, frozen=True):
    """The same key in the same scope is the same request; `digest` tells another payload."""

    scope: str
    key: str
    digest: str


class Submitted(msgspec.Struct, frozen=True):
    run_id: str
    duplicate: bool = False


class Submit(Op[Submitted], frozen=True):
    """Accept a run into its session's lane, with its message in the inbox. The session must be there. A known dedupe key answers with the first run; with another digest it is KeyReused."""

    new: NewRun
    at: int
    dedupe: Dedupe | None = None


class Claimed(msgspec.Struct, frozen=True):
    run: Run
    entry: Entry | None
    """The run's message as it entered the transcript; None when a run is taken up again."""
    joined: "Joined | None" = None
    dropped: tuple[Run, ...] = ()
    """Runs that ended thereby: too many were waiting."""


class Joined(msgspec.Struct, frozen=True):
    """Runs whose messages another one answers with its own, and these as they entered the transcript."""

    runs: tuple[Run, ...] = ()
    entries: tuple[Entry, ...] = ()


class NotYet(msgspec.Struct, frozen=True):
    """More messages may be on their way: claim again at that time."""

    until: int


class Claim(Op[Claimed | NotYet | None], frozen=True):
    """Take the lane's first run, if no run of the session is open yet. Its message moves from the inbox into the
    transcript in the same step, and so do those that its queue mode lets it answer as well."""

    key: SessionKey
    owner: str
    at: int
    allowance: Allowance | None = None
    """The budget of the session's agent: a run that has no account yet opens one."""
    now: str | None = None
    """The moment as the runtime's words tell it; without it messages enter without such words."""


class SetAsideDamaged(Op[list[Run]], frozen=True):
    """Open runs of a lane that cannot be read end in error, so that they do not hold it. Answers them, and those
    whose message alone is damaged: they are still open, and end as any run does."""

    key: SessionKey
    at: int


class Join(Op[Joined], frozen=True):
    """Messages that wait right behind a run and are meant to steer it enter the transcript."""

    fence: Fence
    at: int
    now: str | None = None
    """As in `Claim`."""


class Append(Op[list[Entry]], frozen=True):
    """Entries by a run. This is progress: the run's count of attempts begins anew."""

    fence: Fence
    entries: list[NewEntry]
    at: int


class Inject(Op[list[Entry]], frozen=True):
    """Entries by somebody else: an announce, a note from a client. With `if_there` a session that
    was deleted meanwhile gets none, and nobody minds."""

    key: SessionKey
    entries: list[NewEntry]
    at: int
    if_there: bool = False
    shown: bool = False
    """Whether the session's chats are told, as words that came from no run."""


PINS_MAX = 20  # every request carries them for ever: what a small model can still bear
PINNED_BYTES_MAX = 64 * 1024


class PinEntry(Op[Entry], frozen=True):
    """Mark a message, so that no compaction takes it out of the view; or take the mark away."""

    session_id: str
    entry_id: str
    pinned: bool = True


class EndRun(Op[list[Run]], frozen=True):
    """The run is over, and with it those whose messages it answered as well; it comes first in the
    answer. Put what follows from it into the same step."""

    fence: Fence
    outcome: Outcome
    at: int


class OpenEnd(NamedTuple):
    """What ending a run from outside has stored: the runs that ended, and their messages and last words."""

    runs: list[Run]
    entries: list[Entry]


class EndOpenRun(Op[OpenEnd], frozen=True):
    """End a run from outside, whoever has it, with last words, and those whose messages it answers;
    nothing when it had already ended. Where something follows, that would follow twice: then `fenced`
    makes the whole step void."""

    run_id: str
    outcome: Outcome
    at: int
    entries: tuple[NewEntry, ...] = ()
    fenced: bool = False


class ReleaseRun(Op[None], frozen=True):
    """Put a run back at its place in the lane, as if this attempt had not been made."""

    fence: Fence


class Recovered(msgspec.Struct, frozen=True):
    """What a dead owner left: lanes with work; runs that are given up, because they end the process; and
    lanes whose first run may do so, in the groups in which they are to begin, a window apart."""

    keys: list[SessionKey]
    given_up: list[Run]
    groups: list[list[SessionKey]]
    window_ms: int
    gone: tuple[str, ...] = ()
    """The names of gateways whose lease was over."""
    runs: int = 0
    """How many of their runs go on elsewhere."""


class Recover(Op[Recovered], frozen=True):
    """Runs of other owners go back to their place; one that only waited when they died has not been tried."""

    owner: str
    at: int


class NoteUptime(Op[None], frozen=True):
    """How long this process has lived, for the next one, should a suspect end this one."""

    uptime_ms: int


class StartTool(Op[bool], frozen=True):
    """Note that a tool with effects begins; False when it had begun before (and was cut off)."""

    fence: Fence
    tool_use_id: str
    name: str
    at: int


class Spend(Op[None], frozen=True):
    """What a run has spent, where neither an entry nor a further call settles it."""

    fence: Fence
    spent: Amount


class Reserve(Op[Grant], frozen=True):
    """Before a model call: set aside what it may cost, on the account and all around it, or hear why
    not. `spent` is what an earlier call of the run has cost and no entry has settled."""

    fence: Fence
    account_id: str
    fixed: Amount
    """What the call takes before the model says anything."""
    output: Amount
    """What its answer takes at most."""
    at: int
    priced: bool = True
    """Whether anybody knows what the model costs."""
    spent: Amount = Amount()


class BeginWait(Op[list[SessionKey]], frozen=True):
    """A run waits for another. Answers the circle of sessions that this would close, first the
    waiting one; then nothing was noted. An empty answer: the wait stands."""

    fence: Fence
    target_run_id: str
    at: int


class EndWait(Op[None], frozen=True):
    fence: Fence
    target_run_id: str


# ── exchanges ──────────────────────────────────────────────────────────────────────────────────


class PutExchange(Op[None], frozen=True):
    """A send begins an exchange; the same send again does not begin another. With its rounds and its
    announce it must fit into `runs_max` runs of its root cause, otherwise it is TooManyRuns."""

    exchange: Exchange
    runs_max: int


class SetExchange(Op[None], frozen=True):
    """How far it has come. Put it into the step that ends the run before."""

    exchange: Exchange


# ── spawns ─────────────────────────────────────────────────────────────────────────────────────


class PutSpawn(Op[None], frozen=True):
    """A task is given to a child; the same spawn again does not give it twice. With its report it must
    fit into `runs_max` runs of its root cause, otherwise it is TooManyRuns, and its parent has at most
    `children_max` at work, otherwise it is TooManyChildren."""

    spawn: Spawn
    runs_max: int
    children_max: int


class SetSpawn(Op[None], frozen=True):
    """How far it has come. Put it into the step that ends the run before."""

    spawn: Spawn


# ── deliveries ─────────────────────────────────────────────────────────────────────────────────


class PutDelivery(Op[bool], frozen=True):
    """True when it is new; only then `mirror` enters the transcript. `if_there`: nothing for a session that is gone."""

    new: NewDelivery
    at: int
    mirror: NewEntry | None = None
    if_there: bool = False


class TakeDelivery(Op[Taken | None], frozen=True):
    """From pending to sending, before the channel is called; None when somebody else did, or when
    its session was deleted meanwhile."""

    delivery_id: int
    at: int
    key: str = ""
    """Of its session, and its own key, as they were read: by these an engine knows what the step touches."""
    delivery_key: str = ""


class SettleDelivery(Op[None], frozen=True):
    """How the attempt ended; `pending` with a later `not_before` is a retry, which the delivery of a
    session that was deleted meanwhile does not get."""

    delivery_id: int
    state: DeliveryState
    at: int
    not_before: int = 0
    error: str | None = None
    platform_id: str | None = None
    tried: bool = True
    """False for one that was taken and never handed to its channel: that was no attempt."""
    unsent: bool = False  # nothing of this attempt has left


# ── timers, exports, housekeeping ──────────────────────────────────────────────────────────────


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    timer_key: str
    """Unique: arming it again moves it."""
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
    """So much time has really passed since the last look (none of it, where the gateway was not there). Timers of
    these kinds are due after a time and not at an hour: what the clock says beyond that is added to
    them. Answers by how much, in milliseconds."""

    at: int
    elapsed_ms: int
    kinds: tuple[str, ...]


class TakeTimer(Op[bool], frozen=True):
    """Remove a timer in the step that does what it stands for; False when it is gone."""

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
    """The copy is compressed; False when entries have come since `seq`."""

    session_id: str
    seq: int
    at: int


class MarkExported(Op[None], frozen=True):
    """A plain copy has come so far."""

    exports: list[tuple[str, int, int]]
    """(session id, last exported seq, bytes of the file)"""


class PutCredential(Op[None], frozen=True):
    """A device's credential, or its wish for one; what has the same id is replaced."""

    credential: Credential
    over: int | None = None
    """The epoch of the one that it replaces, 0: there is none; otherwise it is Fenced. None: whatever is there."""


class DeleteCredential(Op[None], frozen=True):
    """Forget one. NotFound when it is gone already: of two who decide at once, one decides."""

    credential_id: str


class Audit(Op[None], frozen=True):
    """A decision worth remembering."""

    at: int
    agent_id: str
    principal: str
    action: str
    target: str
    allowed: bool
    reason: str


class PruneDedupe(Op[int], frozen=True):
    """Forget old idempotency keys, the run counts of root causes that have come to rest, and files of deliveries that
    have not arrived."""

    before: int
