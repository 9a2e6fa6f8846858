"""Databases for tests: one for each file that a test would have, on the server that `make cluster` has started.

Made once from a template, emptied after each test and used again: that takes a tenth of the time.
"""

import itertools
import os
from pathlib import Path

import pytest

from crossclaw.ledger import opening
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.postgres.errors import ServerTrouble
from crossclaw.ledger.postgres.migrate import SCHEMA, migrate
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.migrate import VERSION

SERVER = os.environ.get("CROSSCLAW_CLUSTER", "")
"""The address of a server, without a database: postgresql://user@host:port"""
TEMPLATE = f"crossclaw_template_{VERSION}"
_LOCK = 4711


class Databases:
    """Of one process of tests."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._admin = PgWire(f"{server}/postgres")
        self._names = (f"crossclaw_{os.getpid()}_{number}" for number in itertools.count())
        self._free: list[str] = []
        self._used: dict[Path, str] = {}
        self._make_template()

    def url(self, path: Path) -> str:
        """Of the database that stands for this file."""
        path = path.resolve()
        if path not in self._used:
            self._used[path] = self._free.pop() if self._free else self._make()
        return f"{self._server}/{self._used[path]}"

    def _make_template(self) -> None:
        self._admin.ask("SELECT pg_advisory_lock($1::bigint)", _LOCK)
        try:
            found = self._admin.ask("SELECT 1 FROM pg_database WHERE datname = $1", TEMPLATE)
            if not found:
                self._admin.script(f"CREATE DATABASE {TEMPLATE}")
                wire = PgWire(f"{self._server}/{TEMPLATE}")
                migrate(wire)
                wire.close()
        finally:
            self._admin.ask("SELECT pg_advisory_unlock($1::bigint)", _LOCK)

    def _make(self) -> str:
        name = next(self._names)
        while True:
            try:
                self._admin.script(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
                return name
            except ServerTrouble as trouble:  # somebody else copies it just now
                if trouble.state != "55006":
                    raise

    def empty(self) -> None:
        """After a test: whatever it has left open is closed, and what it has stored is gone."""
        for name in self._used.values():
            self._admin.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
            wire = PgWire(f"{self._server}/{name}")
            tables = wire.ask(
                "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables "
                "WHERE schemaname = $1 AND tablename <> 'store'",
                SCHEMA,
            )[0][0]
            wire.script(f"TRUNCATE {tables} RESTART IDENTITY")
            wire.close()
            self._free.append(name)
        self._used.clear()


_databases: list[Databases] = []


def databases() -> Databases:
    if not _databases:
        _databases.append(Databases(SERVER))
    return _databases[0]


def keep_ledgers_in_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would open a file opens the database that stands for it."""

    def open_file(path: Path, *, inline: bool) -> Ledger:
        return opening._open_database(databases().url(path), path.parent, inline=inline)

    monkeypatch.setattr(opening, "_open_file", open_file)
