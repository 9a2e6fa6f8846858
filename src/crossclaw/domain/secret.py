"""Secrets: tokens, passwords and keys that can be used but not shown by accident.

`repr`, `str`, f-strings, logs and JSON never carry the value. There is no equality with plain
text, because `==` stops at the first different letter and so tells how much was right: compare
digests with `hmac.compare_digest` instead.
"""

from hashlib import sha256


class Secret:
    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself. Write it only where it is used."""
        return self._value

    def digest(self) -> bytes:
        """The digest that is stored and compared in its place."""
        return sha256(self._value.encode("utf-8", "surrogatepass")).digest()

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(hidden)"
