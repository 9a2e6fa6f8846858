"""`onboard`, the chat platform: the token is checked with a real call (here to the strict fakes, over TCP), kept for its
owner alone, never shown; the next click is named, in the reader's language; it can be run again."""

import getpass
import io
import json
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from crossclaw.cli.exits import Exit
from crossclaw.cli.onboard_channel import channel_by_asking, next_clicks
from crossclaw.client.location import find_place
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.display.languages import SPOKEN, speak
from crossclaw.domain.clock import SystemClock
from tests.channels.discord.fake import TOKEN as DISCORD_TOKEN
from tests.channels.discord.fake import FakeDiscord
from tests.channels.fake_http import FakeHttpService, serve_fake
from tests.channels.telegram.fake import FakeTelegram
from tests.cli.person import Person
from tests.cli.test_onboard import Done, types, written

__all__ = ["types"]  # a fixture

pytestmark = pytest.mark.spec("C2", "N2")

TOKEN, NEXT = "700:AAE-the-token", "700:AAE-the-next-token"


@contextmanager
def serving(fake: FakeHttpService) -> Generator[str]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(
        serve_fake(fake)
    ) as url:  # fmt: skip
        yield url


def given(person: Person, token: str) -> str:
    path = person.folder / "given"
    path.write_text(token + "\n")
    return str(path)


def kept_in(person: Person) -> list[Path]:
    return sorted(person.state.glob("credentials/*-token-*"))


def test_a_script_sets_telegram_up_and_a_second_run_replaces_the_token(
    person: Person, types: Callable[..., Done]
) -> None:
    telegram = FakeTelegram()
    telegram.add_bot(TOKEN)
    with serving(telegram) as url:
        old = {"botToken": "1:old", "apiUrl": url, "dmPolicy": "pairing"}
        person.write_config(json.dumps({"channels": {"telegram": old}}))
        flags = (
            "onboard",
            "--non-interactive",
            "--channel",
            "telegram",
            "--channel-owner",
            "tg:42",
        )
        refused = types(*flags, "--channel-token-file", given(person, NEXT))
        untouched = written(person)
        first = types(*flags, "--channel-token-file", given(person, TOKEN), "--json")
        (one,) = kept_in(person)
        again = types(*flags, "--json", TELEGRAM_BOT_TOKEN=TOKEN)
        telegram.add_bot(NEXT)
        types(*flags, "--channel-token-file", given(person, NEXT))
        (two,) = kept_in(person)

    assert refused.returncode == Exit.FAILED
    assert "Telegram does not take this token" in refused.stderr
    assert untouched == {"channels": {"telegram": old}}
    told = json.loads(first.stdout)
    assert told["channel"]["name"] == "@claw_bot"
    assert told["channel"]["next"][1] == "Open https://t.me/claw_bot, press Start and write to it."
    assert "changed" not in json.loads(again.stdout)
    assert one != two  # a gateway that runs sees it by its config
    assert two.read_text() == NEXT + "\n"
    assert stat.S_IMODE(two.stat().st_mode) == 0o600
    assert written(person) == {
        "channels": {
            "telegram": {
                "apiUrl": url,
                "dmPolicy": "pairing",
                "enabled": True,
                "tokenFile": str(two),
                "allowFrom": ["42"],
            }
        },
        "commands": {"ownerAllowFrom": ["telegram:42"]},
    }
    for done in (refused, first, again):
        assert "AAE" not in done.stdout + done.stderr
    place = find_place(person.environ)
    (account,) = accounts_in(place.config.channels, {})
    assert account.settings.is_set_up


def test_discord_says_what_is_still_to_be_switched_on_where_it_is_invited_and_leaves_other_accounts_alone(
    person: Person, types: Callable[..., Done]
) -> None:
    discord = FakeDiscord(SystemClock().now_ms)
    discord.hears_words = False
    with serving(discord) as url:
        other = person.state / "credentials" / f"discord-token-{'0' * 12}"
        other.parent.mkdir(mode=0o700, parents=True)
        other.write_text("a.b.c")
        other.chmod(0o600)
        left_over = other.with_name(f"discord-token-{'1' * 12}")
        left_over.write_text("of nobody")
        here, there = {"apiUrl": f"{url}/api/v10"}, {"tokenFile": str(other)}
        accounts = {"accounts": {"default": here, "other": there}}
        person.write_config(json.dumps({"channels": {"discord": accounts}}))
        flags = ("onboard", "--non-interactive", "--channel", "discord")
        done = types(*flags, "--lang", "es", DISCORD_BOT_TOKEN=DISCORD_TOKEN)
        first, kept = kept_in(person)
        assert first == other, "another account has it"
        referred = types(*flags, "--secret-input-mode", "ref", DISCORD_BOT_TOKEN=DISCORD_TOKEN)

    lines = done.stdout.splitlines()
    assert any("Message Content Intent sigue apagado" in line for line in lines)
    bot = "1" + discord.world.bot.id[1:]
    invite = (
        f"https://discord.com/oauth2/authorize?client_id={bot}&scope=bot&permissions=274878008384"
    )
    assert f"Invítalo a tu servidor: {invite}" in lines
    assert any(line.endswith("crossclaw pairing approve discord CODE") for line in lines)
    assert DISCORD_TOKEN not in done.stdout + done.stderr
    assert kept.read_text() == DISCORD_TOKEN + "\n"
    discord_section = written(person)["channels"]["discord"]  # type: ignore[index]
    assert discord_section["accounts"]["default"]["tokenFile"] == str(kept)
    assert referred.returncode == Exit.OK


def test_at_a_terminal_a_wrong_token_is_asked_for_again_and_a_name_is_no_id(
    person: Person,
    types: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    telegram = FakeTelegram()
    telegram.add_bot(TOKEN)
    typed = iter(["nonsense", NEXT, TOKEN])
    monkeypatch.setattr(getpass, "getpass", lambda _question: next(typed))
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n@ana\n42\n"))
    with serving(telegram) as url:
        person.write_config(json.dumps({"channels": {"telegram": {"apiUrl": url}}}))
        chosen = channel_by_asking(find_place(person.environ))

    assert chosen is not None
    assert chosen.token is not None
    assert chosen.token.reveal() == TOKEN
    assert (chosen.owner, chosen.facts and chosen.facts.name) == ("42", "@claw_bot")
    said = capsys.readouterr()
    assert "write /newbot to @BotFather" in said.out
    assert "this is no bot token" in said.err
    assert "Telegram does not know this bot token" in said.err
    assert "That is no id but a name" in said.err
    assert "AAE" not in said.out + said.err
    clicks = set()
    for language in SPOKEN:
        speak(language)
        clicks.add(tuple(next_clicks(chosen)))
    assert len(clicks) == len(SPOKEN)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--channel", "telegram"], "needs --channel-token-file, or TELEGRAM_BOT_TOKEN"),
        (["--channel-owner", "42"], "--channel says it"),
        (["--channel", "telegram", "--channel-owner", "@ana"], "is no Telegram user id"),
    ],
)
def test_what_the_options_leave_open_is_said(
    types: Callable[..., Done], words: list[str], told: str
) -> None:
    done = types("onboard", "--non-interactive", *words)

    assert done.returncode == Exit.USAGE
    assert told in done.stderr
