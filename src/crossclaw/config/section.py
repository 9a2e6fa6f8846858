"""Sections: what every part of openclaw.json has in common.

Names are camelCase in the file and snake_case here. Keys of OpenClaw that Crossclaw has no use
for stand in `unused`: they are known, so they are never mistaken for a typo.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from crossclaw.domain.secret import Secret

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

_SECRET_NAME = re.compile(r"(token|secret|password|passphrase|api_?key|private_?key)$", re.I)


class Section(msgspec.Struct, frozen=True, rename="camel"):
    unused: ClassVar[frozenset[str]] = frozenset()
    """Read over with a warning."""
    quiet: ClassVar[frozenset[str]] = frozenset()
    """Read over without a word."""


class Loose(dict[str, Any]):
    """A section without a type here. Texts under names such as `botToken` are `Secret`s in it."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Loose":
        return cls((name, _sealed(name, child)) for name, child in value.items())


class Secrets(dict[str, Secret]):
    """Names with secret values: variables, headers."""


def _sealed(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return Loose.of(value)
    if isinstance(value, list):
        return [_sealed(name, item) for item in value]
    if isinstance(value, str) and _SECRET_NAME.search(name):
        return Secret(value)
    return value


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())
