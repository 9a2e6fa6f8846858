"""Delivery: replies on their way out, at least once where a platform can tell doubles apart."""

__all__ = [
    "files",
    "outbox",
    "prefixes",
    "signals",
]
