"""Crossclaw: sessions that know of each other.

For programs outside: `crossclaw.client` talks with a gateway, and `crossclaw.testing` has doubles for tests. All
else is the gateway itself and changes without notice; there each room's `__init__` names what other rooms use.
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

__all__ = ["__version__", "client", "testing"]


def __getattr__(name: str) -> ModuleType:
    """`crossclaw.client` without an import of its own; nothing is loaded before it is named."""
    if name in ("client", "testing"):
        return import_module(f"crossclaw.{name}")
    raise AttributeError(f"module 'crossclaw' has no attribute {name!r}")
