"""A PostgreSQL database as one end of a move."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.database import Database
from crossclaw.ledger.moving import MovableStore, MovedTable
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.lockstep import read_alone
from crossclaw.ledger.postgres.migrate import SCHEMA, SIDE_TABLES
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.words import vector_of

T = TypeVar("T")

_TABLES = (
    f"CREATE TEMP VIEW all_tables AS SELECT tablename AS name FROM pg_tables "
    f"WHERE schemaname = '{SCHEMA}' AND tablename NOT IN {(*SIDE_TABLES, 'entries_words')}"
)
_COLUMNS = (
    "SELECT column_name, data_type FROM information_schema.columns "
    "WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position"
)
_KEYS = (
    "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k(number, place) "
    "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
    "WHERE i.indisprimary AND i.indrelid = $1::text::regclass ORDER BY k.place"
)


class PostgresMovable(MovableStore):
    def __init__(self, url: str) -> None:
        address = DatabaseAddress(url)
        self.name = address.shown
        self._wire = address.prepare(half_moved=True)
        self._wire.script(_TABLES)

    def run(self, work: Callable[[Database], T]) -> T:
        try:
            return read_alone(self._wire, work, self.name)
        except (ServerTrouble, ConnectionLost) as error:
            raise StoreError(f"{self.name} cannot be read: {error}") from error

    def store(self, work: Callable[[Database], None]) -> None:
        def within(db: Database) -> None:
            db.execute("BEGIN")
            work(db)
            db.execute("COMMIT").fetchall()

        try:
            read_alone(self._wire, within, self.name)
        except (ServerTrouble, ConnectionLost) as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from error

    def tables(self) -> list[MovedTable]:
        names = self._wire.ask("SELECT name::text FROM all_tables ORDER BY name")
        return [self._table(name) for (name,) in names if name != "move_progress"]

    def _table(self, name: str) -> MovedTable:
        columns = self._wire.ask(_COLUMNS, SCHEMA, name)
        keys = self._wire.ask(_KEYS, f"{SCHEMA}.{name}")
        return MovedTable(
            name,
            tuple(column for column, _ in columns),
            tuple(column for (column,) in keys),
            frozenset(column for column, kind in columns if kind == "bytea"),
        )

    def put_words(self, db: Database, words: list[tuple[int, str]]) -> None:
        db.executemany(
            "INSERT INTO entries_words (id, words) VALUES (?, ?::tsvector)",
            [(number, vector_of(text)) for number, text in words],
        )

    def finish(self, tables: Sequence[MovedTable]) -> None:
        for table in tables:
            if table.key == ("id",):
                self._wire.ask(
                    f"SELECT setval(s, (SELECT max(id) FROM {table.name})) FROM "
                    f"pg_get_serial_sequence('{SCHEMA}.{table.name}', 'id') s "
                    f"WHERE s IS NOT NULL AND EXISTS (SELECT 1 FROM {table.name})"
                )

    def close(self) -> None:
        self._wire.close()
