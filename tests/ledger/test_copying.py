"""A copy of a store is one moment of it, whatever is written meanwhile."""

from pathlib import Path

import apsw
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.sqlite import copying
from crossclaw.ledger.sqlite.copying import check_store, copy_store
from crossclaw.ledger.sqlite.store import open_writer

ROWS = 500


def put(db: apsw.Connection, first: int, count: int) -> None:
    with db:
        db.executemany(
            "INSERT INTO audit (at, agent_id, principal, action, target, allowed, reason) VALUES (?, 'a', 'p', 'm', 't', 1, ?)",
            [(number, "x" * 2_000) for number in range(first, first + count)],
        )


def test_what_is_written_while_it_is_copied_is_not_half_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGES_A_STEP", 5)
    db = open_writer(tmp_path / "store")
    put(db, 0, ROWS)
    steps = []

    def write_on(done: int, of: int) -> None:
        steps.append(done)
        put(db, ROWS + len(steps), 1)

    copy_store(tmp_path / "store", tmp_path / "copy", write_on)

    assert len(steps) > 10
    copy = apsw.Connection(str(tmp_path / "copy"), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.execute("SELECT count(*) FROM audit").get == ROWS
    assert db.execute("SELECT count(*) FROM audit").get == ROWS + len(steps)
    assert check_store(tmp_path / "copy")["sessions"] == 0
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_what_is_no_store_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"no store at all" * 1000)

    with pytest.raises(StoreError, match="cannot be copied"):
        copy_store(tmp_path / "store", tmp_path / "copy")
    with pytest.raises(StoreError, match="cannot be read"):
        check_store(tmp_path / "store")
