"""Session rows: made once, found by key or id."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Busy, Invalid, NotFound
from crossclaw.domain.keys import CHILD, SessionKey
from crossclaw.domain.sessions import UNBOUND, NewSession, Session
from crossclaw.domain.sight import EVERYTHING, Sight
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import (
    ASIDE,
    ASIDE_AFTER_MS,
    ArchiveSession,
    ArmTimer,
    DeleteSession,
    EnsureSession,
    PatchSession,
    ResetSession,
    Timer,
    UnarchiveSession,
    aside_key,
)
from crossclaw.ledger.sqlite.chores import arm_timer
from crossclaw.ledger.sqlite.damage import UNREADABLE, legible_row, meet, read_rows
from crossclaw.ledger.sqlite.media import forget_holder
from crossclaw.ledger.sqlite.outbox import withdraw_deliveries
from crossclaw.ledger.sqlite.rows import (
    NO_BOUND,
    SESSION,
    bound_of,
    damaged_session,
    session_of,
    to_json,
)
from crossclaw.ledger.sqlite.sights import LINE, conditions
from crossclaw.ledger.sqlite.writer import Transaction

SAME_LABEL_MAX = 9  # sessions with one label that are looked at: an error names eight of them

_BY_KEY = f"SELECT {SESSION} FROM sessions WHERE key = ?"


def ensure_session(transaction: Transaction, op: EnsureSession) -> Session:
    db, new, address = transaction.db, op.new, op.new.address
    found = find_session(db, new.key)
    if found is not None and address is None:
        return found
    if found is None:
        _make(db, new, op.at)
    if address is not None:
        db.execute(
            "UPDATE sessions SET last_channel = ?, last_to = ?, last_account_id = ?, "
            "last_thread_id = ?, display_name = coalesce(?, display_name) WHERE key = ?",
            (
                address.channel,
                address.to,
                address.account_id,
                address.thread_id,
                new.display_name,
                new.key.text,
            ),
        )
    return session_of(transaction.get(_BY_KEY, (new.key.text,)))


def _make(db: Database, new: NewSession, at: int) -> None:
    key = new.key
    db.execute(
        "INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at, updated_at, "
        "channel, display_name, label, spawned_by, authority) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            key.agent_id,
            key.text,
            new.session_id,
            key.kind,
            key.chat_type,
            at,
            at,
            new.channel or key.channel,
            new.display_name,
            new.label,
            new.spawned_by,
            NO_BOUND if new.authority == UNBOUND else to_json(new.authority),
        ),
    )
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at) VALUES (?,?,?,?)",
        (new.session_id, key.agent_id, key.text, at),
    )


def find_session(db: Database, key: SessionKey) -> Session | None:
    row = db.execute(_BY_KEY, (key.text,)).fetchone()
    return row and session_of(row)


def find_damaged_session(db: Database, key: SessionKey) -> Session | None:
    row = legible_row(db, _BY_KEY, (key.text,))
    return None if row is None else damaged_session(row)


def find_session_by_id(db: Database, session_id: str, *, former: bool = False) -> Session | None:
    by_id = (
        "key = (SELECT key FROM transcripts WHERE session_id = ?)" if former else "session_id = ?"
    )
    row = db.execute(f"SELECT {SESSION} FROM sessions WHERE {by_id}", (session_id,)).fetchone()
    return row and msgspec.structs.replace(session_of(row), session_id=session_id)


def list_line(db: Database, key: SessionKey) -> frozenset[str]:
    return frozenset(row[0] for row in db.execute(LINE, (key.text,)))


class SessionFilter(NamedTuple):
    """Which sessions are listed. Each part is a fixed text; values are bound."""

    agent_id: str | None = None
    updated_after: int | None = None
    kinds: Sequence[str] | None = None
    label: str | None = None
    spawned_by: str | None = None
    search: str | None = None
    sight: Sight = EVERYTHING

    def clauses(self) -> tuple[str, list[str | int]]:
        parts: list[tuple[str, str | int | None]] = [
            ("agent_id = ?", self.agent_id),
            ("updated_at > ?", self.updated_after),
            ("label = ?", self.label),
            ("spawned_by = ?", self.spawned_by),
            (
                _OF_KIND if CHILD not in (self.kinds or ()) else _OF_KIND_OR_CHILD,
                to_json(self.kinds) if self.kinds else None,
            ),
            *conditions(self.sight),
            (_FOUND_IN, self.search and f"%{_escaped(self.search.lower())}%"),
        ]
        used = [(text, value) for text, value in parts if value is not None]
        return "".join(f" AND {text}" for text, _ in used), [value for _, value in used]


_OF_KIND = "kind IN (SELECT value FROM json_each(?))"
_OF_KIND_OR_CHILD = f"(spawned_by IS NOT NULL OR {_OF_KIND})"
_FOUND_IN = (
    "lower(key || ' ' || session_id || ' ' || coalesce(label, '') || ' ' || "
    "coalesce(display_name, '')) LIKE ? ESCAPE '!'"
)


def _escaped(words: str) -> str:
    return words.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def find_sessions_by_label(
    db: Database, label: str, *, agent_id: str | None = None, sight: Sight
) -> list[Session]:
    only = SessionFilter(agent_id, label=label, sight=sight)
    return newest_sessions(db, SAME_LABEL_MAX, only, shown=False)


def newest_sessions(
    db: Database, limit: int, only: SessionFilter, offset: int = 0, *, shown: bool = True
) -> list[Session]:
    """The newest sessions that match. `shown`: they are for display, so an unreadable one is shown
    as such."""
    clauses, values = only.clauses()
    return read_rows(
        db,
        "sessions",
        f"SELECT {SESSION} FROM sessions WHERE archived_at IS NULL{clauses} "
        "ORDER BY updated_at DESC LIMIT ? OFFSET ?",
        (*values, limit, offset),
        session_of,
        damaged_session if shown else None,
    )


def count_sessions(db: Database, *, agent_id: str | None = None, sight: Sight) -> int:
    clauses, values = SessionFilter(agent_id, sight=sight).clauses()
    row = db.execute(
        f"SELECT count(*) FROM sessions WHERE archived_at IS NULL{clauses}", tuple(values)
    ).fetchone()
    return int(row[0]) if row else 0


def count_sessions_of_agents(db: Database) -> dict[str, int]:
    sql = "SELECT agent_id, count(*) FROM sessions WHERE archived_at IS NULL GROUP BY agent_id"
    return {str(agent_id): int(count) for agent_id, count in db.execute(sql)}


CHANGEABLE = frozenset(
    {
        "label",
        "display_name",
        "model",
        "thinking",
        "verbose",
        "send_policy",
        "queue_mode",
        "queue_debounce_ms",
        "queue_cap",
        "queue_drop",
        "group_activation",
        "overrides",
    }
)
"""The columns that are settings: a client changes them, and an import brings them."""


def patch_session(transaction: Transaction, op: PatchSession) -> Session:
    if unknown := op.changes.keys() - CHANGEABLE:
        raise Invalid(f"a session has no setting {', '.join(sorted(unknown))}")
    names = sorted(op.changes)
    values = [to_json(v) if isinstance(v, dict) else v for v in (op.changes[n] for n in names)]
    assignments = "".join(f"{name} = ?, " for name in names)
    row = transaction.get(
        f"UPDATE sessions SET {assignments} updated_at = ? WHERE key = ? RETURNING {SESSION}",
        (*values, op.at, op.key.text),
    )
    return session_of(row)


def reset_session(transaction: Transaction, op: ResetSession) -> Session:
    db = transaction.db
    try:
        before = find_session(db, op.key)
    except UNREADABLE:
        if op.if_untouched_since is not None:
            raise  # nobody has asked for it
        return _reset_damaged(transaction, op)
    if before is None:
        raise NotFound(f"unknown session: {op.key}")
    if op.if_untouched_since is not None and (
        before.updated_at != op.if_untouched_since or _has_open_runs(db, op.key)
    ):
        return before
    _refuse_answering(db, op.key)
    db.execute(
        "UPDATE transcripts SET closed_at = ? WHERE session_id = ?", (op.at, before.session_id)
    )
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at) VALUES (?,?,?,?)",
        (op.session_id, before.key.agent_id, op.key.text, op.at),
    )
    row = transaction.get(
        "UPDATE sessions SET session_id = ?, updated_at = ?, input_tokens = 0, output_tokens = 0, "
        "total_tokens = 0, cost_usd = 0, compactions = 0, system_sent = 0, aborted_last_run = 0, "
        "last_run_id = NULL, last_status = NULL, last_error = NULL "
        f"WHERE key = ? RETURNING {SESSION}",
        (op.session_id, op.at, op.key.text),
    )
    return session_of(row)


def _refuse_answering(db: Database, key: SessionKey) -> None:
    if db.execute(
        "SELECT 1 FROM runs WHERE key = ? AND owner IS NOT NULL LIMIT 1", (key.text,)
    ).fetchone():
        raise Busy(f"session {key} is being answered; try again in a moment")


def _reset_damaged(transaction: Transaction, op: ResetSession) -> Session:
    """Replaces a row that cannot be read, without the settings that it had; its transcripts
    stay."""
    db, key = transaction.db, op.key
    meet(db, "sessions")
    _refuse_answering(db, key)
    above = legible_row(db, "SELECT spawned_by FROM sessions WHERE key = ?", (key.text,))
    spawned_by = above[0] if above and isinstance(above[0], str) else None
    bound = _bound_of_damaged(db, key)
    db.execute(
        "UPDATE transcripts SET closed_at = ? WHERE key = ? AND closed_at IS NULL",
        (op.at, key.text),
    )
    db.execute("DELETE FROM sessions WHERE key = ?", (key.text,))
    new = NewSession(key=key, session_id=op.session_id, spawned_by=spawned_by, authority=bound)
    _make(db, new, op.at)
    return session_of(transaction.get(_BY_KEY, (key.text,)))


def _bound_of_damaged(db: Database, key: SessionKey) -> Authority:
    """The authority bound of a damaged session, which survives its row. If the bound itself is
    unreadable, the session may use no tool; a main session never had a bound."""
    try:
        row = db.execute("SELECT authority FROM sessions WHERE key = ?", (key.text,)).fetchone()
        return bound_of(row[0] if row else "")
    except UNREADABLE:
        return UNBOUND if key.kind == "main" else Authority(tools=frozenset())


def delete_session(transaction: Transaction, op: DeleteSession) -> list[str]:
    db, key, since = transaction.db, op.key.text, op.if_archived_at
    still = "SELECT 1 FROM sessions WHERE key = ? AND archived_at = ?"
    if since is not None and not db.execute(still, (key, since)).fetchone():
        return []
    if _has_open_runs(db, op.key):
        raise Busy(f"session {key} is still active; try again in a moment")
    ids = [row[0] for row in db.execute("SELECT session_id FROM transcripts WHERE key = ?", (key,))]
    for session_id in ids:
        db.execute(
            "DELETE FROM entries_words WHERE rowid IN (SELECT id FROM entries WHERE session_id = ?)",
            (session_id,),
        )
        db.execute("DELETE FROM entries WHERE session_id = ?", (session_id,))
        forget_holder(db, session_id)
        _have_set_aside(transaction, op, session_id)
    withdraw_deliveries(transaction, op.key, op.at)
    db.execute("DELETE FROM transcripts WHERE key = ?", (key,))
    db.execute("DELETE FROM approvals WHERE key = ?", (key,))  # what was shown is of the session
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))
    return ids


def _have_set_aside(transaction: Transaction, op: DeleteSession, session_id: str) -> None:
    timer = Timer(
        timer_key=aside_key(session_id),
        agent_id=op.key.agent_id,
        kind=ASIDE,
        due_at=op.at + ASIDE_AFTER_MS,
        payload={"sessionId": session_id, "key": op.key.text},
    )
    arm_timer(transaction, ArmTimer(timer=timer))


def archive_session(transaction: Transaction, op: ArchiveSession) -> Session | None:
    db, key = transaction.db, op.key.text
    found = find_session(db, op.key)
    if found is None or found.archived_at is not None:
        return None
    if _has_open_runs(db, op.key):
        raise Busy(f"session {key} is still active; try again in a moment")
    db.execute(
        "UPDATE transcripts SET closed_at = ? WHERE session_id = ?", (op.at, found.session_id)
    )
    row = transaction.get(
        f"UPDATE sessions SET archived_at = ? WHERE key = ? RETURNING {SESSION}", (op.at, key)
    )
    return session_of(row)


def unarchive_session(transaction: Transaction, op: UnarchiveSession) -> Session | None:
    db, key = transaction.db, op.key.text
    found = find_session(db, op.key)
    if found is None or found.archived_at is None:
        return None
    db.execute("UPDATE transcripts SET closed_at = NULL WHERE session_id = ?", (found.session_id,))
    # Touched now: whoever brings it back wants to go on, and not to begin anew because it is old.
    row = transaction.get(
        f"UPDATE sessions SET archived_at = NULL, updated_at = ? WHERE key = ? RETURNING {SESSION}",
        (op.at, key),
    )
    return session_of(row)


def _has_open_runs(db: Database, key: SessionKey) -> bool:
    row = db.execute(
        "SELECT 1 FROM runs WHERE key = ? AND ended_at IS NULL LIMIT 1", (key.text,)
    ).fetchone()
    return row is not None


def list_quiet(db: Database, *, before: int, limit: int) -> list[Session]:
    return read_rows(
        db,
        "sessions",
        f"SELECT {SESSION} FROM sessions WHERE archived_at IS NULL AND updated_at < ?1 "
        "ORDER BY updated_at LIMIT ?2",
        (before, limit),
        session_of,
    )


def list_archived(
    db: Database, *, before: int, agent_id: str | None = None, limit: int
) -> list[Session]:
    return read_rows(
        db,
        "sessions",
        f"SELECT {SESSION} FROM sessions WHERE archived_at < ?1 AND (?2 IS NULL OR agent_id = ?2) "
        "ORDER BY archived_at LIMIT ?3",
        (before, agent_id, limit),
        session_of,
    )
