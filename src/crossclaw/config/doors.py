"""Doors: what arrives other than by a client: chat messages, bindings, cron, MCP servers."""

from typing import Literal

import msgspec

from crossclaw.config.channels import GroupChat
from crossclaw.config.section import Count, Loose, Positive, Secrets, Section, names
from crossclaw.domain.secret import Secret

QueueMode = Literal[
    "steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"
]


class Queue(Section, frozen=True):
    mode: QueueMode = "collect"
    """What becomes of messages that come while a session is busy; see [messages](messages.md)."""
    by_channel: dict[str, QueueMode] = msgspec.field(default_factory=dict)
    """Another mode for single channels."""
    debounce_ms: Count = 1_000
    """How long it is waited for more, before those that wait are answered."""
    debounce_ms_by_channel: dict[str, Count] = msgspec.field(default_factory=dict)
    """Another wait for single channels."""
    cap: Positive = 20
    """How many wait at most."""
    drop: Literal["old", "new", "summarize"] = "summarize"
    """Which go when there are more: the oldest, the newest, or the oldest as a summary."""


AckScope = Literal["group-mentions", "group-all", "direct", "all", "off", "none"]


class Messages(Section, frozen=True):
    queue: Queue = Queue()
    """Messages that come while a session is busy."""
    response_prefix: str | None = None
    """What stands before every reply on a chat platform; `auto`: the agent's name. `{model}`, `{provider}`, `{thinkingLevel}` and `{identity.name}` are filled in."""
    ack_reaction: str | None = None
    """The reaction that says that a message was heard; unset: the agent's emoji, or 👀; empty: none."""
    ack_reaction_scope: AckScope = "group-mentions"
    """Which messages get it: those of groups that call the agent where they must, all of groups, direct ones, all."""
    remove_ack_after_reply: bool = False
    """Whether it is taken back when the answer is there."""
    group_chat: GroupChat = GroupChat()
    """Groups."""
    unused = names(
        "messagePrefix inbound statusReactions suppressToolErrors tts visibleReplies usageTemplate"
    )


class BindingPeer(Section, frozen=True):
    kind: Literal["direct", "dm", "group", "channel"]
    """A person, a group or a channel."""
    id: str
    """Its id on the platform."""


class BindingMatch(Section, frozen=True):
    channel: str
    """The channel it came by."""
    account_id: str | None = None
    """Which of our accounts there; `*`: any."""
    peer: BindingPeer | None = None
    """The chat."""
    guild_id: str | None = None
    """The server (Discord) that the chat is on."""
    team_id: str | None = None
    """The team (Slack) that the chat is in."""
    roles: tuple[str, ...] = ()
    """Not distinguished here: a binding with it fits nobody."""


class AuthProfiles(Section, frozen=True):
    profiles: Loose = msgspec.field(default_factory=Loose)
    """OpenClaw's list of profiles; their keys lie in `agents/<id>/agent/auth-profiles.json`."""
    order: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """By provider, the profiles in the order in which they are used."""
    unused = names("cooldowns")


class Binding(Section, frozen=True):
    agent_id: str
    """Who answers."""
    match: BindingMatch
    """What."""
    unused = names("type comment acp session sessionKey sessionScope")


class CronConfig(Section, frozen=True):
    enabled: bool = True
    """Whether jobs run by themselves."""
    store: str | None = None
    """No effect: jobs lie in the ledger."""
    max_concurrent_runs: Positive | None = None
    """Jobs under way at once."""
    local = names("store")
    idle = names("store")
    unused = names(
        "retry webhook webhookToken sessionRetention runLog failureAlert failureDestination"
        " triggers minIntervalMs"
    )


class CommandsConfig(Section, frozen=True):
    text: bool = True
    """No effect: slash commands are always understood."""
    config: bool = False
    """No effect yet."""
    restart: bool = True
    """No effect yet."""
    owner_allow_from: tuple[str | int, ...] = ()
    """Senders who are the owner: `telegram:123`, or the id alone."""
    allow_from: dict[str, tuple[str | int, ...]] = msgspec.field(default_factory=dict)
    """Where given: which senders may use slash commands, by channel (`*`: on every channel); for others they are plain words. The owner always may."""
    idle = names("text config restart")
    unused = names(
        "native nativeSkills bash bashForegroundMs mcp plugins debug useAccessGroups ownerDisplay"
        " ownerDisplaySecret modelsWrite"
    )


class McpServer(Section, frozen=True):
    command: str | None = None
    """The program to start, with `args`."""
    args: tuple[Secret, ...] = ()
    """Its arguments; they are not shown, since a key may be among them."""
    env: Secrets = msgspec.field(default_factory=Secrets)
    """Variables it gets."""
    cwd: str | None = None
    """The folder it starts in."""
    url: str | None = None
    """Where a server that already runs is reached."""
    transport: str | None = None
    """How: `streamable-http`."""
    headers: Secrets = msgspec.field(default_factory=Secrets)
    """Headers for it."""
    enabled: bool = True
    """Whether it is used."""
    disabled: bool = False
    """The other spelling of `enabled: false`."""
    local = names("command args env cwd workingDirectory")
    unused = names("workingDirectory type oauth auth timeout tools codex")


class Mcp(Section, frozen=True):
    servers: dict[str, McpServer] = msgspec.field(default_factory=dict)
    """MCP servers whose tools agents get, by name."""
    unused = names("sessionIdleTtlMs")


LogLevel = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]


class Logging(Section, frozen=True):
    level: LogLevel = "info"
    """How much is written; `silent` writes nothing."""
    console_level: LogLevel | None = None
    """Of the terminal; else the same."""
    file: str | None = None
    """Where the log is written; else in the state folder."""
    console_style: Literal["pretty", "compact", "json"] = "pretty"
    """How a line looks in the terminal; `json`: one JSON object a line. `compact` is the same as `pretty`."""
    file_style: Literal["text", "json"] = "text"
    """How a line looks in the file; `json`: one JSON object a line, as OpenClaw writes it."""
    max_file_bytes: Positive = 10 * 2**20
    """How large the file may become; then it is put aside, and a new one begun."""
    max_files: Positive = 5
    """How many of those that were put aside are kept, as `.1`, `.2` and so on."""
    quiet = names("redactSensitive redactPatterns")
    local = names("file")


class Env(Section, frozen=True):
    """Variables for `${NAME}` and for providers, where the environment itself has none."""

    vars: Secrets = msgspec.field(default_factory=Secrets)
    """The variables."""
    unused = names("shellEnv")
