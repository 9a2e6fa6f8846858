"""Stores as tests look at them from outside: a file, or on a run on PostgreSQL the database that stands for it."""

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

import apsw

ON_SERVER = "CROSSCLAW_CLUSTER" in os.environ


class OpenStore(Protocol):
    """What both have of a connection."""

    def execute(self, sql: str, values: Any = (), /) -> Any: ...

    def close(self) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...


def look_into(path: Path) -> OpenStore:
    if not ON_SERVER:
        return apsw.Connection(str(path))
    from tests.databases import ServedStore, databases  # noqa: PLC0415  an extra

    return ServedStore(databases().url(path))


def copy_state(folder: Path, copy: Path) -> Path:
    """A state folder and the stores in it, as another process would find them now."""
    shutil.copytree(folder, copy)
    if ON_SERVER:
        from tests.databases import databases  # noqa: PLC0415  an extra

        databases().copy(folder, copy)
    return copy
