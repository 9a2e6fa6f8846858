"""Onboarding, the chat platform: a bot's token is checked by asking the platform, kept in `credentials/` for its owner
alone, and the next click is named. It can be run again; a token that is there stays unless another one is given."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from crossclaw.channels.contract import AccountFacts
from crossclaw.channels.manifest import ChannelManifest
from crossclaw.channels.registry import find_manifest, identify_account
from crossclaw.cli.asking import ask_choice, ask_secret, ask_text, ask_yes
from crossclaw.cli.exits import CommandFailed, UsageError
from crossclaw.cli.grammar import Arguments, Parser, text_of
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import note, out
from crossclaw.config.channel_accounts import DEFAULT, account_sections, accounts_in
from crossclaw.config.channels import ChannelSettings
from crossclaw.config.file import ConfigFile
from crossclaw.disk.private import make_folder, write_file
from crossclaw.display.languages import tr
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import AccountBroken, ChannelDown, CrossclawError
from crossclaw.domain.secret import Secret

OFFERED = ("telegram", "discord")
"""Platforms that need nothing but a token; docs/channels.md says how the others are set up."""
TRIES_MAX = 3  # at one token, then the step is left
ASK_S = 20.0  # for the platform's answer
NAME_HEX = 12  # of the token's digest in the name of its file


class ChosenChannel(NamedTuple):
    manifest: ChannelManifest
    token: Secret | None
    """The token to store; None: what is there stays, or the variable in the environment."""
    facts: AccountFacts | None
    """The account at the platform; None: it was not asked."""
    owner: str | None = None
    """The id of the person who sets it up, who may talk at once."""


def channel_arguments(parser: Parser) -> None:
    channel = parser.add_argument_group("the chat platform")
    channel.add_argument("--channel", choices=OFFERED, help="where people talk with the agent")
    channel.add_argument(
        "--channel-token-file",
        dest="channel_token",
        type=text_of,
        metavar="FILE",
        help="a file with the bot's token",
    )
    channel.add_argument(
        "--channel-owner", metavar="ID", help="your own id there: you may talk at once"
    )
    channel.add_argument("--skip-channels", action="store_true", help="without a chat platform")


# ── by options ─────────────────────────────────────────────────────────────────────────────────


def channel_by_flags(arguments: Arguments, place: StateLocation) -> ChosenChannel | None:
    """The channel in the options; None if they name none."""
    if arguments.channel is None:
        if arguments.channel_token or arguments.channel_owner:
            raise UsageError("whose token or id is it? --channel says it")
        return None
    manifest = _manifest(arguments.channel)
    owner = _owner_id(manifest, arguments.channel_owner) if arguments.channel_owner else None
    variable = _variable(manifest)
    given, there = arguments.channel_token, place.environ.get(variable)
    token = Secret((given or there or "").strip())
    if not token.reveal():
        raise UsageError(f"--channel {manifest.name} needs --channel-token-file, or {variable}")
    keeps = bool(given) or (arguments.secret_input_mode != "ref")
    facts = None if arguments.skip_health else _ask_platform(manifest, place, token)
    return ChosenChannel(manifest, token if keeps else None, facts, owner)


def _ask_platform(manifest: ChannelManifest, place: StateLocation, token: Secret) -> AccountFacts:
    try:
        return anyio.run(identify, manifest, place, token)
    except CrossclawError as error:
        raise CommandFailed(
            tr("{platform} does not take this token: {why}").format(
                platform=manifest.title, why=error
            ),
            hint=tr("Nothing was changed. --skip-health leaves the test call out."),
        ) from None


async def identify(manifest: ChannelManifest, place: StateLocation, token: Secret) -> AccountFacts:
    """The account that the token belongs to, asked at the address in the config."""
    written = _settings_now(manifest, place)
    settings = msgspec.structs.replace(written, **{_token_key(manifest): token, "token_file": None})
    try:
        with anyio.fail_after(ASK_S):
            return await identify_account(manifest, settings)
    except TimeoutError:
        raise ChannelDown(tr("no answer within {seconds} s").format(seconds=int(ASK_S))) from None


# ── by asking ──────────────────────────────────────────────────────────────────────────────────


def channel_by_asking(place: StateLocation) -> ChosenChannel | None:
    """Asks for a channel; None: nothing changes."""
    lines = [tr("no chat platform for now")]
    for name in OFFERED:
        manifest = _manifest(name)
        there = _settings_now(manifest, place).is_set_up
        lines.append(tr("{name}: set up already").format(name=manifest.title) if there else manifest.title)  # fmt: skip
    picked = ask_choice(tr("Number"), lines)
    if not picked:
        return None
    manifest = _manifest(OFFERED[picked - 1])
    for line in _before(manifest.name):
        out(f"  {line}")
    found = _ask_token(manifest, place)
    if found is None:
        return None
    token, facts = found
    return ChosenChannel(manifest, token, facts, _ask_owner(manifest))


def _ask_token(
    manifest: ChannelManifest, place: StateLocation
) -> tuple[Secret | None, AccountFacts] | None:
    """Asks for a token until the platform accepts one; returns it and its account."""
    variable = _variable(manifest)
    for number in range(TRIES_MAX):
        there = place.environ.get(variable) if not number else None
        if there and ask_yes(tr("Use the token in {variable}?").format(variable=variable), default=True):  # fmt: skip
            token = Secret(there.strip())
        else:
            token = Secret(ask_secret(tr("Token of the bot (it is not shown; empty: leave it)")))
        if not token.reveal():
            return None
        note(tr("Asking {platform} …").format(platform=manifest.title))
        try:
            return token, anyio.run(identify, manifest, place, token)
        except (AccountBroken, ChannelDown, CrossclawError) as error:
            note(str(error))
    return None


def _ask_owner(manifest: ChannelManifest) -> str | None:
    question = tr("Your own {label} (empty: you get a code when you first write)")
    for _ in range(TRIES_MAX):
        given = ask_text(question.format(label=manifest.traits.id_label))
        if not given:
            return None
        if found := manifest.normalize_sender(given):
            return found
        note(tr("That is no id but a name, and names change hands."))
    return None


def _owner_id(manifest: ChannelManifest, given: str) -> str:
    if (found := manifest.normalize_sender(given)) is None:
        raise UsageError(f"--channel-owner {given} is no {manifest.traits.id_label}")
    return found


# ── into the config ────────────────────────────────────────────────────────────────────────────


def put_channel(file: ConfigFile, place: StateLocation, chosen: ChosenChannel) -> Path | None:
    """Writes the channel into the config; returns the file for the token, which `keep_token` writes."""
    base = _base(file, chosen.manifest)
    _put(file, (*base, "enabled"), True)
    path = None
    if chosen.token is not None:
        path = token_path(place.paths.state_dir, chosen.manifest.name, chosen.token)
        _put(file, (*base, "tokenFile"), str(path))
        file.remove((*base, _CONFIG_KEYS[chosen.manifest.name]))  # the one before
    if chosen.owner is not None:
        _add(file, (*base, "allowFrom"), chosen.owner)
        _add(file, ("commands", "ownerAllowFrom"), f"{chosen.manifest.name}:{chosen.owner}")
    return path


def token_path(state_dir: Path, channel: str, token: Secret) -> Path:
    """The token's file. Another token has another file: a running gateway sees by its config that it has changed."""
    digest = sha256(token.reveal().encode()).hexdigest()[:NAME_HEX]
    return state_dir / "credentials" / f"{channel}-token-{digest}"


def keep_token(path: Path, token: Secret) -> None:
    """Writes the token for its owner alone."""
    make_folder(path.parent)
    write_file(path, token.reveal() + "\n")


def forget_others(path: Path, channels: Mapping[str, Any]) -> None:
    """Removes earlier tokens, once the config names this one; not those that other accounts of the config have."""
    prefix, named = path.name.rpartition("-")[0], {path, *_token_files(channels)}
    for other in path.parent.glob(f"{prefix}-{'[0-9a-f]' * NAME_HEX}"):
        if other not in named:
            other.unlink()


def _token_files(channels: Mapping[str, Any]) -> Iterator[Path]:
    for each in account_sections(channels):
        if isinstance(name := each.get("tokenFile"), str):
            yield Path(name).expanduser()


def _base(file: ConfigFile, manifest: ChannelManifest) -> KeyPath:
    """The path of the default account, if accounts are listed."""
    section = next(
        (name for name in (manifest.name, *manifest.aliases) if file.has(("channels", name))),
        manifest.name,
    )
    base: KeyPath = ("channels", section)
    return (*base, "accounts", DEFAULT) if file.has((*base, "accounts")) else base


def _put(file: ConfigFile, path: KeyPath, value: Any) -> None:
    if _value_at(file, path) != value:
        file.put(path, value)


def _add(file: ConfigFile, path: KeyPath, item: str) -> None:
    found = _value_at(file, path)
    if not isinstance(found, list):
        file.put(path, [item])
    elif item not in map(str, found):
        file.insert(path, item)


def _value_at(file: ConfigFile, path: KeyPath) -> Any:
    found: Any = file.value
    for step in path:
        if not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    return found


# ── what is known of each ──────────────────────────────────────────────────────────────────────

_CONFIG_KEYS = {"telegram": "botToken", "discord": "token"}


def _manifest(name: str) -> ChannelManifest:
    manifest = find_manifest(name)
    assert manifest is not None, "it ships with us"
    return manifest


def _variable(manifest: ChannelManifest) -> str:
    return next(iter(manifest.environ))


def _token_key(manifest: ChannelManifest) -> str:
    return {"telegram": "bot_token", "discord": "token"}[manifest.name]


def _settings_now(manifest: ChannelManifest, place: StateLocation) -> ChannelSettings:
    variables = place.config.environment(place.environ)
    for each in accounts_in(place.config.channels, variables):
        if (each.channel, each.account_id) == (manifest.name, DEFAULT):
            return each.settings
    return manifest.settings()


def _before(channel: str) -> list[str]:
    """The instructions for getting a token."""
    if channel == "telegram":
        return [
            tr("In Telegram, write /newbot to @BotFather (https://t.me/BotFather) and choose a name."),
            tr("It answers with the token of your bot."),
        ]  # fmt: skip
    return [
        tr("At https://discord.com/developers/applications choose New Application, then Bot."),
        tr("Reset Token shows the token. On the same page switch on Message Content Intent."),
    ]


def next_clicks(chosen: ChosenChannel) -> list[str]:
    """The next steps of the person, in order."""
    facts, channel = chosen.facts, chosen.manifest.name
    if facts is None:
        return []
    lines = [tr("{platform} knows it as {name}.").format(platform=chosen.manifest.title, name=facts.name)]  # fmt: skip
    if facts.is_deaf:
        lines.append(
            tr(
                "Message Content Intent is still off: switch it on at https://discord.com/developers/applications, page Bot."
            )
        )
    if facts.open_url and channel == "telegram":
        lines.append(tr("Open {url}, press Start and write to it.").format(url=facts.open_url))
        lines.append(tr("To hear all of a group: /setprivacy at @BotFather, then Disable."))
    elif facts.open_url:
        lines.append(tr("Invite it to your server: {url}").format(url=facts.open_url))
    if chosen.owner is None:
        code = tr("You get a code then; let yourself in with: crossclaw pairing approve {channel} CODE")  # fmt: skip
        lines.append(code.format(channel=channel))
    return lines
