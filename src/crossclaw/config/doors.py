"""Doors: what arrives other than by a client: chat messages, bindings, cron, MCP servers."""

from typing import Literal

import msgspec

from crossclaw.config.section import Count, Loose, Positive, Secrets, Section, names

QueueMode = Literal[
    "steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"
]


class Queue(Section, frozen=True):
    mode: QueueMode = "collect"
    by_channel: dict[str, QueueMode] = msgspec.field(default_factory=dict)
    debounce_ms: Count = 1_000
    debounce_ms_by_channel: dict[str, Count] = msgspec.field(default_factory=dict)
    cap: Positive = 20
    drop: Literal["old", "new", "summarize"] = "summarize"

    def mode_for(self, channel: str | None) -> QueueMode:
        return self.by_channel.get(channel, self.mode) if channel else self.mode

    def debounce_ms_for(self, channel: str | None) -> int:
        default = self.debounce_ms
        return self.debounce_ms_by_channel.get(channel, default) if channel else default


class Messages(Section, frozen=True):
    queue: Queue = Queue()
    response_prefix: str | None = None
    ack_reaction: str | None = None
    ack_reaction_scope: str | None = None
    group_chat: Loose = msgspec.field(default_factory=Loose)
    unused = names(
        "messagePrefix inbound removeAckAfterReply statusReactions suppressToolErrors tts"
        " visibleReplies usageTemplate"
    )


class Peer(Section, frozen=True):
    kind: Literal["direct", "dm", "group", "channel"]
    id: str


class BindingMatch(Section, frozen=True):
    channel: str
    account_id: str | None = None
    peer: Peer | None = None
    guild_id: str | None = None
    team_id: str | None = None
    roles: tuple[str, ...] = ()


class Binding(Section, frozen=True):
    agent_id: str
    match: BindingMatch
    unused = names("type comment acp session sessionKey sessionScope")


class Cron(Section, frozen=True):
    enabled: bool = True
    store: str | None = None
    max_concurrent_runs: Positive | None = None
    unused = names(
        "retry webhook webhookToken sessionRetention runLog failureAlert failureDestination"
        " triggers minIntervalMs"
    )


class Commands(Section, frozen=True):
    text: bool = True
    config: bool = False
    restart: bool = True
    owner_allow_from: tuple[str | int, ...] = ()
    allow_from: dict[str, tuple[str | int, ...]] = msgspec.field(default_factory=dict)
    unused = names(
        "native nativeSkills bash bashForegroundMs mcp plugins debug useAccessGroups ownerDisplay"
        " ownerDisplaySecret modelsWrite"
    )


class McpServer(Section, frozen=True):
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Secrets = msgspec.field(default_factory=Secrets)
    cwd: str | None = None
    url: str | None = None
    transport: str | None = None
    headers: Secrets = msgspec.field(default_factory=Secrets)
    enabled: bool = True
    disabled: bool = False
    unused = names("workingDirectory type oauth auth timeout tools codex")


class Mcp(Section, frozen=True):
    servers: dict[str, McpServer] = msgspec.field(default_factory=dict)
    unused = names("sessionIdleTtlMs")


LogLevel = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]


class Logging(Section, frozen=True):
    level: LogLevel = "info"
    console_level: LogLevel | None = None
    """Of the terminal; else the same."""
    file: str | None = None
    quiet = names("consoleStyle redactSensitive redactPatterns maxFileBytes")


class Env(Section, frozen=True):
    """Variables for `${NAME}` and for providers, where the environment itself has none."""

    vars: Secrets = msgspec.field(default_factory=Secrets)
    unused = names("shellEnv")
