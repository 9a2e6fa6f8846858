"""SQLite's own errors never leave the ledger: whoever uses it knows one kind, `StoreError`."""

import inspect
from pathlib import Path
from typing import Any

import apsw
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.ledger.sqlite.store import open_reader
from crossclaw.ledger.sqlite.watching import SqliteWatching
from tests.ledger.making import ANA, BEN, session

READS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("find_session", (ANA,), {}),
    ("find_run", ("r",), {}),
    ("list_sessions", (), {"limit": 5, "sight": EVERYTHING}),
    ("list_sessions", (), {"limit": 5, "search": "x", "sight": EVERYTHING}),
    ("list_entries", ("s",), {"limit": 5}),
    ("search", ("words",), {"limit": 5, "sight": EVERYTHING}),
    ("count_sessions", (), {"sight": EVERYTHING}),
    ("count_sessions_of_agents", (), {}),
    ("list_jobs", (), {}),
    ("list_timers", (), {"due_before": 1, "limit": 5}),
    ("list_credentials", (), {}),
]


@pytest.mark.parametrize(("name", "args", "named"), READS, ids=[each[0] for each in READS])
async def test_a_read_that_fails_is_told_as_the_stores(
    tmp_path: Path, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, inline=True)
    try:
        await getattr(ledger, name)(*args, **named)
        with apsw.Connection(str(path)) as other:
            tables = [
                row[0]
                for row in other.execute(
                    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_%' ESCAPE '\\'"
                )
            ]
            for table in tables:
                other.execute(f"ALTER TABLE {table} RENAME TO gone_{table}")
        with pytest.raises(StoreError, match="no such table"):
            await getattr(ledger, name)(*args, **named)
    finally:
        await ledger.close()


@pytest.mark.parametrize("kind", [SqliteLedger, SqliteWatching])
def test_every_method_that_reads_is_covered_also_the_next_one(kind: type) -> None:
    methods = [each for each in vars(kind).values() if inspect.iscoroutinefunction(each)]
    assert len(methods) > 10
    assert all(hasattr(method, "__wrapped__") for method in methods)


async def test_what_a_rule_of_the_store_refuses_is_told_as_the_stores_and_hurts_no_other_step(
    ledger: SqliteLedger, tmp_path: Path
) -> None:
    with apsw.Connection(str(tmp_path / "ledger.sqlite")) as other:
        other.execute(
            "CREATE TRIGGER never BEFORE INSERT ON sessions WHEN new.key LIKE '%ana' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
    with pytest.raises(StoreError, match="does not take this: not this one"):
        await ledger.commit(session(ANA))
    await ledger.commit(session(BEN))
    assert await ledger.find_session(BEN) is not None


def test_a_store_that_cannot_be_read_is_told_as_the_stores(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        open_reader(tmp_path / "missing" / "ledger.sqlite")


def test_nobody_outside_of_the_ledger_knows_sqlite() -> None:
    source = Path(inspect.getfile(SqliteLedger)).parents[2]
    knows = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if "import apsw" in path.read_text("utf-8") and "ledger/sqlite" not in path.as_posix()
    }
    assert knows == {"cli/checks.py"}  # it tells the version
