"""Disk: how the gateway makes and replaces what only its owner may read."""

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
