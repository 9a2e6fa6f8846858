"""A trace on SQLite: a handful of reads by index, however long the sessions are."""

from collections.abc import Iterator, Sequence
from typing import Any

from crossclaw.domain.sessions import Entry
from crossclaw.ledger.database import Database
from crossclaw.ledger.monitoring import RunRow, TraceRows, WaitRow
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.rows import ENTRY, damaged_entry, entry_of, to_json
from crossclaw.ledger.sqlite.run_rows import (
    DELIVERY_SEEN,
    SEEN,
    SPAWN_SEEN,
    seen_delivery,
    seen_run,
    seen_spawn,
)

FAR = 2**53  # no transcript is that long
SLACK_MS = 60_000  # a clock that was set back a little in between


def trace_rows(db: Database, root: str, limit: int) -> TraceRows:
    sql = (
        f"{SEEN} WHERE r.id IN (SELECT id FROM runs WHERE run_id = ?1 UNION ALL "
        "SELECT id FROM runs WHERE root = ?1) ORDER BY r.id LIMIT ?2"
    )
    runs = read_rows(db, "runs", sql, (root, limit), seen_run)
    ids = to_json([run.run_id for run in runs])
    entries: dict[str, list[Entry]] = {}
    count = 0
    for entry in _entries(db, runs, ids, limit):
        entries.setdefault(entry.run_id or "", []).append(entry)
        count += 1
    return TraceRows(
        runs,
        entries,
        deliveries=_deliveries(db, ids, limit),
        spawns=read_rows(
            db,
            "spawns",
            f"{SPAWN_SEEN} WHERE run_id IN (SELECT value FROM json_each(?)) LIMIT ?",
            (ids, limit),
            seen_spawn,
        ),
        waits=_waits(db, ids, limit),
        truncated=len(runs) >= limit or count >= limit,
    )


def entries_of_run(db: Database, run_id: str, limit: int) -> list[Entry]:
    runs = read_rows(db, "runs", f"{SEEN} WHERE r.run_id = ?", (run_id,), seen_run)
    return list(_entries(db, runs, to_json([run_id]), limit))


def _entries(db: Database, runs: Sequence[RunRow], ids: str, limit: int) -> Iterator[Entry]:
    """The entries of these runs. Entries have no index by run, so in each transcript those since
    the first of its runs are read."""
    rows: Any = db.execute(
        "SELECT session_id, min(created_at) FROM runs WHERE run_id IN (SELECT value FROM json_each(?)) "
        "GROUP BY session_id",
        (ids,),
    )
    begun = {str(session_id): int(at) for session_id, at in rows}
    last = (
        None
        if any(run.ended_at is None for run in runs)
        else max((run.ended_at or 0 for run in runs), default=0)
    )
    for session_id, at in begun.items():
        first = _first_seq(db, session_id, at - SLACK_MS)
        until = FAR if last is None else _first_seq(db, session_id, last + SLACK_MS + 1)
        sql = (
            f"SELECT {ENTRY} FROM entries WHERE session_id = ?1 AND seq >= ?2 AND seq < ?3 "
            "AND run_id IN (SELECT value FROM json_each(?4)) ORDER BY seq LIMIT ?5"
        )
        values = (session_id, first, until, ids, limit)
        yield from read_rows(db, "entries", sql, values, entry_of, damaged_entry)


def _first_seq(db: Database, session_id: str, at: int) -> int:
    """The first entry of a transcript that is not older, by bisection: entries are in the order of
    time."""
    row = db.execute("SELECT max(seq) FROM entries WHERE session_id = ?", (session_id,)).fetchone()
    low, high = 1, int(row[0] or 0) + 1 if row else 1
    while low < high:
        middle = (low + high) // 2
        found = db.execute(
            "SELECT seq, at FROM entries WHERE session_id = ? AND seq >= ? ORDER BY seq LIMIT 1",
            (session_id, middle),
        ).fetchone()
        if found is None or int(found[1]) >= at:
            high = middle
        else:
            low = middle + 1
    return low


def _deliveries(db: Database, ids: str, limit: int) -> list[Any]:
    """The deliveries of these runs, found by session; a child's report goes out for its parent."""
    sql = (
        f"{DELIVERY_SEEN} WHERE key IN (SELECT key FROM runs WHERE run_id IN (SELECT value FROM json_each(?1)) "
        "UNION SELECT parent_key FROM spawns WHERE run_id IN (SELECT value FROM json_each(?1))) "
        "AND run_id IN (SELECT value FROM json_each(?1)) ORDER BY id LIMIT ?2"
    )
    return read_rows(db, "outbox", sql, (ids, limit), seen_delivery)


def _waits(db: Database, ids: str, limit: int) -> list[WaitRow]:
    sql = (
        "SELECT run_id, key, target_run_id, target_key, begun_at FROM waits "
        "WHERE run_id IN (SELECT value FROM json_each(?)) LIMIT ?"
    )
    return read_rows(db, "waits", sql, (ids, limit), lambda row: WaitRow(*row))
