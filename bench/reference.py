"""Reference work: what the disk, SQLite, msgspec and the interpreter cost by themselves."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from bench.stores import LONG_SESSION, Stores, answer
from bench.work import Reference, mean_ms
from crossclaw.ledger.sqlite.store import open_reader

ROOT = Path(__file__).parent.parent
COMMITS = 200
QUERIES = 100
ENCODINGS = 20_000
STARTS = 5

Query = tuple[str, tuple[object, ...]]


def _commits(stores: Stores) -> float:
    """One row, one fsync: the least that something durable can cost alone."""
    db = apsw.Connection(str(stores.scratch() / "reference.sqlite"))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
    try:
        return mean_ms(
            lambda: db.execute("INSERT INTO t (body) VALUES (?)", (bytes(300),)), COMMITS
        )
    finally:
        db.close()


def _encodings(_stores: Stores) -> float:
    message, encode = answer("twenty words or so " * 6), msgspec.json.Encoder().encode
    began = time.perf_counter()
    for _ in range(ENCODINGS):
        encode(message)
    return (time.perf_counter() - began) * 1_000 / ENCODINGS


def bare_start() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _bare_memory(_stores: Stores) -> float:
    code = "from bench.memory import resident_mb; print(resident_mb())"
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return float(told)


def opening(sessions: int) -> Reference:
    return Reference("sqlite open", lambda s: _open_ms(s.with_sessions(sessions).ledger_path))


def _open_ms(path: Path) -> float:
    def open_once() -> None:
        db = open_reader(path)
        db.execute("SELECT 1 FROM sessions LIMIT 1").fetchone()
        db.close()

    return mean_ms(open_once, 20)


def newest_sessions(count: Callable[[Stores], int], limit: int) -> Reference:
    sql = "SELECT * FROM sessions WHERE archived_at IS NULL ORDER BY updated_at DESC LIMIT ?"
    return Reference(
        "same SQL",
        lambda s: _query_ms(s.with_sessions(count(s)).ledger_path, (sql, (limit,))),
    )


def newest_entries(limit: int) -> Reference:
    sql = "SELECT * FROM entries WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
    return Reference(
        "same SQL", lambda s: _query_ms(s.with_entries().ledger_path, (sql, (LONG_SESSION, limit)))
    )


def matches(words: str, limit: int) -> Reference:
    sql = "SELECT rowid FROM entries_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
    return Reference(
        "same MATCH", lambda s: _query_ms(s.with_entries().ledger_path, (sql, (words, limit)))
    )


def _query_ms(path: Path, query: Query) -> float:
    db = open_reader(path)
    try:
        return mean_ms(lambda: db.execute(*query).fetchall(), QUERIES)
    finally:
        db.close()


COMMIT = Reference("fsync commit", _commits)
ENCODE = Reference("encode", _encodings)
START = Reference("bare python", lambda _: mean_ms(bare_start, STARTS))
MEMORY = Reference("bare python", _bare_memory)
