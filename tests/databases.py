"""Databases for tests: one for each file that a test would have, on the server that `make cluster` has started.

Made once from a template, emptied after each test and used again: that takes a tenth of the time.
"""

import itertools
import os
from hashlib import blake2s
from pathlib import Path
from typing import Any

import pytest

from crossclaw.ledger import opening
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.postgres.dialect import PgStatement
from crossclaw.ledger.postgres.errors import ServerTrouble
from crossclaw.ledger.postgres.lockstep import PendingRows, PipelinedDatabase, read_alone
from crossclaw.ledger.postgres.migrate import SCHEMA, migrate
from crossclaw.ledger.postgres.wire import PgWire, bound
from crossclaw.ledger.sqlite.migrate import VERSION

SERVER = os.environ.get("CROSSCLAW_CLUSTER", "")
"""The address of a server, without a database: postgresql://user@host:port"""
TEMPLATE = f"crossclaw_template_{VERSION}_2"
_LOCK = 4711
# Only tables with something in them: to truncate one makes files anew.
_EMPTY = f"""
DO $$
DECLARE each text; is_used boolean; used text[] := '{{}}';
BEGIN
  FOR each IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname = '{SCHEMA}' AND tablename NOT IN ('store', 'batches')
  LOOP
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || each || ')' INTO is_used;
    IF is_used THEN used := used || each; END IF;
  END LOOP;
  IF used <> '{{}}' THEN
    EXECUTE 'TRUNCATE ' || array_to_string(used, ', ') || ' RESTART IDENTITY CASCADE';
  END IF;
END $$
"""


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

    def copy(self, folder: Path, copy: Path) -> None:
        """Whatever stores lie in a folder also lie in its copy, as they are at this moment."""
        folder, copy = folder.resolve(), copy.resolve()
        for path in [path for path in self._used if path.is_relative_to(folder)]:
            source = ServedStore(self.url(path))
            target = ServedStore(self.url(copy / path.relative_to(folder)))
            for name in source.tables():
                source.copy_table(name, target)
            source.close()
            target.close()

    def empty(self) -> None:
        """After a test: whatever it has left open is closed, and what it has stored is gone."""
        for name in self._used.values():
            self._admin.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
            wire = PgWire(f"{self._server}/{name}")
            wire.script(
                "SET lock_timeout = '60s'"
            )  # rather an error than a test that waits for ever
            wire.script(_EMPTY)
            wire.close()
            self._free.append(name)
        self._used.clear()


class ServedStore:
    """A connection to a store, beside the gateway that uses it. Speaks SQLite's dialect, as the rules do."""

    filename = "a database of tests"

    def __init__(self, url: str) -> None:
        self._wire = PgWire(url)
        self._wire.script(f"SET search_path TO {SCHEMA}")

    def pragma(self, name: str) -> str:
        """A server looks after its pages itself."""
        assert name == "integrity_check"
        return "ok"

    def execute(self, sql: str, values: Any = (), /) -> Any:
        def run(db: PipelinedDatabase) -> PendingRows:
            rows = db.execute(sql, values)
            rows.answer  # noqa: B018  now, and not when somebody looks
            return rows

        return read_alone(self._wire, run, "test")

    def empty(self) -> None:
        self._wire.script(_EMPTY)

    def tables(self) -> list[str]:
        sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 AND tablename NOT IN ('store', 'batches')"
        return [name for (name,) in self._wire.ask(sql, SCHEMA)]

    def copy_table(self, name: str, target: "ServedStore") -> None:
        sql = "SELECT column_name::text FROM information_schema.columns WHERE table_name = $1 AND table_schema = $2 ORDER BY ordinal_position"
        columns = [f'"{column}"' for (column,) in self._wire.ask(sql, name, SCHEMA)]
        rows = self._wire.ask(f"SELECT {', '.join(columns)} FROM {name}")
        marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        insert = PgStatement(
            f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})".encode(), writes=True
        )
        if rows:
            target._wire.run_pipelined([[bound(insert, row) for row in rows]])
        if '"id"' in columns and rows:
            target._wire.ask(
                f"SELECT setval(s, (SELECT max(id) FROM {name})) FROM "
                f"pg_get_serial_sequence('{SCHEMA}.{name}', 'id') s WHERE s IS NOT NULL"
            )

    def close(self) -> None:
        self._wire.close()

    def __enter__(self) -> "ServedStore":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def url_of_folder(folder: Path) -> str:
    """For processes that only share a folder: its database, made when it is first asked for."""
    name = f"folder_{blake2s(str(folder.resolve()).encode(), digest_size=8).hexdigest()}"
    admin = PgWire(f"{SERVER}/postgres")
    try:
        if not admin.ask("SELECT 1 FROM pg_database WHERE datname = $1", name):
            admin.script(f"CREATE DATABASE {name}")
    finally:
        admin.close()
    return f"{SERVER}/{name}"


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
