"""Mappings with a limited size."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_newest(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Adds a value as the newest; beyond `most` the oldest goes."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]
