"""Reads that give way: on a server every read waits for the network, and others go on meanwhile. With the fixture
`reads_yield`, or with CROSSCLAW_READS=yield for a whole run of tests, SQLite's reads do the same."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import anyio.lowlevel
import pytest

from crossclaw.ledger.contract import Reads
from crossclaw.ledger.sqlite.reads import SqliteReads


def let_reads_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, read in vars(Reads).items():
        if inspect.isfunction(read) and not name.startswith("_"):
            monkeypatch.setattr(SqliteReads, name, yielding(getattr(SqliteReads, name)))


def yielding(read: Callable[..., Any]) -> Callable[..., Any]:
    """Others go on before it looks, and before its answer is heard."""

    @wraps(read)
    async def method(*args: Any, **named: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        answer = await read(*args, **named)
        await anyio.lowlevel.checkpoint()
        return answer

    return method
