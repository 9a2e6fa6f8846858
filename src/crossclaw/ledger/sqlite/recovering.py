"""Recovery after a crash: puts the runs of a dead process back into their lanes, and looks for the
one that killed it."""

from typing import Any

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.messages import AssistantMessage, ToolResultMessage, decode_message
from crossclaw.domain.runs import CALLS_AT_ONCE, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.suspects import InterruptedRun, Suspicion, suspects_after
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import NoteUptime, Recover, Recovered, SetAsideDamaged
from crossclaw.ledger.sqlite.approvals import count_waiting_calls, withdraw_approvals
from crossclaw.ledger.sqlite.damage import UNREADABLE, legible_row, meet
from crossclaw.ledger.sqlite.entries import put_entry, session_of_key
from crossclaw.ledger.sqlite.rows import (
    DAMAGED_RUN,
    RUN,
    UNREADABLE_NOTE,
    damaged_run,
    run_of,
    to_json,
)
from crossclaw.ledger.sqlite.runs import find_inbox, find_run, lanes_with_work
from crossclaw.ledger.sqlite.writer import Transaction

_BY_NUMBER = f"SELECT {RUN} FROM runs WHERE id = ?"


def recover(transaction: Transaction, op: Recover) -> Recovered:
    db = transaction.db
    _end_unreadable(db, op.at)
    left = "owner IS NOT NULL AND owner != ?"
    rows = db.execute(f"SELECT {RUN} FROM runs WHERE {left} ORDER BY id", (op.owner,))
    held = [run_of(row) for row in rows]
    idle = idle_runs(db, held)
    for run in held:
        db.execute("DELETE FROM waits WHERE run_id = ?", (run.run_id,))
        db.execute(
            "UPDATE runs SET status = 'queued', owner = NULL, attempt = ? WHERE run_id = ?",
            (max(run.attempt - (run.run_id in idle), 0), run.run_id),
        )
    died = [InterruptedRun(run.run_id, run.attempt) for run in held if run.run_id not in idle]
    before = find_suspicion(db)
    suspicion = suspects_after(before, died)
    given_up = keep_suspicion(db, before, suspicion)
    keys = {run.run_id: run.key for run in held}
    groups = suspicion.groups if suspicion else ()
    return Recovered(
        keys=lanes_with_work(db),
        given_up=given_up,
        groups=[[keys[run_id] for run_id in group] for group in groups],
        window_ms=suspicion.window_ms if suspicion else 0,
    )


def note_uptime(transaction: Transaction, op: NoteUptime) -> None:
    db = transaction.db
    known = find_suspicion(db)
    if known is not None and known.uptime_ms < op.uptime_ms:
        noted = msgspec.structs.replace(known, uptime_ms=op.uptime_ms)
        db.execute("UPDATE suspicion SET body = ? WHERE id = 1", (to_json(noted),))


def idle_runs(db: Database, held: list[Run]) -> set[str]:
    """The runs that had no work going on when their process died, so did not cause it."""
    return {run.run_id for run in held if run.key.is_guest or _only_waited(db, run)}


def keep_suspicion(db: Database, before: Suspicion | None, now: Suspicion | None) -> list[Run]:
    """Stores what is suspected, for the next crash. Returns the runs that are given up and still
    open."""
    given_up = _still_open(db, (*_given_up(before), *_given_up(now)))
    _keep(db, now, given_up)
    return given_up


def _end_unreadable(db: Database, at: int) -> None:
    """Ends open runs whose row or message is damaged, which would block their session for ever. The
    message stays where it is, for whoever inspects the store."""
    for (number,) in db.execute("SELECT id FROM runs WHERE ended_at IS NULL").fetchall():
        try:
            row = db.execute(_BY_NUMBER, (number,)).fetchone()
            run = row and run_of(row)
            if run:
                find_inbox(db, run.run_id)
        except (*UNREADABLE, Invalid):
            _end_damaged(db, number, at)


def set_aside_damaged(transaction: Transaction, op: SetAsideDamaged) -> list[Run]:
    db, found = transaction.db, list[Run]()
    sql = "SELECT id FROM runs WHERE key = ? AND ended_at IS NULL ORDER BY id"
    for (number,) in db.execute(sql, (op.key.text,)).fetchall():
        try:
            run = run_of(transaction.get(_BY_NUMBER, (number,)))
        except UNREADABLE:
            _end_damaged(db, number, op.at)
            found += _note_damaged(transaction, number, op)
            continue
        try:
            find_inbox(db, run.run_id)
        except (*UNREADABLE, Invalid):
            found.append(run)
    return found


def _end_damaged(db: Database, number: Any, at: int) -> None:
    meet(db, "runs")
    db.execute(
        "UPDATE runs SET status = 'error', error = ?, ended_at = ?, owner = NULL WHERE id = ?",
        (DAMAGED_RUN, at, number),
    )
    of_it = "(SELECT run_id FROM runs WHERE id = ?)"
    db.execute(f"DELETE FROM reservations WHERE run_id = {of_it}", (number,))
    for (run_id,) in db.execute("SELECT run_id FROM runs WHERE id = ?", (number,)).fetchall():
        withdraw_approvals(db, str(run_id), at)
    db.execute(f"DELETE FROM waits WHERE run_id = {of_it}", (number,))
    db.execute(f"DELETE FROM waits WHERE target_run_id = {of_it}", (number,))


def _note_damaged(transaction: Transaction, number: Any, op: SetAsideDamaged) -> list[Run]:
    """The damaged run, as far as it can be read; its end is put into the transcript for people."""
    row = legible_row(transaction.db, _BY_NUMBER, (number,))
    if row is None:
        return []
    run = damaged_run(row)
    agent_id, session_id = session_of_key(transaction, op.key)
    note: dict[str, object] = {"kind": UNREADABLE_NOTE, "was": "run", "why": DAMAGED_RUN}
    end = NewEntry(entry_id=entry_id_of("end", run.run_id), note=note, type="note")
    put_entry(transaction, agent_id, session_id, run.run_id, end, op.at)
    return [run]


def _only_waited(db: Database, run: Run) -> bool:
    """Whether the run was only waiting, for other runs or for a person's yes: then it has killed
    nobody."""
    if run.status != "waiting":
        return False
    waits = db.execute("SELECT count(*) FROM waits WHERE run_id = ?", (run.run_id,)).get
    waits += count_waiting_calls(db, run.run_id)
    return bool(waits >= min(_open_calls(db, run), CALLS_AT_ONCE))


def _open_calls(db: Database, run: Run) -> int:
    """The number of tool calls of its last message that have no result yet."""
    rows = db.execute(
        "SELECT body FROM entries WHERE session_id = ? AND run_id = ? AND type = 'message' "
        "ORDER BY seq DESC",
        (run.session_id, run.run_id),
    )
    answered = set[str]()
    for (body,) in rows:
        try:
            message = decode_message(body)
        except msgspec.MsgspecError:  # a damaged row: nobody knows what was asked for
            return CALLS_AT_ONCE
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_use_id)
        elif isinstance(message, AssistantMessage):
            return sum(call.id not in answered for call in message.tool_calls)
    return 0


def find_suspicion(db: Database) -> Suspicion | None:
    row = db.execute("SELECT body FROM suspicion").fetchone()
    try:
        return row and msgspec.json.decode(row[0], type=Suspicion)
    except msgspec.MsgspecError:  # damaged: the search begins anew
        return None


def _given_up(suspicion: Suspicion | None) -> tuple[str, ...]:
    return suspicion.given_up if suspicion else ()


def _still_open(db: Database, run_ids: tuple[str, ...]) -> list[Run]:
    """The runs that were given up and have not ended yet: the process may have died in between."""
    found = [find_run(db, run_id) for run_id in dict.fromkeys(run_ids)]
    return [run for run in found if run is not None and not run.ended]


def _keep(db: Database, suspicion: Suspicion | None, given_up: list[Run]) -> None:
    db.execute("DELETE FROM suspicion")
    if suspicion is None and not given_up:
        return
    kept = msgspec.structs.replace(
        suspicion or Suspicion(), given_up=tuple(run.run_id for run in given_up)
    )
    db.execute("INSERT INTO suspicion (id, body) VALUES (1, ?)", (to_json(kept),))
