"""One connection to an IRC network in openclaw.json: `channels.irc`, or one of its `accounts`."""

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import names
from crossclaw.domain.secret import Secret


class IrcSettings(ChannelSettings, frozen=True):
    server: str | None = None
    """The server's name."""
    port: int = 6697
    """Its port; 6697 with TLS, 6667 without."""
    tls: bool = True
    """Whether the connection is encrypted."""
    nick: str = "crossclaw"
    """What the agent is called there."""
    password: Secret | None = None
    """Of the server, if it asks for one."""
    channels: tuple[str, ...] = ()
    """Which channels are joined, such as `#workshop`."""
    local = ChannelSettings.local | names("server port tls")

    @property
    def is_set_up(self) -> bool:
        return bool(self.server)

    @property
    def what_is_missing(self) -> str:
        return "server: write the name of the IRC server there"
