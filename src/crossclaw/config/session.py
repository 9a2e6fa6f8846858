"""Session: how chats become sessions, when they begin anew, and who may send."""

from typing import Annotated, Literal

import msgspec

from crossclaw.config.section import Positive, Section, names
from crossclaw.domain.keys import ChatType, DmScope

ResetMode = Literal["daily", "idle"]
SessionType = Literal["direct", "group", "thread"]
Action = Literal["allow", "deny"]

RESET_HOUR = 4
RESET_IDLE_MINUTES = 60


class Reset(Section, frozen=True):
    mode: ResetMode | None = None
    at_hour: Annotated[int, msgspec.Meta(ge=0, le=23)] | None = None
    idle_minutes: Positive | None = None

    def over(self, base: "Reset | None") -> "Reset":
        if base is None:
            return self
        mine = {name: v for name, v in msgspec.structs.asdict(self).items() if v is not None}
        return msgspec.structs.replace(base, **mine)


class ResetRule(msgspec.Struct, frozen=True):
    """When a session begins anew: at an hour of the day, after idle minutes, or whichever is first."""

    at_hour: int | None
    idle_minutes: int | None


class ResetByType(Section, frozen=True):
    direct: Reset | None = None
    dm: Reset | None = None
    group: Reset | None = None
    thread: Reset | None = None

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
    chat_type: ChatType | Literal["dm"] | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None


class SendRule(Section, frozen=True):
    action: Action
    match: SendMatch = SendMatch()


class SendPolicy(Section, frozen=True):
    default: Action = "allow"
    rules: tuple[SendRule, ...] = ()


class Exchange(Section, frozen=True):
    max_ping_pong_turns: Annotated[int, msgspec.Meta(ge=0, le=5)] = 5
    max_hops: Positive = 12


class Session(Section, frozen=True):
    scope: Literal["per-sender", "global"] = "per-sender"
    dm_scope: DmScope = "main"
    identity_links: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    reset: Reset | None = None
    reset_by_type: ResetByType = ResetByType()
    reset_by_channel: dict[str, Reset] = msgspec.field(default_factory=dict)
    idle_minutes: Positive | None = None
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    send_policy: SendPolicy = SendPolicy()
    agent_to_agent: Exchange = Exchange()
    compress_after_days: Annotated[float, msgspec.Meta(ge=0)] | None = 30
    """Transcripts that were not written to for so long are compressed; null: never."""
    store: str | None = None
    """OpenClaw's sessions.json; read by `crossclaw import` only."""
    unused = names(
        "mainKey typingIntervalSeconds typingMode parentForkMaxTokens threadBindings maintenance"
        " heartbeatIdleMinutes transcriptRetentionDays maxRecentTurns writeLock"
    )

    def reset_rule(self, kind: SessionType, channel: str | None) -> ResetRule | None:
        """None, the default: nothing is reset by itself."""
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
