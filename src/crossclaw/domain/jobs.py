"""Jobs: what is to be done when, and their ticks. A tick is one due moment of a job; it runs once.

Names are OpenClaw's, so that a job reads in the ledger as it does on the wire.
"""

from typing import Annotated, Literal

import msgspec

from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Filled, Positive
from crossclaw.domain.authority import Authority

SessionTarget = Literal["main", "isolated"]
WakeMode = Literal["now", "next-heartbeat"]
TickStatus = Literal["running", "ok", "error", "skipped", "missed"]

HEARTBEAT_OK = "HEARTBEAT_OK"
ACK_CHARS_MAX = 300  # OpenClaw's: a remark of this length beside the token is still "all is well"


class WireStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True,
    forbid_unknown_fields=True,
):  # fmt: skip
    """A closed object with OpenClaw's names."""


class At(WireStruct, frozen=True, tag_field="kind", tag="at"):
    """A schedule of one moment. A time without a zone is UTC."""

    at: Filled


class Every(WireStruct, frozen=True, tag_field="kind", tag="every"):
    every_ms: Annotated[int, msgspec.Meta(ge=1, le=8_640_000_000_000_000)]
    anchor_ms: Annotated[int, msgspec.Meta(ge=0, le=8_640_000_000_000_000)] | None = None
    """The time that ticks are counted from; unset: the time the job was made."""


class CronSchedule(WireStruct, frozen=True, tag_field="kind", tag="cron"):
    expr: Filled
    tz: str | None = None


JobSchedule = At | Every | CronSchedule


class SystemEvent(WireStruct, frozen=True, tag_field="kind", tag="systemEvent"):
    """A payload: a notice for the main session."""

    text: Filled


class AgentTurn(WireStruct, frozen=True, tag_field="kind", tag="agentTurn"):
    """A payload: a run in the job's own session."""

    message: Filled
    model: str | None = None
    thinking: ThinkingLevel | None = None
    timeout_seconds: Positive | None = None
    allow_unsafe_external_content: bool | None = None
    deliver: bool | None = None
    channel: str | None = None
    to: str | None = None
    best_effort_deliver: bool | None = None


class Heartbeat(WireStruct, frozen=True, tag_field="kind", tag="heartbeat"):
    """The payload of the built-in heartbeat: made from the config, never by a client."""


Payload = SystemEvent | AgentTurn | Heartbeat


class JobDelivery(WireStruct, frozen=True):
    """The chat that the reply of an isolated run goes to."""

    mode: Literal["none", "announce"]
    channel: Filled | None = None
    """The channel; `last`: where the agent's main session was last talked to."""
    to: str | None = None
    account_id: Filled | None = None
    """The account that posts it; unset: the one of the last chat on that channel, else the one for which the
    agent is bound, else the default one."""
    thread_id: str | int | None = None
    """The thread or topic of the chat."""
    best_effort: bool | None = None

    def __post_init__(self) -> None:
        """Removes blank fields: OpenClaw's clients take no blank words for a chat."""
        for name in ("to", "thread_id"):
            value = getattr(self, name)
            if isinstance(value, str) and not value.strip():
                msgspec.structs.force_setattr(self, name, None)

    @property
    def thread(self) -> str | None:
        return None if self.thread_id is None else str(self.thread_id)


class JobSpec(WireStruct, frozen=True):
    name: Filled
    schedule: JobSchedule
    payload: Payload
    session_target: SessionTarget
    wake_mode: WakeMode = "now"
    agent_id: str | None = None
    description: str | None = None
    delete_after_run: bool | None = None
    delivery: JobDelivery | None = None
    authority: Authority = Authority()
    """The authority of its maker: its runs may do no more."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    agent_id: str
    spec: JobSpec
    enabled: bool
    next_at: int | None
    created_at: int
    updated_at: int
    off_because: str | None = None
    """Why the gateway has switched it off; None if it is on, or a person did it."""

    @property
    def built_in(self) -> bool:
        return isinstance(self.spec.payload, Heartbeat)


class TickId(msgspec.Struct, frozen=True):
    job_id: str
    at: int


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick as the ledger has it, with its run's outcome."""

    job_id: str
    at: int
    status: TickStatus
    run_id: str | None = None
    summary: str | None = None
    ended_at: int | None = None
    key: str | None = None
    session_id: str | None = None
    started_at: int | None = None


def beyond_heartbeat(reply: str, ack_chars_max: int) -> str:
    """The part of a reply that is worth showing: HEARTBEAT_OK at either end means silence, unless more is
    said beside it than a short remark. Alone it may be bold, in code or with a full stop."""
    text = reply.strip()
    if text.strip("*_`~.! ") == HEARTBEAT_OK:
        return ""
    rest = text.removeprefix(HEARTBEAT_OK).removesuffix(HEARTBEAT_OK).strip()
    if rest == text:
        return text
    return rest if len(rest) > ack_chars_max else ""
