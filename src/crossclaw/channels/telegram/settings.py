"""One Telegram bot in openclaw.json: `channels.telegram`, or one of its `accounts`."""

import re

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import names
from crossclaw.domain.secret import Secret

WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class TelegramSettings(ChannelSettings, frozen=True):
    bot_token: Secret | None = None
    """The token that @BotFather gave; or `TELEGRAM_BOT_TOKEN` in the environment."""
    token_file: str | None = None
    """A file that holds the token and nothing else."""
    webhook_url: str | None = None
    """The public https address of `webhookPath`; with it Telegram calls the gateway instead of being asked."""
    webhook_secret: Secret | None = None
    """The secret that Telegram shows when it calls: needed with `webhookUrl`."""
    link_preview: bool = True
    """Whether links in replies are shown with a preview."""
    proxy: str | None = None
    """An HTTP or SOCKS proxy on the way to Telegram."""
    timeout_seconds: float | None = None
    """How long one call may take; 30 by default."""
    local = ChannelSettings.local | names("tokenFile proxy webhookUrl")
    unused = ChannelSettings.unused | names(
        "reactionNotifications reactionLevel customCommands network retry draftChunk"
        " errorPolicy webhookHost webhookPort webhookCertPath"
    )
    alternatives = (("tokenFile", "botToken"),)

    @property
    def is_set_up(self) -> bool:
        return bool(self.bot_token or self.token_file)

    @property
    def uses_webhook(self) -> bool:
        return self.webhook_url is not None

    @property
    def what_is_missing(self) -> str:
        return (
            "botToken: write the token that @BotFather gave you there, or into TELEGRAM_BOT_TOKEN"
        )
