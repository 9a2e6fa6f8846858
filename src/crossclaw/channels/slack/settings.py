"""One Slack app in openclaw.json: `channels.slack`, or one of its `accounts`."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from crossclaw.config.channels import ChannelSettings, GroupSettings, TopicSettings
from crossclaw.config.section import names
from crossclaw.domain.secret import Secret

API_URL = "https://slack.com/api"


class SlackSettings(ChannelSettings, frozen=True):
    mode: Literal["socket", "http"] = "socket"
    """How events come: by a connection that the gateway opens (`socket`), or Slack calls the gateway (`http`)."""
    bot_token: Secret | None = None
    """The bot's token, `xoxb-…`, from the page OAuth & Permissions; or `SLACK_BOT_TOKEN` in the environment."""
    app_token: Secret | None = None
    """The app's token, `xapp-…` with connections:write, for `socket`; or `SLACK_APP_TOKEN` in the environment."""
    signing_secret: Secret | None = None
    """The signing secret from the page Basic Information, for `http`; or `SLACK_SIGNING_SECRET` in the
    environment."""
    channels: dict[str, GroupSettings] = msgspec.field(default_factory=dict)
    """The channels, by id, and what is different there; `*`: all."""
    group_list = "groups"
    unused = ChannelSettings.unused | names(
        "userToken userTokenReadOnly thread slashCommand replyToModeByChatType reactionNotifications"
        " reactionAllowlist allowNameMatching dangerouslyAllowNameMatching typingReaction nativeStreaming"
        " interactiveReplies unfurlLinks unfurlMedia"
    )

    @property
    def is_set_up(self) -> bool:
        other = self.app_token if self.mode == "socket" else self.signing_secret
        return self.bot_token is not None and other is not None

    @property
    def what_is_missing(self) -> str:
        if self.bot_token is None:
            return "botToken: the xoxb token of your app's page OAuth & Permissions, or SLACK_BOT_TOKEN"
        if self.mode == "socket":
            return "appToken: an xapp token with connections:write, or SLACK_APP_TOKEN"
        return "signingSecret: from your app's page Basic Information, or SLACK_SIGNING_SECRET"

    @property
    def all_groups(self) -> Iterator[tuple[tuple[str, ...], TopicSettings]]:
        for name, channel in self.channels.items():
            yield ("channels", name), channel

    @property
    def lists_groups(self) -> bool:
        return bool(self.channels)

    def group(
        self, chat_id: str, parent_id: str | None = None, guild_id: str | None = None
    ) -> GroupSettings | None:
        """The chat's settings, by id. A channel that is not listed is refused where any is. A group chat,
        which has no team, is switched off until it is listed or `dm.groupEnabled` is set, whatever
        `groupPolicy` says."""
        if chat_id in self.channels:
            return self.channels[chat_id]
        if guild_id is not None:
            return self.channels.get("*")
        return self.dm.group_chat(chat_id)
