"""Channels: adapters to chat platforms. Platform details stop here."""

__all__ = [
    "contract",
    "spelling",
]
