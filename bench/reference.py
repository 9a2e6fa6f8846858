"""Reference work: what the disk, SQLite, msgspec and the interpreter cost by themselves."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from bench.stores import LONG_SESSION, Stores, answer
from bench.work import Base, Reference, base_of
from crossclaw.ledger.sqlite.store import open_reader
from crossclaw.ledger.sqlite.words import match_expression

ROOT = Path(__file__).parent.parent
COMMITS = 200
GROUP = 64
QUERIES = 100
ENCODINGS = 20_000
STARTS = 5

Query = tuple[str, tuple[object, ...]]


def _open_scratch(stores: Stores) -> apsw.Connection:
    db = apsw.Connection(str(stores.scratch() / "reference.sqlite"))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
    return db


def _insert(db: apsw.Connection) -> None:
    db.execute("INSERT INTO t (body) VALUES (?)", (bytes(300),))


def _commits(stores: Stores) -> Base:
    """One row, one fsync: the least that something durable can cost alone."""
    db = _open_scratch(stores)
    base = base_of(lambda: _insert(db), COMMITS)
    db.close()
    return base


def _grouped(stores: Stores) -> Base:
    """Rows that share an fsync, each in a savepoint: the least that a step can cost in a group."""
    db = _open_scratch(stores)

    def commit_group() -> None:
        with db:
            for _ in range(GROUP):
                with db:
                    _insert(db)

    base = base_of(commit_group, COMMITS, GROUP)
    db.close()
    return base


def _encodings(_stores: Stores) -> Base:
    message, encode = answer("twenty words or so " * 6), msgspec.json.Encoder().encode
    return base_of(lambda: encode(message), ENCODINGS)


def run_python(code: str) -> tuple[str, float]:
    """The output of a piece of Python, and the CPU seconds of its process."""
    before = children_cpu_s()
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return told, children_cpu_s() - before


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _bare_start(_stores: Stores) -> Base:
    wall = base_of(lambda: run_python("pass"), STARTS)
    return Base(wall.cost, run_python("pass")[1] * 1_000)


def _bare_memory(_stores: Stores) -> Base:
    told, _ = run_python("from bench.memory import resident_mb; print(resident_mb())")
    return Base(float(told))


def opening(sessions: int) -> Reference:
    return Reference("sqlite open", lambda s: _open(s.with_sessions(sessions).ledger_path))


def _open(path: Path) -> Base:
    def open_once() -> None:
        db = open_reader(path)
        db.execute("SELECT 1 FROM sessions LIMIT 1").fetchone()
        db.close()

    return base_of(open_once, 20)


def newest_sessions(count: Callable[[Stores], int], limit: int) -> Reference:
    sql = "SELECT * FROM sessions WHERE archived_at IS NULL ORDER BY updated_at DESC LIMIT ?"
    return Reference(
        "same SQL",
        lambda s: _query(s.with_sessions(count(s)).ledger_path, (sql, (limit,))),
    )


def sums_since(count: Callable[[Stores], int], since: int) -> Reference:
    sql = "SELECT agent_id, sum(turns), sum(cost_usd) FROM figures WHERE minutes = 60 AND at >= ? GROUP BY 1"
    return Reference(
        "a sum in SQL", lambda s: _query(s.with_turns(count(s)).ledger_path, (sql, (since,)))
    )


def newest_entries(limit: int) -> Reference:
    sql = "SELECT * FROM entries WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
    return Reference(
        "same SQL", lambda s: _query(s.with_entries().ledger_path, (sql, (LONG_SESSION, limit)))
    )


def matches(words: str, limit: int) -> Reference:
    sql = "SELECT rowid FROM entries_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
    return Reference(
        "same MATCH",
        lambda s: _query(s.with_entries().ledger_path, (sql, (match_expression(words), limit))),
    )


def _query(path: Path, query: Query) -> Base:
    db = open_reader(path)
    try:
        return base_of(lambda: db.execute(*query).fetchall(), QUERIES)
    finally:
        db.close()


COMMIT = Reference("fsync commit", _commits)
GROUPED = Reference("grouped row", _grouped)
ENCODE = Reference("encode", _encodings)
START = Reference("bare python", _bare_start)
MEMORY = Reference("bare python", _bare_memory)
