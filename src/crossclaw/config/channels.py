"""Channels: the settings of an account of a chat platform in openclaw.json. The common ones stand here; each
channel's folder adds its own keys."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec

from crossclaw.config.section import Count, Section, names
from crossclaw.config.tools import ToolPolicy
from crossclaw.domain.aliases import Positive, Senders

DmPolicy = Literal["pairing", "allowlist", "open", "disabled"]
GroupPolicy = Literal["open", "allowlist", "disabled"]
ReplyToMode = Literal["off", "first", "all"]


class GroupChat(Section, frozen=True):
    """Settings for group chats on every channel."""

    mention_patterns: tuple[str, ...] | None = None
    """Regular expressions by which a message of a group calls the agent, beside a real mention; unset: its
    name does."""
    history_limit: Count | None = None
    """The `historyLimit` of channels that do not set it."""
    unused = names("visibleReplies unmentionedInbound")


class ChannelHeartbeat(Section, frozen=True):
    show_ok: bool = False
    """Whether a heartbeat with nothing to say is shown."""
    show_alerts: bool = True
    """Whether a heartbeat that has something to say is shown."""
    unused = names("useIndicator")


class ChannelDefaults(Section, frozen=True):
    """`channels.defaults`: for every channel that says nothing itself."""

    group_policy: GroupPolicy | None = None
    """Who may talk in groups."""
    heartbeat: ChannelHeartbeat = ChannelHeartbeat()
    """What heartbeats show."""
    unused = names("contextVisibility botLoopProtection")


class TopicSettings(Section, frozen=True):
    """One group, channel or topic; what it does not set is as in `*`, then as in the account."""

    enabled: bool | None = None
    """Whether messages from here are accepted at all."""
    allow: bool | None = None
    """The same as `enabled`."""
    require_mention: bool | None = None
    """Whether only messages that mention the agent are answered."""
    auto_reply: bool | None = None
    """The opposite of `requireMention`, in Matrix."""
    group_policy: GroupPolicy | None = None
    """Who may talk here."""
    allow_from: Senders | None = None
    """The people who may talk here; an empty list: nobody."""
    users: Senders | None = None
    """The same as `allowFrom`, as Discord and Slack call it."""
    system_prompt: str | None = None
    """A text about this chat for the agent: your own words."""
    allow_bots: bool | None = None
    """Whether messages of other bots are accepted."""
    tools: ToolPolicy | None = None
    """The tools that messages from here may use, of those that the agent has."""
    tools_by_sender: dict[str, ToolPolicy] = msgspec.field(default_factory=dict)
    """The tools that messages of a sender may use, by the sender's id (`id:123`, `123`; `*`: everybody else); goes before `tools`."""
    unused = names(
        "skills agentId ingest disableAudioPreflight requireExplicitMention topicNameTemplate"
    )

    @property
    def listened_to(self) -> bool:
        return self.enabled is not False and self.allow is not False

    @property
    def senders(self) -> Senders | None:
        return self.allow_from if self.allow_from is not None else self.users

    @property
    def mention(self) -> bool | None:
        """Whether a mention is needed; None: not set."""
        if self.require_mention is None and self.auto_reply is not None:
            return not self.auto_reply
        return self.require_mention


class GroupSettings(TopicSettings, frozen=True):
    topics: dict[str, TopicSettings] = msgspec.field(default_factory=dict)
    """The settings of its topics, by id."""


class DirectSettings(Section, frozen=True):
    """Settings under `dm`: how some of OpenClaw's channels write `dmPolicy` and `allowFrom`."""

    enabled: bool = True
    """Whether direct messages are accepted."""
    policy: DmPolicy | None = None
    """The same as `dmPolicy`."""
    allow_from: Senders | None = None
    """The same as `allowFrom`."""
    group_enabled: bool = False
    """Whether messages of group chats without a server are accepted."""
    group_channels: Senders = ()
    """The group chats without a server that are accepted; none named: all."""
    reply_to_mode: ReplyToMode | None = None
    """The same as `replyToMode`."""

    def group_chat(self, chat_id: str) -> GroupSettings:
        """The settings of a group chat without a server. It is switched off unless it is enabled and listed,
        whatever `groupPolicy` says: anybody can put a bot into one."""
        listed = {str(each) for each in self.group_channels}
        named = not listed or bool({chat_id, "*"} & listed)
        return GroupSettings(enabled=self.group_enabled and named)


StreamMode = Literal["off", "partial", "block", "progress"]


class StreamingSettings(Section, frozen=True):
    """The long form of `streaming`."""

    mode: StreamMode = "off"
    """How replies are shown: every mode but `off` changes one message while it is written."""
    unused = names("chunkMode block preview progress nativeTransport")


class ChannelSettings(Section, frozen=True):
    """One account, with its channel's settings for all accounts."""

    enabled: bool = True
    """Whether the account is used."""
    name: str | None = None
    """The account's name where accounts are shown."""
    dm_policy: DmPolicy = "pairing"
    """Who may write to it directly: whom you approve (`pairing`), whom `allowFrom` names (`allowlist`), everybody (`open`, with `*` in `allowFrom`), nobody (`disabled`)."""
    allow_from: Senders = ()
    """The people who may write to it, by the platform's own id. Empty: nobody."""
    dm: DirectSettings = DirectSettings()
    """Another spelling of `dmPolicy` and `allowFrom`: `dm.policy`, `dm.allowFrom`."""
    group_policy: GroupPolicy | None = None
    """Who may talk in groups: `allowlist`, which is usual: whom `groupAllowFrom` names, in the groups that `groups` names, if it names any; `open`: everybody in those groups; `disabled`: nobody."""
    group_allow_from: Senders | None = None
    """The people who may talk in groups; unset: as `allowFrom`. Empty: nobody."""
    groups: dict[str, GroupSettings] = msgspec.field(default_factory=dict)
    """The groups, by id, and what is different there; `*`: all."""
    require_mention: bool | None = None
    """Whether a group's message must mention the agent; true by default."""
    allow_bots: bool = False
    """Whether messages of other bots are accepted."""
    history_limit: Count | None = None
    """The number of a group's messages that were not meant for the agent, and that it sees with the next one
    that is."""
    text_chunk_limit: Positive | None = None
    """How long one message may be, up to the platform's own limit."""
    chunk_mode: Literal["length", "newline"] = "length"
    """`newline`: every paragraph is a message of its own."""
    media_max_mb: float | None = None
    """How large a file may be that comes or goes."""
    reply_to_mode: ReplyToMode | None = None
    """Which messages of a reply are marked as answers: none, the first, all."""
    response_prefix: str | None = None
    """A text before every reply; as `messages.responsePrefix`."""
    streaming: bool | StreamMode | StreamingSettings | None = None
    """Whether a reply is shown while it is written, where the platform lets messages be changed: one message that grows."""
    stream_mode: StreamMode | None = None
    """The older spelling of `streaming`."""
    block_streaming: bool | None = None
    """Another spelling of `streaming`."""
    heartbeat: ChannelHeartbeat | None = None
    """What heartbeats show there."""
    config_writes: bool = False
    """No effect: a chat never changes the config."""
    webhook_path: str | None = None
    """The path at which the platform calls the gateway, for channels that are called."""
    api_url: str | None = None
    """Another address of the platform's interface: a server of your own, or one for tests."""
    group_list: ClassVar[Literal["senders", "groups"]] = "senders"
    """What `groupPolicy: allowlist` is a list of: of people, or (Discord, Slack, Matrix) of groups, in which everybody may
    talk unless there is a list of people too."""
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Keys of which one suffices, such as a token and a file with it: an account that writes one does not get
    the others from its section or the environment."""
    idle = names("configWrites heartbeat")
    local = names("apiUrl")
    unused = names(
        "accounts blockStreamingCoalesce draftChunk markdown actions commands"
        " capabilities dmHistoryLimit dms healthMonitor defaultAccount contextVisibility mentionPatterns"
        " botLoopProtection retry network execApprovals threadBindings"
    )

    def group(self, chat_id: str, parent_id: str | None = None, guild_id: str | None = None) -> GroupSettings | None:  # fmt: skip
        """The settings of a group: by its id, by that of the chat it is in, else `*`. None: it is not listed.
        `guild_id` is for channels whose groups are on servers."""
        for wanted in (chat_id, parent_id, "*"):
            if wanted is not None and wanted in self.groups:
                return self.groups[wanted]
        return None

    @property
    def all_groups(self) -> Iterator[tuple[tuple[str, ...], TopicSettings]]:
        """All settings of groups, with their paths."""
        for name, group in self.groups.items():
            yield ("groups", name), group
            for topic_id, topic in group.topics.items():
                yield ("groups", name, "topics", topic_id), topic

    @property
    def limits_tools(self) -> bool:
        """Whether tools are limited in any group."""
        return any(each.tools is not None or each.tools_by_sender for _, each in self.all_groups)

    @property
    def own_ack(self) -> str | None:
        """The reaction to messages if the channel has a rule of its own; empty: none. None: as
        `messages.ackReaction`."""
        return None

    @property
    def streams(self) -> bool | None:
        """Whether replies are shown while they are written; None: not set."""
        wanted = self.streaming.mode if isinstance(self.streaming, StreamingSettings) else self.streaming  # fmt: skip
        for said in (wanted, self.stream_mode, self.block_streaming):
            if said is not None:
                return said not in (False, "off")
        return None

    @property
    def lists_groups(self) -> bool:
        """Whether groups that are not listed are refused."""
        return bool(self.groups)

    @property
    def uses_webhook(self) -> bool:
        """Whether the platform calls us, for channels that can do both."""
        return True

    @property
    def is_set_up(self) -> bool:
        """Whether it has what it needs to connect: a token, an address. Channels say what."""
        return True

    @property
    def what_is_missing(self) -> str:
        """The settings to write, if it is not set up."""
        return ""


class AccountConfig(msgspec.Struct, frozen=True):
    channel: str
    account_id: str
    settings: ChannelSettings


def gathered(section: dict[str, Any]) -> dict[str, Any]:
    """A section with both spellings of who may write directly made one."""
    direct = section.get("dm")
    if not isinstance(direct, dict):
        return section
    moved = {"dmPolicy": "policy", "allowFrom": "allowFrom", "replyToMode": "replyToMode"}
    found = {
        key: direct[other]
        for key, other in moved.items()
        if direct.get(other) is not None and section.get(key) is None
    }
    return {**section, **found}


def overlaid(
    section: dict[str, Any],
    account: dict[str, Any],
    alternatives: tuple[tuple[str, ...], ...] = (),
) -> dict[str, Any]:
    """The settings of an account: its channel's section, and over it, key by key, the account's own."""
    own = gathered(account)
    left_out = {"accounts"}.union(*(group for group in alternatives if set(group) & own.keys()))
    shared = {key: value for key, value in gathered(section).items() if key not in left_out}
    return {**shared, **own}
