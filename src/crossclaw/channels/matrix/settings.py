"""One Matrix account in openclaw.json: `channels.matrix`, or one of its `accounts`."""

from typing import Literal

import msgspec

from crossclaw.config.channels import ChannelSettings, GroupSettings
from crossclaw.config.section import names
from crossclaw.domain.secret import Secret


class MatrixSettings(ChannelSettings, frozen=True):
    homeserver: str | None = None
    """The address of the homeserver, such as `https://matrix.example.org`; or `MATRIX_HOMESERVER` in the environment."""
    access_token: Secret | None = None
    """The account's access token; or `MATRIX_ACCESS_TOKEN`."""
    user_id: str | None = None
    """The account's id, `@name:server`; needed with `password`."""
    password: Secret | None = None
    """The account's password, for a login if there is no access token. The device stays the same over restarts."""
    device_name: str | None = None
    """The name of the account's device in lists of devices."""
    auto_join: Literal["always", "allowlist", "off"] = "always"
    """Which invitations are followed: those of people who may talk and to rooms that `groups` lists, and, where strangers may ask for access, direct chats (`always`); those and what `autoJoinAllowlist` names, no strangers (`allowlist`); none (`off`)."""
    auto_join_allowlist: tuple[str, ...] = ()
    """Rooms (`!id`, `#alias:server`) that may be joined whoever invites."""
    allowlist_only: bool = False
    """Whether only people on lists may talk: `pairing` and `open` then mean `allowlist`."""
    thread_replies: Literal["off", "inbound", "always"] = "inbound"
    """Whether replies go into a thread: never, where the message was in one, always."""
    encryption: bool = False
    """Whether encrypted rooms are read and written. Without it they are refused, never answered in clear."""
    trusted_devices: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The trusted devices of some people, by Matrix id. In encrypted rooms devices are trusted when they are
    first seen; for the people named here, only devices with the listed keys (Ed25519, as clients show them
    for a session) are trusted and written to, and nothing in clear."""
    rooms: dict[str, GroupSettings] = msgspec.field(default_factory=dict)
    """The older name of `groups`."""
    local = ChannelSettings.local | names("homeserver")
    group_list = "groups"
    unused = ChannelSettings.unused | names("initialSyncLimit deviceId register")
    alternatives = (("accessToken", "password"),)

    def __post_init__(self) -> None:
        if self.rooms:
            msgspec.structs.force_setattr(self, "groups", {**self.rooms, **self.groups})
        if self.allowlist_only and self.dm_policy != "disabled":
            msgspec.structs.force_setattr(self, "dm_policy", "allowlist")
        if self.allowlist_only and self.group_policy == "open":
            msgspec.structs.force_setattr(self, "group_policy", "allowlist")

    @property
    def is_set_up(self) -> bool:
        by_password = bool(self.user_id and self.password)
        return bool(self.homeserver and (self.access_token or by_password))

    @property
    def what_is_missing(self) -> str:
        if not self.homeserver:
            return "homeserver: write its address there, or into MATRIX_HOMESERVER"
        return (
            "accessToken: write it there or into MATRIX_ACCESS_TOKEN; or userId and password "
            "(MATRIX_USER_ID, MATRIX_PASSWORD)"
        )
