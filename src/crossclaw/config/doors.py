"""Sections about what arrives other than by a client: chat messages, bindings, cron, MCP servers."""

from typing import Literal

import msgspec

from crossclaw.config.channels import GroupChat
from crossclaw.config.section import Count, Loose, Secrets, Section, names
from crossclaw.domain.aliases import Positive
from crossclaw.domain.secret import Secret

QueueMode = Literal[
    "steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"
]


class Queue(Section, frozen=True):
    mode: QueueMode = "collect"
    """How messages are handled that come while a session is busy; see [messages](messages.md)."""
    by_channel: dict[str, QueueMode] = msgspec.field(default_factory=dict)
    """Another mode for single channels."""
    debounce_ms: Count = 1_000
    """How long the gateway waits for more messages before it answers those that wait."""
    debounce_ms_by_channel: dict[str, Count] = msgspec.field(default_factory=dict)
    """Another wait for single channels."""
    cap: Positive = 20
    """The most messages that wait."""
    drop: Literal["old", "new", "summarize"] = "summarize"
    """Which messages go when there are more: the oldest, the newest, or the oldest as a summary."""


AckScope = Literal["group-mentions", "group-all", "direct", "all", "off", "none"]


class Messages(Section, frozen=True):
    queue: Queue = Queue()
    """Messages that come while a session is busy."""
    response_prefix: str | None = None
    """A text before every reply on a chat platform; `auto`: the agent's name. `{model}`, `{provider}`,
    `{thinkingLevel}` and `{identity.name}` are filled in."""
    ack_reaction: str | None = None
    """The reaction that shows that a message was received; unset: the agent's emoji, or 👀; empty: none."""
    ack_reaction_scope: AckScope = "group-mentions"
    """Which messages get that reaction: those of groups that call the agent where they must, all of groups,
    direct ones, all."""
    remove_ack_after_reply: bool = False
    """Whether that reaction is taken back when the answer is there."""
    group_chat: GroupChat = GroupChat()
    """Groups."""
    unused = names(
        "messagePrefix inbound statusReactions suppressToolErrors tts visibleReplies usageTemplate"
    )


class BindingPeer(Section, frozen=True):
    kind: Literal["direct", "dm", "group", "channel"]
    """The kind of chat: with a person, a group or a channel."""
    id: str
    """The chat's id on the platform."""


class BindingMatch(Section, frozen=True):
    channel: str
    """The channel of the message."""
    account_id: str | None = None
    """The account of ours there; `*`: any."""
    peer: BindingPeer | None = None
    """The chat."""
    guild_id: str | None = None
    """The server (Discord) that the chat is on."""
    team_id: str | None = None
    """The team (Slack) that the chat is in."""
    roles: tuple[str, ...] = ()
    """Roles are not distinguished here: a binding with it fits nobody."""


class AuthProfiles(Section, frozen=True):
    profiles: Loose = msgspec.field(default_factory=Loose)
    """OpenClaw's list of profiles; their keys lie in `agents/<id>/agent/auth-profiles.json`."""
    order: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The profiles of each provider, in the order in which they are used."""
    unused = names("cooldowns")


class Binding(Section, frozen=True):
    agent_id: str
    """The agent that answers."""
    match: BindingMatch
    """The messages it is for."""
    unused = names("type comment acp session sessionKey sessionScope")


class CronConfig(Section, frozen=True):
    enabled: bool = True
    """Whether jobs run by themselves."""
    store: str | None = None
    """No effect: jobs lie in the ledger."""
    max_concurrent_runs: Positive | None = None
    """The most jobs under way at once."""
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
    """The senders who may use slash commands, by channel (`*`: on every channel); for others they are plain
    words. The owner always may. Unset: everybody who may talk."""
    idle = names("text config restart")
    unused = names(
        "native nativeSkills bash bashForegroundMs mcp plugins debug useAccessGroups ownerDisplay"
        " ownerDisplaySecret modelsWrite"
    )


class McpServer(Section, frozen=True):
    command: str | None = None
    """The program to start, with `args`."""
    args: tuple[Secret, ...] = ()
    """The program's arguments; they are not shown, since a key may be among them."""
    env: Secrets = msgspec.field(default_factory=Secrets)
    """Variables for the program."""
    cwd: str | None = None
    """The folder the program starts in."""
    url: str | None = None
    """The address of a server that already runs."""
    transport: str | None = None
    """The protocol of that server: `streamable-http`."""
    headers: Secrets = msgspec.field(default_factory=Secrets)
    """Headers of requests to that server."""
    enabled: bool = True
    """Whether the server is used."""
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
    """The level of what the terminal shows; unset: as `level`."""
    file: str | None = None
    """The log's file; unset: one in the state folder."""
    console_style: Literal["pretty", "compact", "json"] = "pretty"
    """How a line looks in the terminal; `json`: one JSON object a line. `compact` is the same as `pretty`."""
    file_style: Literal["text", "json"] = "text"
    """How a line looks in the file; `json`: one JSON object a line, as OpenClaw writes it."""
    max_file_bytes: Positive = 10 * 2**20
    """How large the file may become; then it is put aside, and a new one begun."""
    max_files: Positive = 5
    """How many older files are kept, as `.1`, `.2` and so on."""
    quiet = names("redactSensitive redactPatterns")
    local = names("file")


class Env(Section, frozen=True):
    """Variables for `${NAME}` and for providers, if the environment itself has none."""

    vars: Secrets = msgspec.field(default_factory=Secrets)
    """The variables."""
    unused = names("shellEnv")
