"""One Discord bot in openclaw.json: `channels.discord`, or one of its `accounts`."""

from collections.abc import Iterator

import msgspec

from crossclaw.config.channels import ChannelSettings, GroupSettings, TopicSettings
from crossclaw.config.section import Section, names
from crossclaw.config.tools import ToolPolicy
from crossclaw.domain.aliases import Senders
from crossclaw.domain.secret import Secret

API_URL = "https://discord.com/api/v10"


class GuildSettings(Section, frozen=True):
    """One server; it holds for its channels where they say nothing themselves."""

    require_mention: bool | None = None
    """Whether only messages that mention the agent are answered; true where nothing is said."""
    users: Senders | None = None
    """Who may talk on it, by id; an empty list: nobody."""
    channels: dict[str, GroupSettings] = msgspec.field(default_factory=dict)
    """The channels, by id, and what is different there; `*`: all. Threads are as their channel."""
    tools: ToolPolicy | None = None
    """The tools that messages from here may use, where its channel says nothing."""
    tools_by_sender: dict[str, ToolPolicy] = msgspec.field(default_factory=dict)
    """The tools that messages of a sender may use, by the sender's id; where its channel says nothing."""
    unused = names("slug reactionNotifications roles ignoreOtherMentions")


class DiscordSettings(ChannelSettings, frozen=True):
    token: Secret | None = None
    """The bot's token from Discord's developer portal; or `DISCORD_BOT_TOKEN` in the environment."""
    token_file: str | None = None
    """A file that holds the token and nothing else. OpenClaw does not know this key."""
    guilds: dict[str, GuildSettings] = msgspec.field(default_factory=dict)
    """The servers, by id, and what is different there; `*`: all."""
    local = ChannelSettings.local | names("tokenFile")
    alternatives = (("tokenFile", "token"),)
    group_list = "groups"
    unused = ChannelSettings.unused | names(
        "intents pluralkit maxLinesPerMessage proxy voice presence activity status autoPresence ui agentComponents"
        " slashCommand inboundWorker eventQueue gateway subagents mediaMode applicationId autoThread"
    )

    @property
    def is_set_up(self) -> bool:
        return bool(self.token or self.token_file)

    @property
    def what_is_missing(self) -> str:
        return (
            "token: write the bot's token from https://discord.com/developers/applications there,"
            " or into DISCORD_BOT_TOKEN"
        )

    @property
    def all_groups(self) -> Iterator[tuple[tuple[str, ...], TopicSettings]]:
        for guild_id, guild in self.guilds.items():
            whole = TopicSettings(tools=guild.tools, tools_by_sender=guild.tools_by_sender)
            yield ("guilds", guild_id), whole
            for name, channel in guild.channels.items():
                yield ("guilds", guild_id, "channels", name), channel

    @property
    def lists_groups(self) -> bool:
        return bool(self.guilds)

    def group(
        self, chat_id: str, parent_id: str | None = None, guild_id: str | None = None
    ) -> GroupSettings | None:
        """The channel's settings, over those of its server.

        A server that is not listed is refused, and so is a channel where the server lists channels. A group
        chat without a server is listed by `dm.groupChannels`.
        """
        if guild_id is None:
            return self.dm.group_chat(chat_id)
        guild = self.guilds.get(guild_id) or self.guilds.get("*")
        if guild is None:
            return None
        found = next(
            (guild.channels[each] for each in (chat_id, parent_id, "*") if each in guild.channels),
            None,
        )
        if found is None and guild.channels:
            return None
        return _over(found or GroupSettings(), guild)


def _over(channel: GroupSettings, guild: GuildSettings) -> GroupSettings:
    return msgspec.structs.replace(
        channel,
        users=guild.users if channel.senders is None else channel.senders,
        require_mention=guild.require_mention if channel.mention is None else channel.mention,
        tools=channel.tools or (None if channel.tools_by_sender else guild.tools),
        tools_by_sender=channel.tools_by_sender or ({} if channel.tools else guild.tools_by_sender),
    )
