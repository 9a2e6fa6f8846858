"""The door: every call to the gateway comes through here, by name and with a scope."""

__all__ = [
    "dispatch",
    "held_credentials",
    "open_calls",
    "principal",
    "registry",
    "resolver",
]
