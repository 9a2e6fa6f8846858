"""Channel accounts: which accounts of chat platforms a config names, each with its settings; and the faults
in them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from crossclaw.config.channels import (
    AccountConfig,
    ChannelDefaults,
    ChannelSettings,
    GroupChat,
    gathered,
    overlaid,
)
from crossclaw.config.check import ConfigFinding, Hook, Note, Problem, Unread, examine
from crossclaw.config.manifests import DescribesChannel, find, known_names
from crossclaw.config.no_effect import NoEffect
from crossclaw.config.section import Loose
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.mention_patterns import mention_pattern
from crossclaw.domain.secret import Secret

DEFAULT = "default"
DEFAULTS = "defaults"


def account_sections(channels: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The sections about accounts: each channel's own, and those of its accounts."""
    for section in channels.values():
        accounts = section.get("accounts") if isinstance(section, Mapping) else None
        inside = accounts.values() if isinstance(accounts, Mapping) else ()
        yield from (each for each in (section, *inside) if isinstance(each, Mapping))


def accounts_in(channels: Mapping[str, Any], variables: Mapping[str, str]) -> list[AccountConfig]:
    """Every account that is switched on, of every channel that there is. Variables such as TELEGRAM_BOT_TOKEN
    stand for keys of the default account, and make one where the config says nothing."""
    hook = _reading(variables)
    written: dict[str, dict[str, Any]] = {}
    for name, section in channels.items():
        if isinstance(section, dict) and (manifest := find(name)) is not None:
            known = written.get(manifest.name)
            if known is None or _is_usable(section, manifest, hook):
                written[manifest.name] = section
    found: list[AccountConfig] = []
    for name in known_names():
        if (manifest := find(name)) is None:
            continue
        section = written.get(manifest.name)
        if section is None and not any(variables.get(each) for each in manifest.environ):
            continue
        for account_id, raw in _raw_accounts(manifest, section or {}, variables).items():
            settings = msgspec.convert(raw, manifest.settings, dec_hook=hook)
            if settings.enabled and (section or {}).get("enabled") is not False:
                found.append(AccountConfig(manifest.name, account_id, settings))
    return found


def _is_usable(section: dict[str, Any], manifest: DescribesChannel, hook: Hook) -> bool:
    """Whether a section can be used: of two sections for one channel, under its own name and under another,
    the usable one counts."""
    settings = msgspec.convert(overlaid(section, {}), manifest.settings, dec_hook=hook)
    return settings.enabled and settings.is_set_up


def defaults_in(channels: Mapping[str, Any]) -> ChannelDefaults:
    return msgspec.convert(dict(channels.get(DEFAULTS) or {}), ChannelDefaults)


def _raw_accounts(
    manifest: DescribesChannel, section: dict[str, Any], variables: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    listed = section.get("accounts") or {}
    either = manifest.settings.alternatives
    raw = {str(name): overlaid(section, account, either) for name, account in listed.items()}
    if not raw:
        raw = {DEFAULT: overlaid(section, {})}
    if DEFAULT in raw:
        raw[DEFAULT] = _with_variables(raw[DEFAULT], manifest, variables)
    return raw


def _with_variables(
    raw: dict[str, Any], manifest: DescribesChannel, variables: Mapping[str, str]
) -> dict[str, Any]:
    """The account's keys with those that variables stand for. A key may be nested: `cloud.accessToken`."""
    for variable, key in manifest.environ.items():
        written = any(raw.get(each) for each in _alternatives(manifest, key))
        if (value := variables.get(variable)) and not written:
            raw = _set_if_missing(raw, key.split("."), value)
    return raw


def _alternatives(manifest: DescribesChannel, key: str) -> set[str]:
    """The other keys that may be written in its place."""
    groups = manifest.settings.alternatives
    return {each for group in groups if key in group for each in group} - {key}


def _set_if_missing(raw: dict[str, Any], steps: list[str], value: str) -> dict[str, Any]:
    first, *rest = steps
    here = raw.get(first)
    if rest:
        inside = here if isinstance(here, dict) else {}
        return {**raw, first: _set_if_missing(inside, rest, value)}
    return raw if here else {**raw, first: value}


def _reading(variables: Mapping[str, str]) -> Hook:
    """A decoder's hook for a config that is loaded already: what may be secret is a `Secret`."""

    def convert(kind: type, value: Any) -> Any:
        if kind is Loose:
            return Loose.of(value)
        if kind is not Secret:
            raise ValueError(f"expected {kind.__name__}")
        match value:
            case Secret():
                return value
            case str():
                return Secret(value)
            case {"source": _, "id": name}:
                return Secret(variables.get(_plain(name), ""))
        raise ValueError("expected text")

    return convert


def _plain(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def odd_patterns(groups: Iterator[tuple[KeyPath, GroupChat]]) -> Iterator[ConfigFinding]:
    """Mention patterns that cannot be used."""
    for path, group in groups:
        for index, text in enumerate(group.mention_patterns or ()):
            try:
                mention_pattern(text)
            except ValueError as error:
                yield Problem((*path, "mentionPatterns", index), f"this pattern {error}")


# ── what is wrong with it ──────────────────────────────────────────────────────────────────────


def examine_channels(channels: Any, hook: Hook) -> Iterator[ConfigFinding | Unread | NoEffect]:
    """Single values too, also where the rest of the config is good."""
    if not isinstance(channels, dict):
        return
    for name, section in channels.items():
        path: KeyPath = ("channels", name)
        if name == DEFAULTS:
            yield from examine(ChannelDefaults, section, path, hook)
        elif (manifest := find(name)) is None:
            yield NoEffect(path, "channels")
        elif not isinstance(section, dict):
            yield Problem(path, "expected an object")
        else:
            yield from _examine_channel(manifest, section, path, hook)


def _examine_channel(
    manifest: DescribesChannel, section: dict[str, Any], path: KeyPath, hook: Hook
) -> Iterator[ConfigFinding | Unread]:
    accounts = section.get("accounts") or {}
    shared = {key: value for key, value in section.items() if key != "accounts"}
    yield from examine(manifest.settings, shared, path, hook)
    if not isinstance(accounts, dict):
        yield Problem((*path, "accounts"), "expected an object")
        return
    for account_id, account in accounts.items():
        where: KeyPath = (*path, "accounts", account_id)
        if not isinstance(account, dict):
            yield Problem(where, "expected an object")
            continue
        yield from examine(manifest.settings, account, where, hook)
    either = manifest.settings.alternatives
    for where, own, whole in _each_account(section, accounts, path, either):
        try:
            settings = msgspec.convert(whole, manifest.settings, dec_hook=hook)
        except msgspec.ValidationError:
            continue  # told above
        yield from _contradictions(manifest, settings, own, where)


def _each_account(
    section: dict[str, Any],
    accounts: dict[str, Any],
    path: KeyPath,
    either: tuple[tuple[str, ...], ...],
) -> Iterator[tuple[KeyPath, dict[str, Any], dict[str, Any]]]:
    """Each account's path, its own section, and its settings with the channel's."""
    for name, account in accounts.items():
        if isinstance(account, dict):
            yield (*path, "accounts", name), account, overlaid(section, account, either)
    if not accounts:
        yield path, section, overlaid(section, {})


def _contradictions(
    manifest: DescribesChannel, settings: ChannelSettings, own: dict[str, Any], path: KeyPath
) -> Iterator[ConfigFinding]:
    entries = [str(entry) for entry in settings.allow_from]
    if settings.dm_policy == "open" and "*" not in entries:
        key = "dmPolicy" if "dmPolicy" in own else "dm" if "dm" in own else None
        yield Problem(
            (*path, key) if key else path,
            'dmPolicy "open" lets everybody write to your agent; say so by "*" in allowFrom, or '
            'choose "pairing", with which you approve each person',
        )
    written = gathered(own)
    for key in ("allowFrom", "groupAllowFrom"):
        at: KeyPath = (*path, key) if key in own else (*path, "dm", key)
        for entry in written.get(key) or ():
            if str(entry) != "*" and manifest.normalize_sender(str(entry)) is None:
                yield Note(at, _no_id(manifest, entry))
    for where, group in settings.all_groups:
        for entry in group.senders or ():
            if str(entry) != "*" and manifest.normalize_sender(str(entry)) is None:
                yield Note((*path, *where), _no_id(manifest, entry))
        for entry in group.tools_by_sender:
            if sender_of_rule(entry, manifest.normalize_sender) is None:
                yield Note((*path, *where, "toolsBySender", entry), _NO_RULE.format(entry))


_NO_RULE = '"{}" is no id, and names change hands: nothing from here is heard until the entry is written by id (id:…)'


def sender_of_rule(entry: str, normalize: Callable[[str], str | None]) -> str | None:
    """The sender of an entry of `toolsBySender`: an id, or `*`. None: a name, which anybody can take."""
    kind, colon, rest = entry.strip().partition(":")
    if entry.strip() == "*":
        return "*"
    if colon and kind in ("username", "name"):
        return None
    return normalize(rest if colon and kind in ("id", "e164") else entry)


def _no_id(manifest: DescribesChannel, entry: Any) -> str:
    return (
        f'"{entry}" is not an id of {manifest.title} and lets nobody in: names change hands, ids do not. '
        f"crossclaw pairing list shows the ids of those who have written"
    )
