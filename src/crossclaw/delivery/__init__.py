"""Delivery: sends replies out, at least once on platforms that can recognise duplicates."""

__all__ = [
    "files",
    "outbox",
    "prefixes",
    "signals",
]
