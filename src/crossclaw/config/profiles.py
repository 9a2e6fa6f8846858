"""Auth profiles: keys of model services that are kept in files of their own, never in the config.

    <state>/credentials/auth-profiles.json          what `crossclaw onboard` keeps
    <state>/agents/<agent>/agent/auth-profiles.json  what OpenClaw keeps
    {"version": 1, "profiles": {"anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "…"}}}

Keys and tokens are used; a login of a browser (`oauth`) is not, because only its own client may renew it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from crossclaw.disk.private import make_folder, write_file
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

BYTES_MAX = 1_000_000  # a file of keys is small; what is larger is none


class NamedKey(msgspec.Struct, frozen=True):
    label: str
    """The key's origin, for people; never the key itself."""
    key: Secret
    base_url: str | None = None
    """The address that it was given for, if one was named: it goes to no other."""


class _Profile(msgspec.Struct, rename="camel"):
    provider: str
    type: str = "api_key"
    key: str | None = None
    token: str | None = None
    base_url: str | None = None


class _File(msgspec.Struct):
    profiles: dict[str, msgspec.Raw] = {}
    order: dict[str, list[str]] | None = None


def profiles_path(state_dir: Path, agent_id: str) -> Path:
    return state_dir / "agents" / agent_id / "agent" / "auth-profiles.json"


def kept_path(state_dir: Path) -> Path:
    return state_dir / "credentials" / "auth-profiles.json"


def find_profiles(
    state_dir: Path, agent_id: str, order: Mapping[str, Sequence[str]]
) -> dict[str, list[NamedKey]]:
    """The keys of both files, those in `credentials/` first: they were given to this gateway."""
    found: dict[str, list[NamedKey]] = {}
    for path in (kept_path(state_dir), profiles_path(state_dir, agent_id)):
        for provider, keys in read_profiles(path, order).items():
            found.setdefault(provider, []).extend(keys)
    return found


def keep_key(state_dir: Path, provider: str, key: Secret, base_url: str | None = None) -> Path:
    """Stores a key in `credentials/`, for its owner alone; others that are there stay. `base_url`: the only
    address that it may go to."""
    path = kept_path(state_dir)
    make_folder(path.parent)
    kept = _kept(path)
    kept.setdefault("profiles", {})[f"{provider}:default"] = {
        "type": "api_key",
        "provider": provider,
        "key": key.reveal(),
    } | ({"baseUrl": base_url} if base_url else {})
    _write(path, kept)
    return path


def _write(path: Path, kept: dict[str, Any]) -> None:
    text = msgspec.json.format(msgspec.json.encode({"version": 1} | kept), indent=2).decode()
    write_file(path, text + "\n")


class KeptProfiles(NamedTuple):
    kept: list[str]
    before: int
    """The number of keys of the same name that were here already, and stay."""
    left: list[str]
    """Logins that only their own client can use, with the reason."""


def keep_profiles(
    state_dir: Path, lists: Sequence[bytes], *, dry_run: bool = False
) -> KeptProfiles:
    """Stores the keys of OpenClaw's lists in `credentials/`, under their own names."""
    path = kept_path(state_dir)
    kept = _kept(path)
    profiles = kept.setdefault("profiles", {})
    report = KeptProfiles([], 0, [])
    for name, raw in (pair for each in lists for pair in _profiles_in(each)):
        if name in profiles:
            report = report._replace(before=report.before + 1)
        elif key := raw.key or raw.token:
            secret = {"key": key} if raw.key else {"token": key}
            profiles[name] = {"type": raw.type, "provider": raw.provider, **secret}
            report.kept.append(name)
        else:
            why = "its key lies elsewhere" if raw.type != "oauth" else "sign in with its own client"
            report.left.append(f"{name} ({raw.type}: {why})")
    if report.kept and not dry_run:
        make_folder(path.parent)
        _write(path, kept)
    return report


def _profiles_in(raw: bytes) -> Iterator[tuple[str, _Profile]]:
    try:
        read = msgspec.json.decode(raw, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    for name, each in read.profiles.items():
        with suppress(msgspec.MsgspecError):
            yield name, msgspec.json.decode(each, type=_Profile)


def forget_key(state_dir: Path, provider: str) -> bool:
    """Removes a provider's key; returns whether there was one. A key that was given for one address must not
    go to another."""
    path = kept_path(state_dir)
    kept = _kept(path)
    if kept.get("profiles", {}).pop(f"{provider}:default", None) is None:
        return False
    write_file(path, msgspec.json.format(msgspec.json.encode(kept), indent=2).decode() + "\n")
    return True


def _kept(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigInvalid(
            f"{path} cannot be read ({error}); correct it or move it away first"
        ) from None


def read_profiles(path: Path, order: Mapping[str, Sequence[str]]) -> dict[str, list[NamedKey]]:
    """The keys by provider, in the config's order; the file's own order if that says nothing."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
        read = msgspec.json.decode(data[:BYTES_MAX], type=_File)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("the keys in %s cannot be read: %s", path, error)
        return {}
    found: dict[str, dict[str, NamedKey]] = {}
    for name, raw in read.profiles.items():
        try:
            profile = msgspec.json.decode(raw, type=_Profile)
        except msgspec.MsgspecError:
            continue
        if key := profile.key or profile.token:
            named = NamedKey(f"profile {name}", Secret(key), profile.base_url)
            found.setdefault(profile.provider, {})[name] = named
    return {
        provider: _ordered(keys, order.get(provider) or (read.order or {}).get(provider) or ())
        for provider, keys in found.items()
    }


def _ordered(keys: dict[str, NamedKey], first: Sequence[str]) -> list[NamedKey]:
    names = dict.fromkeys([*(name for name in first if name in keys), *keys])
    return [keys[name] for name in names]
