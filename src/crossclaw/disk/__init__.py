"""Disk: makes and replaces files that only their owner may read."""

__all__ = [
    "archive",
    "extras",
    "free_space",
    "growth",
    "guarding",
    "held",
    "private",
    "threads",
    "zstd",
]
