"""Session: how chats become sessions, when they begin anew, and who may send."""

from functools import cached_property
from typing import Annotated, Literal

import msgspec

from crossclaw.config.section import Section, names
from crossclaw.domain.aliases import Positive
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.keys import ChatType, DmScope

ResetMode = Literal["daily", "idle"]
SessionType = Literal["direct", "group", "thread"]
SendAction = Literal["allow", "deny"]
TypingMode = Literal["never", "instant", "thinking", "message"]

RESET_HOUR = 4
RESET_IDLE_MINUTES = 60


class Reset(Section, frozen=True):
    mode: ResetMode | None = None
    """The kind of reset: `daily`, at an hour; `idle`, after a pause."""
    at_hour: Annotated[int, msgspec.Meta(ge=0, le=23)] | None = None
    """The hour of the day, 0 to 23."""
    idle_minutes: Positive | None = None
    """The length of the pause."""


class ResetRule(msgspec.Struct, frozen=True):
    """The rule by which a session begins anew: at an hour of the day, after idle minutes, or whichever is first."""

    at_hour: int | None
    idle_minutes: int | None


class ResetByType(Section, frozen=True):
    direct: Reset | None = None
    """Chats with one person."""
    dm: Reset | None = None
    """The older spelling of `direct`."""
    group: Reset | None = None
    """Groups."""
    thread: Reset | None = None
    """Threads."""

    def of(self, kind: SessionType) -> Reset | None:
        match kind:
            case "direct":
                return self.direct or self.dm
            case "group":
                return self.group
            case "thread":
                return self.thread


class SendMatch(Section, frozen=True):
    channel: str | None = None
    """The channel."""
    chat_type: ChatType | Literal["dm"] | None = None
    """The kind of chat."""
    key_prefix: str | None = None
    """The beginning of the session's key, as `sessions list` shows it."""
    raw_key_prefix: str | None = None
    """Another name of `keyPrefix`, used if that is not set."""


class SendRule(Section, frozen=True):
    action: SendAction
    """Whether it allows or denies."""
    match: SendMatch = SendMatch()
    """The sessions it is for; all that is set must fit."""


class SendPolicy(Section, frozen=True):
    default: SendAction = "allow"
    """The action if no rule fits."""
    rules: tuple[SendRule, ...] = ()
    """The rules; of those that fit, one that denies wins."""


class AgentToAgentConfig(Section, frozen=True):
    max_ping_pong_turns: Annotated[int, msgspec.Meta(ge=0, le=5)] = 5
    """How many more turns the two agents have after a send; 0: none."""
    max_hops: Positive = 12
    """How far one message may cause others."""
    max_runs: Positive = 200
    """How many runs one message may cause in all, itself included; a send or a spawn beyond it is refused."""


Age = str | int
"""An age: `30d`, `12h`; a number is days."""


class Maintenance(Section, frozen=True):
    mode: Literal["warn", "enforce"] | None = None
    """What is done about old sessions: `enforce`: they are archived; `warn`: the log says how many would be.
    Unset: nothing."""
    prune_after: Age = "30d"
    """The time without activity after which sessions are archived: not listed, still readable."""
    prune_days: Positive | None = None
    """The older spelling of `pruneAfter`."""
    max_entries: Positive | None = None
    """How many sessions stay listed; beyond it the oldest are archived. Unset: no limit."""
    reset_archive_retention: Age | Literal[False] | None = None
    """The time after which archived sessions are deleted with their transcripts. Unset or false: never."""
    unused = names("rotateBytes maxDiskBytes highWaterBytes archiveDashboardAfter")

    @property
    def archive_after_ms(self) -> int:
        written = f"{self.prune_days}d" if self.prune_days else str(self.prune_after)
        return parse_duration(written, default_unit="d")

    @property
    def delete_after_ms(self) -> int | None:
        written = self.reset_archive_retention
        return parse_duration(str(written), default_unit="d") if written else None


class SessionConfig(Section, frozen=True, dict=True):
    scope: Literal["per-sender", "global"] = "per-sender"
    """Whether each main session is its own (`per-sender`), or one shared session stands for all of them
    (`global`)."""
    dm_scope: DmScope = "main"
    """Which direct chats share a session: all, or each person, channel or account its own."""
    identity_links: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """One person's addresses on several channels."""
    reset: Reset | None = None
    """The rule by which a session begins anew; unset: never by itself."""
    reset_by_type: ResetByType = ResetByType()
    """Another rule by kind of chat."""
    reset_by_channel: dict[str, Reset] = msgspec.field(default_factory=dict)
    """Another rule for single channels."""
    idle_minutes: Positive | None = None
    """The older spelling of `reset` with mode `idle`."""
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    """Words that begin a session anew."""
    send_policy: SendPolicy = SendPolicy()
    """Rules for where replies may go."""
    agent_to_agent: AgentToAgentConfig = AgentToAgentConfig()
    """Exchanges between agents."""
    compress_after_days: Annotated[float, msgspec.Meta(ge=0)] | None = 30
    """The days without a write after which transcripts are compressed; null: never."""
    store: str | None = None
    """OpenClaw's sessions.json; read by `crossclaw import` only."""
    maintenance: Maintenance = Maintenance()
    """Rules for archiving and deleting old sessions; by default nothing is done."""
    typing_mode: TypingMode | None = None
    """The same as `agents.defaults.typingMode`, and before it."""
    typing_interval_seconds: Positive | None = None
    """The same as `agents.defaults.typingIntervalSeconds`, and before it."""
    local = names("store")
    unused = names(
        "mainKey parentForkMaxTokens threadBindings"
        " heartbeatIdleMinutes transcriptRetentionDays maxRecentTurns writeLock"
    )

    @cached_property
    def resets_at_all(self) -> bool:
        """Whether any session begins anew by itself. Asked with every message; mostly none does."""
        by_kind = (self.reset, self.idle_minutes, self.reset_by_channel)
        return any(by_kind) or self.reset_by_type != ResetByType()

    def reset_rule(self, kind: SessionType, channel: str | None) -> ResetRule | None:
        """The rule for a kind of chat and a channel; None, the default: nothing is reset by itself."""
        chosen = self.reset_by_channel.get(channel) if channel else None
        if chosen is None:
            by_type = self.reset_by_type.of(kind)
            chosen = by_type.over(self.reset) if by_type else self.reset
        if chosen is None:
            return ResetRule(None, self.idle_minutes) if self.idle_minutes else None
        if chosen.mode == "idle":
            return ResetRule(None, chosen.idle_minutes or self.idle_minutes or RESET_IDLE_MINUTES)
        hour = RESET_HOUR if chosen.at_hour is None else chosen.at_hour
        return ResetRule(hour, chosen.idle_minutes)
