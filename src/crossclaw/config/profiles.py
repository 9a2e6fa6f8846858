"""Auth profiles: the keys that OpenClaw keeps beside its config, as an import leaves them.

    <state>/agents/<agent>/agent/auth-profiles.json
    {"version": 1, "profiles": {"anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "…"}}}

Keys and tokens are used; a login of a browser (`oauth`) is not, because only its own client may renew it.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

BYTES_MAX = 1_000_000  # a file of keys is small; what is larger is none


class NamedKey(msgspec.Struct, frozen=True):
    label: str
    """Where it comes from, for people; never the key itself."""
    key: Secret


class _Profile(msgspec.Struct):
    provider: str
    type: str = "api_key"
    key: str | None = None
    token: str | None = None


class _File(msgspec.Struct):
    profiles: dict[str, msgspec.Raw] = {}
    order: dict[str, list[str]] | None = None


def profiles_path(state_dir: Path, agent_id: str) -> Path:
    return state_dir / "agents" / agent_id / "agent" / "auth-profiles.json"


def read_profiles(path: Path, order: Mapping[str, Sequence[str]]) -> dict[str, list[NamedKey]]:
    """By provider, in the config's order; the file's own order where that says nothing."""
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
            named = NamedKey(f"profile {name}", Secret(key))
            found.setdefault(profile.provider, {})[name] = named
    return {
        provider: _ordered(keys, order.get(provider) or (read.order or {}).get(provider) or ())
        for provider, keys in found.items()
    }


def _ordered(keys: dict[str, NamedKey], first: Sequence[str]) -> list[NamedKey]:
    names = dict.fromkeys([*(name for name in first if name in keys), *keys])
    return [keys[name] for name in names]
