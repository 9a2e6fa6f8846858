"""Channels: adapters to chat platforms. Platform details stop here."""

__all__ = [
    "account_roles",
    "accounts",
    "contract",
    "hosting",
    "http",
    "manifest",
    "registry",
    "spelling",
    "supervisor",
]
