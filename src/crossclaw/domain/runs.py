"""Runs: one execution of the agent loop. Everything that happens in a session is one."""

from typing import Literal

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.budgets import BudgetShare
from crossclaw.domain.jobs import TickId
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.queueing import Queueing

WATCHED = ("chat", "agent", "command", "compact")
"""Kinds of runs that somebody may be waiting for in front of a screen."""

RunKind = Literal[
    "chat",
    "agent",
    "send",
    "round",
    "announce",
    "spawn",
    "cron",
    "hook",
    "node",
    "command",
    "compact",
]
SAID_IN_CHAT: frozenset[RunKind] = frozenset({"chat", "announce", "cron", "hook", "node"})
"""Kinds of runs whose reply is said to whoever sits at the session's chat. The others answer an agent, or the client that
asked."""

RunStatus = Literal["queued", "running", "waiting", "ok", "error", "timeout", "aborted"]
OPEN: tuple[RunStatus, ...] = ("queued", "running", "waiting")
EndStatus = Literal["ok", "error", "timeout", "aborted"]

CALLS_AT_ONCE = 8  # of one message; a model that asks for a hundred files gets them eight by eight


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """The runs that led to this one, the first of the chain first."""

    chain: tuple[str, ...] = ()
    hops: int = 0
    purse: BudgetShare | None = None
    """The budget share that all of them spend from, if there is a budget."""

    def root(self, run_id: str) -> str:
        """The first run of the chain, if this is the cause of `run_id`."""
        return self.chain[0] if self.chain else run_id

    def followed_by(self, run_id: str, *, hops: int = 0) -> "Cause":
        """The cause of runs that follow from `run_id`; a send or a spawn is one hop further."""
        return Cause((*self.chain, run_id), self.hops + hops, self.purse)


class RunPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is asked to do beyond its message. Stored with it, so that a restart knows."""

    deliver: bool = True
    """Whether the reply goes to `reply_to`; it is always in the transcript."""
    reply_to: Address | None = None
    answers: str | None = None
    """The platform's id of the chat message that it answers."""
    joined: bool = False
    """Whether that was several messages of a chat, such as the pictures of an album: an edit of one of them is not all of it."""
    context: str | None = None
    """Facts of the gateway or the owner's words that the model gets with this run's message, as the runtime's
    words: never what an agent, a chat, a hook or a tool has said."""
    model: str | None = None
    thinking: str | None = None
    timeout_ms: int | None = None
    exchange_id: str | None = None
    spawned: bool = False
    """Whether the end of this run is a step of its session's spawn."""
    keep_messages: int | None = None
    """The number of newest messages that a compaction by hand leaves as they are."""
    tick: TickId | None = None
    """The job's tick that this run is for."""
    ack_chars_max: int | None = None
    """The number of characters that may stand beside HEARTBEAT_OK, if that means silence."""
    queue: Queueing | None = None
    """The queueing of a chat message whose session is busy."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be accepted: its message goes into the inbox, and later into the transcript. Only a
    compaction has none."""

    run_id: str
    key: SessionKey
    kind: RunKind
    message: UserMessage | None
    plan: RunPlan = RunPlan()
    authority: Authority = Authority()
    cause: Cause = Cause()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the ledger has it."""

    run_id: str
    key: SessionKey
    session_id: str
    kind: RunKind
    status: RunStatus
    attempt: int
    epoch: int
    plan: RunPlan
    authority: Authority
    cause: Cause
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    reply: str | None = None
    error: str | None = None
    merged_into: str | None = None
    """The run that answers this one's message together with its own. They end together."""

    @property
    def ended(self) -> bool:
        return self.status not in OPEN

    @property
    def patient(self) -> bool:
        """Whether nobody watches it: it can wait out a rate limit, and leaves places at a model to those who do."""
        return self.kind not in WATCHED

    @property
    def fence(self) -> "Fence":
        return Fence(self.run_id, self.epoch)


class Fence(msgspec.Struct, frozen=True):
    """The identity of a writing run: its id and the epoch of its claim. The ledger refuses an older one."""

    run_id: str
    epoch: int


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended."""

    status: EndStatus
    reply: str | None = None
    """The words of the run; if it was cut off, those so far."""
    error: str | None = None
