"""One BlueBubbles server in openclaw.json: `channels.bluebubbles` (or `channels.imessage`), or one of its `accounts`."""

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import names
from crossclaw.domain.secret import Secret


class IMessageSettings(ChannelSettings, frozen=True):
    server_url: str | None = None
    """The address of the BlueBubbles server, such as `http://192.168.1.20:1234`."""
    password: Secret | None = None
    """The server's password."""
    webhook_secret: Secret | None = None
    """The secret that the webhook's address carries as `?secret=…`; without it one is derived from the
    password, and `crossclaw channels status` shows the address."""
    webhook_url: str | None = None
    """The address of `webhookPath` as the Mac reaches it; with it the webhook is entered at BlueBubbles by itself."""
    send_read_receipts: bool = True
    """Whether people see that their message was read; needs the server's Private API."""
    cli_path: str | None = None
    """No effect: the program imsg is not supported."""
    db_path: str | None = None
    """No effect, as `cliPath`."""
    local = ChannelSettings.local | names("serverUrl webhookUrl cliPath dbPath")
    idle = ChannelSettings.idle | names("cliPath dbPath")
    unused = ChannelSettings.unused | names(
        "remoteHost service region includeAttachments attachmentRoots remoteAttachmentRoots probeTimeoutMs"
        " enrichGroupParticipantsFromContacts allowPrivateNetwork mediaLocalRoots"
    )

    @property
    def is_set_up(self) -> bool:
        return bool(self.server_url and self.password)

    @property
    def what_is_missing(self) -> str:
        if self.cli_path or self.db_path:
            return (
                "cliPath and dbPath belong to the program imsg, which Crossclaw does not support. Install a BlueBubbles server "
                "on the Mac (bluebubbles.app) and set serverUrl and password"
            )
        return "set serverUrl and password of a BlueBubbles server"
