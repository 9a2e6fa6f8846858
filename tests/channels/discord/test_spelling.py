"""Addresses, allow lists and servers of Discord: ids count, names are refused."""

import pytest

from crossclaw.channels.discord.manifest import MANIFEST, normalize_sender, read_target
from crossclaw.channels.discord.settings import DiscordSettings, GuildSettings
from crossclaw.config.channels import DirectSettings, GroupPolicy, GroupSettings

pytestmark = pytest.mark.spec("N3", "N8")

ID = "123456789012345678"
OTHER = "876543210987654321"


@pytest.mark.parametrize(
    ("text", "to", "types"),
    [
        (f"user:{ID}", f"user:{ID}", ("direct",)),
        (f"<@{ID}>", f"user:{ID}", ("direct",)),
        (f"<@!{ID}>", f"user:{ID}", ("direct",)),
        (f"@{ID}", f"user:{ID}", ("direct",)),
        (f"discord:{ID}", f"user:{ID}", ("direct",)),
        (f"discord:channel:{ID}", f"channel:{ID}", ("group", "channel")),
        (f"channel:{ID}", f"channel:{ID}", ("group", "channel")),
        (f"<#{ID}>", f"channel:{ID}", ("group", "channel")),
        (ID, f"channel:{ID}", ("direct", "group", "channel")),
    ],
)
def test_a_target_is_read_in_every_spelling_of_openclaw(
    text: str, to: str, types: tuple[str, ...]
) -> None:
    target = read_target(text)
    assert target is not None
    assert (target.to, target.types) == (to, types)


@pytest.mark.parametrize("text", ["#general", "@ana", "ana#1234", "", "channel:general", "user:12"])
def test_a_name_is_no_target(text: str) -> None:
    assert read_target(text) is None


def test_an_entry_of_an_allow_list_is_an_id_and_never_a_name() -> None:
    for entry in (ID, f"<@{ID}>", f"discord:{ID}", f"user:{ID}", f"discord:user:{ID}"):
        assert normalize_sender(entry) == ID
    assert normalize_sender("pk:abcde") == "pk:abcde"
    for name in ("ana", "@ana", "ana#1234", "Ana Banana", "discord:ana"):
        assert normalize_sender(name) is None


def test_a_server_that_is_not_listed_is_refused_and_threads_are_as_their_channel() -> None:
    settings = DiscordSettings(
        guilds={
            ID: GuildSettings(
                require_mention=False,
                users=(1,),
                channels={
                    "7": GroupSettings(),
                    "8": GroupSettings(users=(2,), require_mention=True),
                },
            )
        }
    )
    assert settings.lists_groups
    assert settings.group("7", None, OTHER) is None
    assert settings.group("9", None, ID) is None
    seven, thread = settings.group("7", None, ID), settings.group("99", "8", ID)
    assert seven is not None
    assert (seven.senders, seven.mention) == ((1,), False)
    assert thread is not None
    assert (thread.senders, thread.mention) == ((2,), True)


def listens(settings: DiscordSettings, chat: str) -> bool:
    found = settings.group(chat)
    return found is not None and found.listened_to


def test_group_chats_are_off_until_they_are_switched_on_also_where_everybody_may_talk_in_groups() -> (
    None
):
    policies: tuple[GroupPolicy | None, ...] = (None, "open")
    for policy in policies:
        silent = DiscordSettings(group_policy=policy).group(ID)
        assert silent is not None
        assert not silent.listened_to
    some = DiscordSettings(dm=DirectSettings(group_enabled=True, group_channels=(ID,)))
    assert listens(some, ID)
    assert not listens(some, OTHER)
    assert listens(DiscordSettings(dm=DirectSettings(group_enabled=True)), OTHER)


def test_discords_limits_are_those_of_its_dialect() -> None:
    assert MANIFEST.traits.text_limit == 2_000
    assert MANIFEST.environ == {"DISCORD_BOT_TOKEN": "token"}
