"""Hiding: a config file's values with every secret left out, so that a person may see and edit it.

Types decide, not the look of a value. An unknown key, which has no type, is not shown.
"""

import re
from typing import Any, get_args

import msgspec

from crossclaw.config.check import inside_of, kinds_of, members_of, shape_of
from crossclaw.config.model import Config, without_credentials
from crossclaw.config.section import Loose, Secrets, Section
from crossclaw.config.source import INCLUDE
from crossclaw.domain.secret import Secret

HIDDEN = "(hidden)"  # what a secret is shown as; sent back, it means the one that is there

_REFERENCE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")  # it names a secret and is none


def without_secrets(written: Any) -> Any:
    return without_credentials(_shown(Config, written))


def _shown(kind: Any, value: Any) -> Any:
    inside = inside_of(kind, shape_of(value))
    if inside is None:
        return _shown_leaf(set(members_of(kind)), value)
    if isinstance(inside, type) and issubclass(inside, Section):
        return {key: _shown_member(inside, key, child) for key, child in value.items()}
    if isinstance(value, dict):
        return {key: _shown(get_args(inside)[-1], child) for key, child in value.items()}
    return [_shown(get_args(inside)[0], child) for child in value]


def _shown_member(section: type[Section], key: str, value: Any) -> Any:
    if key == INCLUDE:
        return value
    return _shown(kinds_of(section)[key], value) if key in kinds_of(section) else _hidden(value)


def _shown_leaf(kinds: set[Any], value: Any) -> Any:
    if Loose in kinds and isinstance(value, dict):
        return msgspec.to_builtins(Loose.of(value), enc_hook=lambda _secret: HIDDEN)
    if isinstance(value, dict | list):
        return _hidden(value)
    # A text where only a section may stand is nothing that anybody knows; where a text may stand too, it is that.
    is_known = type(value) in kinds or not any(_is_section(kind) for kind in kinds)
    return value if is_known and not {Secret, Secrets} & kinds else _hidden(value)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _hidden(value: Any) -> Any:
    """The value with every content hidden. Its form stays, so that it can be kept, moved and taken out."""
    if isinstance(value, dict):
        return {name: _hidden(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_hidden(child) for child in value]
    is_plain = value is None or isinstance(value, bool)
    return value if is_plain or _REFERENCE.fullmatch(str(value)) else HIDDEN
