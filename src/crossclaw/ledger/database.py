"""The interface between the ledger's rules and an engine: statements in, rows out.

The rules (`ledger/sqlite/*`) are written once, in SQLite's dialect. SQLite's own connection has
these methods; for PostgreSQL `ledger/postgres` implements them: there a statement is sent when its
rows are needed, together with those of others.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    @property
    def get(self) -> Any:
        """The one value of a statement that returns one; None if there is no row."""
        ...


class Database(Protocol):
    @property
    def filename(self) -> str:
        """The name of the store, used where unreadable rows are counted."""
        ...

    def execute(self, sql: str, values: Any = (), /) -> Rows: ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Any: ...

    def changes(self) -> int:
        """How many rows the last statement has changed."""
        ...
