"""SQLite's own errors never leave the ledger: whoever uses it knows one kind, `StoreError`."""

import inspect
from pathlib import Path

import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.ledger.sqlite.store import open_reader
from tests.ledger.making import ANA, BEN, session
from tests.stores import look_into


async def test_what_a_rule_of_the_store_refuses_is_told_as_the_stores_and_hurts_no_other_step(
    ledger: SqliteLedger, tmp_path: Path
) -> None:
    with look_into(tmp_path / "ledger.sqlite") as other:
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
    # One tells the version, the other reads the databases of another program.
    assert knows == {"cli/checks.py", "ledger/openclaw.py"}
