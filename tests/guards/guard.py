"""A guard, what takes it away, and the tests that must notice."""

from typing import NamedTuple


class Guard(NamedTuple):
    item: int
    what: str
    path: str
    """Below src/crossclaw."""
    old: str
    new: str
    tests: tuple[str, ...]
