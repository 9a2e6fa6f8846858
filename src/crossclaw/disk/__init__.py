"""Disk: makes and replaces files that only their owner may read."""

__all__ = [
    "archive",
    "extras",
    "growth",
    "guarding",
    "held",
    "private",
    "room",
    "threads",
    "zstd",
]
