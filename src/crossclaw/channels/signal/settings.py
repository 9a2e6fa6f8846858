"""One Signal account in openclaw.json: `channels.signal`, or one of its `accounts`."""

from typing import Literal

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import names
from crossclaw.domain.aliases import Positive


class SignalSettings(ChannelSettings, frozen=True):
    account: str | None = None
    """The account's own telephone number, `+4915112345678`; or `SIGNAL_ACCOUNT` in the environment."""
    http_url: str | None = None
    """The address of a signal-cli daemon that you run: `http://127.0.0.1:8080`, `tcp://127.0.0.1:7583` or
    `unix:/run/signal-cli/socket`. The last two lose least when something stops."""
    http_host: str = "127.0.0.1"
    """The daemon's host, if the address is written in two parts."""
    http_port: Positive = 8080
    """The daemon's port."""
    cli_path: str = "signal-cli"
    """The program, for `autoStart`."""
    auto_start: bool | None = None
    """Whether the gateway starts the daemon itself; where nothing is said: when there is no `httpUrl`."""
    startup_timeout_ms: Positive = 30_000
    """How long the daemon may take to start."""
    receive_mode: Literal["on-start", "on-connection", "manual"] = "on-connection"
    """When a daemon that the gateway starts fetches messages. With `on-start` it also fetches those that
    nobody is there to take, and they are lost; OpenClaw does so by default, Crossclaw only fetches while it
    listens."""
    ignore_attachments: bool = False
    """Whether a daemon that the gateway starts leaves files where they are."""
    ignore_stories: bool = False
    """Whether a daemon that the gateway starts leaves out stories; Crossclaw never answers them."""
    send_read_receipts: bool = False
    """Whether the daemon tells people that their messages were read."""
    local = ChannelSettings.local | names("cliPath httpUrl httpHost httpPort")
    unused = ChannelSettings.unused | names(
        "reactionNotifications reactionAllowlist reactionLevel accountUuid configPath apiMode"
    )

    @property
    def is_set_up(self) -> bool:
        return self.account is not None

    @property
    def what_is_missing(self) -> str:
        return "account: write the account's telephone number there, or into SIGNAL_ACCOUNT"

    @property
    def daemon_url(self) -> str:
        return self.http_url or f"http://{self.http_host}:{self.http_port}"

    @property
    def starts_daemon(self) -> bool:
        return self.http_url is None if self.auto_start is None else self.auto_start
