"""Opening a store: one process, a safe library, migrations that survive a kill."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import apsw
import pytest

from crossclaw.domain.errors import StoreError, StoreLocked, StoreTooNew
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.operations import EnsureSession
from crossclaw.ledger.sqlite import migrate as migrations
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.ledger.sqlite.migrate import MIGRATIONS, VERSION, migrate
from crossclaw.ledger.sqlite.store import open_writer, refuse_unsafe_library


def tables(db: apsw.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def store_at_version(path: Path, version: int) -> apsw.Connection:
    db = apsw.Connection(str(path))
    migrate(db, upto=version)
    return db


def put_an_entry(db: apsw.Connection) -> None:
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at, last_seq) VALUES ('s','main','k',1,1)"
    )
    db.execute(
        "INSERT INTO entries (agent_id, session_id, seq, entry_id, at, type, role, body) "
        "VALUES ('main','s',1,'e',1,'message','user',?)",
        (b'{"role":"user","content":"an old pangolin"}',),
    )


def test_a_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    code = (
        "import sys, anyio; from pathlib import Path\n"
        "from crossclaw.ledger.sqlite.ledger import SqliteLedger\n"
        "async def main(): SqliteLedger(Path(sys.argv[1]), inline=True)\n"
        "anyio.run(main)"
    )

    second = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "l.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    anyio.run(ledger.close)

    assert second.returncode != 0
    assert f"another gateway (process {os.getpid()})" in second.stderr
    assert "OPENCLAW_STATE_DIR" in second.stderr


def test_a_folder_is_free_again_after_its_process_was_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal, anyio; from pathlib import Path\n"
        "from crossclaw.ledger.sqlite.ledger import SqliteLedger\n"
        "async def main():\n"
        "    SqliteLedger(Path(sys.argv[1]), inline=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "anyio.run(main)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "l.sqlite")], check=False)
    assert killed.returncode == -signal.SIGKILL

    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    with pytest.raises(StoreLocked):
        SqliteLedger(tmp_path / "l.sqlite", inline=True)
    anyio.run(ledger.close)
    anyio.run(SqliteLedger(tmp_path / "l.sqlite", inline=True).close)


async def test_the_store_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "l.sqlite"
    await SqliteLedger(path, inline=True).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.17"])
def test_a_library_that_can_lose_data_is_refused(version: str) -> None:
    assert "WAL-reset bug" in (asked_about(version) or "")


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0"])
def test_a_current_library_is_taken(version: str) -> None:
    assert asked_about(version) is None


def asked_about(version: str) -> str | None:
    try:
        refuse_unsafe_library(version)
    except StoreError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("inline", [False, True])
def test_after_a_clean_close_the_file_alone_is_the_whole_store(
    tmp_path: Path, inline: bool
) -> None:
    path = tmp_path / "l.sqlite"

    async def write_and_close() -> None:
        ledger = SqliteLedger(path, inline=inline)
        await ledger.do(
            EnsureSession(new=NewSession(key=SessionKey.named("main", "ana"), session_id="s"), at=1)
        )
        assert len(await ledger.monitoring.sessions(["agent:main:ana"])) == 1, "a reader beside it"
        await ledger.close()

    anyio.run(write_and_close)

    assert not path.with_name("l.sqlite-wal").exists()
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(path.read_bytes())
    assert apsw.Connection(str(copy)).execute("SELECT key FROM sessions").fetchall() == [
        ("agent:main:ana",)
    ]


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    db = open_writer(tmp_path / "l.sqlite")

    assert db.pragma("synchronous") == 2  # FULL
    assert db.pragma("journal_mode") == "wal"
    db.close()


def test_a_store_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with apsw.Connection(str(path)) as db:
        db.execute("CREATE TABLE from_the_future (x)")
        db.pragma("user_version", VERSION + 1)
    db.close()
    before = path.read_bytes()

    with pytest.raises(StoreTooNew, match="newer release"):
        open_writer(path)
    assert path.read_bytes()[100:] == before[100:]
    with apsw.Connection(str(path)) as db:
        assert tables(db) == {"from_the_future"}
    db.close()


def test_a_damaged_store_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    path.write_bytes(b"this is no database at all, but it is long enough to be read as one" * 50)

    with pytest.raises(StoreError, match="restore a backup"):
        open_writer(path)


def test_migrations_are_numbered_without_gaps() -> None:
    assert [each.number for each in MIGRATIONS] == list(range(1, VERSION + 1))
    folder = Path(migrations.__file__).parent / "migrations"
    assert sorted(file.name for file in folder.glob("*.sql")) == [
        f"{each.number:04}_{each.name}.sql" for each in MIGRATIONS
    ]


@pytest.mark.parametrize("version", range(VERSION))
def test_each_version_is_brought_to_the_newest(tmp_path: Path, version: int) -> None:
    fresh = open_writer(tmp_path / "fresh.sqlite")
    old = store_at_version(tmp_path / "old.sqlite", version)
    if version >= 1:
        put_an_entry(old)
    old.close()

    db = open_writer(tmp_path / "old.sqlite")

    assert db.pragma("user_version") == VERSION
    assert tables(db) == tables(fresh)
    if version == 1:
        found = list(db.execute("SELECT rowid FROM entries_words WHERE words MATCH 'pangolin'"))
        assert found == [(1,)]  # what was there before the index is found as well
    db.close()
    fresh.close()


@pytest.mark.spec("Y4")
def test_what_a_client_had_sent_before_the_upgrade_is_known_as_named(tmp_path: Path) -> None:
    old = store_at_version(tmp_path / "old.sqlite", 6)
    for key, run_id, state in (
        ("sent", None, "pending"),
        ("over", None, "delivered"),
        ("reply", "r1", "pending"),
    ):
        old.execute(
            "INSERT INTO outbox (agent_id, delivery_key, key, run_id, channel, chat, text, state, "
            "created_at, updated_at, authority) VALUES ('main',?,'k',?,'c','g1','hi',?,1,1,'{}')",
            (key, run_id, state),
        )
    old.close()

    db = open_writer(tmp_path / "old.sqlite")
    named = dict(db.execute("SELECT delivery_key, named FROM outbox"))
    db.close()

    assert named == {"sent": 1, "over": 0, "reply": 0}


KILLED_WHILE_MIGRATING = """
import os, signal, sys, apsw
from crossclaw.ledger.sqlite.migrate import migrate
db = apsw.Connection(sys.argv[1])
left = int(sys.argv[2])
def trace(cursor, statement, bindings):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
db.exec_trace = trace
migrate(db)
"""


@pytest.mark.parametrize("statements", [1, 2, 5, 12, 23, 34, 41, 44, 45, 46, 47, 48])
def test_a_kill_in_the_middle_of_a_migration_leaves_a_whole_version(
    tmp_path: Path, statements: int
) -> None:
    path = tmp_path / "l.sqlite"
    store_at_version(path, 0).close()
    subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_MIGRATING, str(path), str(statements)], check=False
    )

    with apsw.Connection(str(path)) as db:
        version = db.pragma("user_version")
        reference = store_at_version(tmp_path / "reference.sqlite", version)
        assert tables(db) == tables(reference)
        reference.close()
    db.close()
    recovered = open_writer(path)
    assert recovered.pragma("user_version") == VERSION
    assert recovered.pragma("integrity_check") == "ok"
    recovered.close()
