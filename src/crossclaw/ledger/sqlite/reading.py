"""Reading entries: the newest of a transcript, and searches."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crossclaw.domain.keys import key_of
from crossclaw.domain.sessions import Entry
from crossclaw.domain.sight import Sight
from crossclaw.ledger.contract import Hit
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.damage import StoredRow, meet, read_rows
from crossclaw.ledger.sqlite.rows import (
    ENTRY,
    UNREADABLE_NOTE,
    damaged_entry,
    entry_of,
    to_json,
)
from crossclaw.ledger.sqlite.sights import conditions
from crossclaw.ledger.sqlite.words import match_expression

SEQ_MAX = 2**62


class EntryKinds(NamedTuple):
    """Which entries are read."""

    tool_results: bool = True
    notes: bool = True

    @property
    def clauses(self) -> str:
        without_results = "" if self.tool_results else " AND role IS DISTINCT FROM 'toolResult'"
        return without_results + ("" if self.notes else " AND type = 'message'")


def last_seq(db: Database, session_id: str) -> int:
    row = db.execute(
        "SELECT last_seq FROM transcripts WHERE session_id = ?", (session_id,)
    ).fetchone()
    return row[0] if row else 0


def list_entries(
    db: Database,
    session_id: str,
    *,
    limit: int,
    before: int | None = None,
    after: int = 0,
    tool_results: bool = True,
    notes: bool = True,
    forward: bool = False,
) -> list[Entry]:
    clauses, direction = EntryKinds(tool_results, notes).clauses, "ASC" if forward else "DESC"
    found = read_rows(
        db,
        "entries",
        f"SELECT {ENTRY} FROM entries WHERE session_id = ? AND seq < ? AND seq > ? {clauses} "
        f"ORDER BY seq {direction} LIMIT ?",
        (session_id, SEQ_MAX if before is None else before, after, limit),
        _counted(db),
        damaged_entry,
    )
    return found if forward else found[::-1]


def find_entry(db: Database, session_id: str, seq: int) -> Entry | None:
    found = list_entries(db, session_id, limit=1, after=seq - 1, before=seq + 1)
    return found[0] if found else None


def list_tails(
    db: Database, session_ids: Sequence[str], *, limit: int, tool_results: bool = True
) -> dict[str, list[Entry]]:
    """The newest entries of several sessions, in one statement: each session's newest ids come from
    the index alone."""
    without = EntryKinds(tool_results, notes=False).clauses
    columns = ", ".join(f"e.{name}" for name in ENTRY.split(", "))
    found = read_rows(
        db,
        "entries",
        f"SELECT {columns} FROM json_each(?) s JOIN entries e ON e.id IN ("
        f"SELECT id FROM entries WHERE session_id = s.value {without} ORDER BY seq DESC LIMIT ?) "
        "ORDER BY e.session_id, e.seq",
        (to_json(list(session_ids)), limit),
        _counted(db),
        damaged_entry,
    )
    tails: dict[str, list[Entry]] = {session_id: [] for session_id in session_ids}
    for entry in found:
        tails[entry.session_id].append(entry)
    return tails


def search(
    db: Database,
    words: str,
    *,
    limit: int,
    agent_id: str | None = None,
    sight: Sight,
) -> list[Hit]:
    """The newest entries that contain all the words."""
    expression = match_expression(words)
    if not expression:
        return []
    columns = ", ".join(f"e.{name}" for name in ENTRY.split(", "))
    seen = conditions(sight)
    clauses = "".join(f" AND {text}" for text, _ in seen)
    visible = f"AND EXISTS (SELECT 1 FROM sessions WHERE key = t.key{clauses})" if seen else ""
    read = _counted(db)
    return read_rows(
        db,
        "entries",
        f"SELECT {columns}, t.key, t.agent_id FROM entries_words w "
        "JOIN entries e ON e.id = w.rowid JOIN transcripts t ON t.session_id = e.session_id "
        f"WHERE w.words MATCH ?1 AND (?2 IS NULL OR e.agent_id = ?2) {visible} "
        f"ORDER BY w.rowid DESC LIMIT ?",
        (expression, agent_id, *(value for _, value in seen), limit),
        lambda row: Hit(key_of(row[-2], row[-1]), read(row)),
        lambda row: Hit(key_of(row[-2], row[-1]), damaged_entry(row)),
    )


def _counted(db: Database) -> Callable[[StoredRow], Entry]:
    def read(row: StoredRow) -> Entry:
        entry = entry_of(row)
        if entry.type == "note" and entry.note and entry.note.get("kind") == UNREADABLE_NOTE:
            meet(db, "entries")
        return entry

    return read
