"""Sections: the common base of all parts of openclaw.json.

Names are camelCase in the file and snake_case here. Keys of OpenClaw that Crossclaw has no use for stand in
`unused`: they are known, so they are never mistaken for a typo.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import msgspec

from crossclaw.domain.secret import Secret

Count = Annotated[int, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]

_SECRET_NAME = re.compile(
    r"(tokens?|secrets?|pass(word|wd|phrase)?|(api|private|signing|encrypt(ion)?|access)_?keys?"
    r"|credentials?|service_?account|cookie|authorization)$",
    re.I,
)
_SECRETS_NAME = re.compile(r"^(env|headers)$", re.I)
"""Names of sections in which every value may be a secret."""


class Section(msgspec.Struct, frozen=True, rename="camel"):
    unused: ClassVar[frozenset[str]] = frozenset()
    """Keys without a type here. They are ignored, and named in the one list of what has no effect."""
    idle: ClassVar[frozenset[str]] = frozenset()
    """Keys with a type that have no effect yet; named in the same list."""
    quiet: ClassVar[frozenset[str]] = frozenset()
    """Keys that are ignored silently."""
    local: ClassVar[frozenset[str]] = frozenset()
    """Keys that are set only in the local file, never over the wire: programs, paths, variables, addresses to
    listen at."""

    def over(self, base: Self | None) -> Self:
        """This section's values, and the base's where they are not set."""
        if base is None:
            return self
        mine = {name: v for name, v in msgspec.structs.asdict(self).items() if v is not None}
        return msgspec.structs.replace(base, **mine)


class Loose(dict[str, Any]):
    """A section without a type here. Values under names such as `botToken` are `Secret`s in it."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Loose":
        return cls((name, _sealed(name, child)) for name, child in value.items())


class Secrets(dict[str, Secret]):
    """Names with secret values: variables, headers."""


def _sealed(name: str, value: Any, inside: bool = False) -> Any:
    secret = inside or bool(_SECRET_NAME.search(name) or _SECRETS_NAME.search(name))
    if isinstance(value, dict):
        return Loose((key, _sealed(key, child, secret)) for key, child in value.items())
    if isinstance(value, list):
        return [_sealed(name, item, secret) for item in value]
    if secret and isinstance(value, str | int | float) and not isinstance(value, bool):
        return Secret(str(value))
    return value


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())
