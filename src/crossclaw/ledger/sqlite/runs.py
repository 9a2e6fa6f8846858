"""Run rows: accepted once, claimed in lane order, ended once."""

import msgspec

from crossclaw.domain.budgets import Amount, Grant
from crossclaw.domain.errors import Busy, Fenced, Invalid, KeyReused, NotFound
from crossclaw.domain.ids import FOLLOWS, ID_REFUSED, entry_id_of
from crossclaw.domain.keys import SessionKey, key_of
from crossclaw.domain.messages import Message, UserMessage, decode_message, encode_message
from crossclaw.domain.runs import NewRun, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.states import WHY_CHARS_MAX
from crossclaw.ledger.database import Database
from crossclaw.ledger.hints import ENDED, LANES
from crossclaw.ledger.operations import (
    LANE_RUNS_MAX,
    AlreadyAccepted,
    Dedupe,
    EndOpenRun,
    EndRun,
    OpenEnd,
    ReleaseRun,
    Reserve,
    Spend,
    StartTool,
    Submit,
    Submitted,
)
from crossclaw.ledger.sqlite.accounts import set_aside, settle
from crossclaw.ledger.sqlite.approvals import withdraw_approvals
from crossclaw.ledger.sqlite.cascades import count_run
from crossclaw.ledger.sqlite.damage import UNREADABLE, legible_row, meet, read_rows
from crossclaw.ledger.sqlite.entries import CLAIMED, hold, lost_claim, put_entry, session_of_key
from crossclaw.ledger.sqlite.figures import count_end
from crossclaw.ledger.sqlite.media import keep_waiting
from crossclaw.ledger.sqlite.rows import (
    NO_BOUND,
    RUN,
    UNREADABLE_NOTE,
    bound_of,
    damaged_run,
    run_of,
    to_json,
    why_of,
)
from crossclaw.ledger.sqlite.writer import Transaction

_BY_ID = f"SELECT {RUN} FROM runs WHERE run_id = ?"
_OPEN = "ended_at IS NULL"
_BESIDE = ("announce", "compact", "command")
_LEFT_OF = (
    "SELECT EXISTS (SELECT 1 FROM waits WHERE run_id = ?1 OR target_run_id = ?1), "
    "EXISTS (SELECT 1 FROM approvals WHERE run_id = ?1 AND status = 'waiting'), "
    f"EXISTS (SELECT 1 FROM runs INDEXED BY runs_merged WHERE merged_into = ?1 AND {_OPEN})"
)
"""Whether there are waits, open approvals and merged runs of a run that ends: nearly always none, so all are asked for at
once."""
_ENDED = "UPDATE runs SET status = ?, reply = ?, error = ?, ended_at = ?, owner = NULL"


def submit(transaction: Transaction, op: Submit) -> Submitted:
    db, new = transaction.db, op.new
    if FOLLOWS in new.run_id and not new.cause.chain:
        raise Invalid(ID_REFUSED)
    if op.dedupe is not None and (known := _find_duplicate(transaction, op)) is not None:
        raise AlreadyAccepted(known)
    agent_id, session_id, authority = _accepting_session(transaction, new)
    waiting, queue = _room_in_lane(transaction, new), new.plan.queue
    not_before = op.at + queue.wait_ms() if waiting and queue else 0
    db.execute(
        "INSERT INTO runs (agent_id, run_id, key, session_id, kind, status, plan, authority, "
        "cause, hops, exchange_id, account_id, created_at, not_before, root) "
        "VALUES (?,?,?,?,?,'queued',?,?,?,?,?,?,?,?,?)",
        (
            agent_id,
            new.run_id,
            new.key.text,
            session_id,
            new.kind,
            to_json(new.plan),
            authority,
            to_json(new.cause),
            new.cause.hops,
            new.plan.exchange_id,
            new.cause.purse and new.cause.purse.account_id,
            op.at,
            not_before,
            new.cause.chain[0] if new.cause.chain else None,
        ),
    )
    if new.message is not None:
        kept = keep_waiting(transaction, agent_id, new.run_id, new.message, op.at)
        db.execute(
            "INSERT INTO inbox (agent_id, run_id, key, at, message, authority) "
            "VALUES (?,?,?,?,?,?)",
            (agent_id, new.run_id, new.key.text, op.at, encode_message(kept), authority),
        )
    count_run(transaction, new, op.at)
    db.execute("UPDATE sessions SET updated_at = ? WHERE key = ?", (op.at, new.key.text))
    if op.dedupe is not None:
        db.execute(
            "INSERT INTO dedupe (scope, key, agent_id, digest, run_id, at) VALUES (?,?,?,?,?,?)",
            (op.dedupe.scope, op.dedupe.key, agent_id, op.dedupe.digest, new.run_id, op.at),
        )
    transaction.hint(LANES, new.key.text)
    return Submitted(new.run_id)


def _accepting_session(transaction: Transaction, new: NewRun) -> tuple[str, str, str]:
    """The agent and id of the session, and the rights of the run: no more than the session's
    own."""
    row = transaction.db.execute(
        "SELECT agent_id, session_id, authority, archived_at FROM sessions WHERE key = ?",
        (new.key.text,),
    ).fetchone()
    if row is None or row[3] is not None:
        raise NotFound(f"unknown session: {new.key}")
    bound = row[2]
    authority = new.authority if bound == NO_BOUND else new.authority.meet(bound_of(bound))
    return row[0], row[1], to_json(authority)


def _room_in_lane(transaction: Transaction, new: NewRun) -> int:
    """How many runs are ahead in the lane; Busy if there are too many, KeyReused if the run's id is taken."""
    waiting: int
    waiting, is_taken = transaction.get(
        f"SELECT (SELECT count(*) FROM runs WHERE key = ? AND {_OPEN}), "
        "EXISTS (SELECT 1 FROM runs WHERE run_id = ?)",
        (new.key.text, new.run_id),
    )
    if is_taken:
        raise KeyReused(f"there is a run {new.run_id} already; use another idempotency key")
    if waiting >= LANE_RUNS_MAX:
        raise Busy(
            f"{new.key} has {LANE_RUNS_MAX} messages waiting; try again when it has caught up"
        )
    return waiting


def _find_duplicate(transaction: Transaction, op: Submit) -> str | None:
    dedupe = op.dedupe
    assert dedupe is not None
    row = transaction.db.execute(
        "SELECT run_id, digest FROM dedupe WHERE scope = ? AND key = ?", (dedupe.scope, dedupe.key)
    ).fetchone()
    if row is None:
        return None
    if row[1] != dedupe.digest:
        raise KeyReused(
            "this idempotency key was used for another session or message; use a new key"
        )
    run_id: str = row[0]
    return run_id


def take_inbox_message(transaction: Transaction, run_id: str) -> NewEntry | None:
    """Takes a run's message out of the inbox. Its entry is named after the run, and not by a
    number: that would count everybody's messages."""
    inbox_entry = transaction.db.execute(
        "DELETE FROM inbox WHERE run_id = ? RETURNING message", (run_id,)
    ).fetchone()
    if inbox_entry is None:
        return None
    return NewEntry(message=_readable(inbox_entry[0]), entry_id=entry_id_of("message", run_id))


def _readable(body: bytes) -> Message:
    try:
        return decode_message(body)
    except UNREADABLE as error:
        raise msgspec.ValidationError(f"a message of which {why_of(error)}") from error


def _last_inbox_entry(transaction: Transaction, run_id: str) -> NewEntry | None:
    """The message of a run that ends without having begun. An unreadable one stays in the inbox,
    for whoever inspects the store, and a note says so."""
    try:
        is_readable = find_inbox(transaction.db, run_id) is not None
    except (*UNREADABLE, Invalid) as error:
        meet(transaction.db, "inbox")
        note: dict[str, object] = {"kind": UNREADABLE_NOTE, "was": "message", "why": why_of(error)}
        return NewEntry(entry_id=entry_id_of("message", run_id), note=note, type="note")
    return take_inbox_message(transaction, run_id) if is_readable else None


def end_run(transaction: Transaction, op: EndRun) -> list[Run]:
    """Ends a run. Refused if it was given back or taken over: then somebody else writes the end."""
    ended = end(transaction, op.fence.run_id, op.fence.epoch, op)
    if not ended:
        raise lost_claim(op.fence)
    return ended


def end_open_run(transaction: Transaction, op: EndOpenRun) -> OpenEnd:
    """Ends a run that nobody executes. A message that never began enters the transcript, so that
    nothing accepted is lost."""
    before = find_run(transaction.db, op.run_id)
    if before is None or before.ended:
        if op.fenced:
            raise Fenced(
                f"run {op.run_id} has ended already; nothing that would follow from a second end is stored"
            )
        return OpenEnd([], [])
    agent_id, session_id = before.key.agent_id, before.session_id
    inbox_entry = _last_inbox_entry(transaction, op.run_id)
    if inbox_entry is not None:
        agent_id, session_id = session_of_key(transaction, before.key)
    if before.kind == "command":
        inbox_entry = None  # its note says it; a model has no use for it
    entries = [
        put_entry(transaction, agent_id, session_id, op.run_id, entry, op.at)
        for entry in (*filter(None, [inbox_entry]), *op.entries)
    ]
    return OpenEnd(end(transaction, op.run_id, before.epoch, op), entries)


def end(transaction: Transaction, run_id: str, epoch: int, op: EndRun | EndOpenRun) -> list[Run]:
    db, outcome = transaction.db, op.outcome
    where = CLAIMED if isinstance(op, EndRun) else f"run_id = ? AND epoch = ? AND {_OPEN}"
    row = db.execute(
        f"{_ENDED} WHERE {where} RETURNING {RUN}",
        (outcome.status, outcome.reply, outcome.error, op.at, run_id, epoch),
    ).fetchone()
    if row is None:
        return []
    run = run_of(row)
    transaction.hint(ENDED, run_id)
    if isinstance(
        op, EndOpenRun
    ):  # who carries a run out takes the next of its lane; nobody did, or somebody else
        transaction.hint(LANES, run.key.text)
    if run.cause.purse is not None:
        settle(transaction, run_id, Amount())  # a call that was cut off holds nothing back
    has_waits, has_approvals, has_merged = transaction.get(_LEFT_OF, (run_id,))
    if has_waits:
        db.execute("DELETE FROM waits WHERE run_id = ?1 OR target_run_id = ?1", (run_id,))
    if has_approvals:
        withdraw_approvals(db, run_id, op.at)
    _mark_session(transaction, run, op)
    count_end(transaction, run, op.at)
    return [run, *(_end_merged(transaction, run_id, op) if has_merged else ())]


def _mark_session(transaction: Transaction, run: Run, op: EndRun | EndOpenRun) -> None:
    """Stores on the session how its last run ended. An announce, a compaction or a command that
    succeeded does not replace the run before it."""
    outcome, beside = op.outcome, run.kind in _BESIDE and op.outcome.status == "ok"
    transaction.db.execute(
        "UPDATE sessions SET updated_at = ?1, aborted_last_run = ?2, system_sent = 1, "
        "last_run_id = iif(?3, last_run_id, ?4), last_status = iif(?3, last_status, ?5), "
        "last_error = iif(?3, last_error, ?6) WHERE key = ?7",
        (
            op.at,
            outcome.status == "aborted",
            beside,
            run.run_id,
            outcome.status,
            outcome.error and outcome.error[:WHY_CHARS_MAX],
            run.key.text,
        ),
    )


def _end_merged(transaction: Transaction, run_id: str, op: EndRun | EndOpenRun) -> list[Run]:
    """Ends the runs whose messages a run has answered with its own; its outcome is theirs too."""
    db, outcome = transaction.db, op.outcome
    merged = db.execute(
        f"SELECT run_id FROM runs INDEXED BY runs_merged WHERE merged_into = ? AND {_OPEN}",
        (run_id,),
    ).fetchall()
    ended = []
    for (each,) in merged:
        row = transaction.get(
            f"{_ENDED} WHERE run_id = ? RETURNING {RUN}",
            (outcome.status, outcome.reply, outcome.error, op.at, each),
        )
        db.execute("DELETE FROM waits WHERE target_run_id = ?", (each,))
        transaction.hint(ENDED, each)
        ended.append(run_of(row))
    return ended


def release_run(transaction: Transaction, op: ReleaseRun) -> None:
    row = transaction.db.execute(
        "UPDATE runs SET status = 'queued', owner = NULL, "
        "attempt = CASE WHEN attempt > 1 THEN attempt - 1 ELSE 0 END "
        "WHERE run_id = ? AND epoch = ? AND owner IS NOT NULL RETURNING key",
        (op.fence.run_id, op.fence.epoch),
    ).fetchone()
    if row is None:
        return  # somebody else has it: its waits are not ours
    transaction.hint(LANES, row[0])
    transaction.db.execute("DELETE FROM waits WHERE run_id = ?", (op.fence.run_id,))


def start_tool(transaction: Transaction, op: StartTool) -> bool:
    run = hold(transaction, op.fence)
    made = transaction.db.execute(
        "INSERT INTO tool_calls (run_id, tool_use_id, agent_id, name, started_at) "
        "VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING RETURNING 1",
        (op.fence.run_id, op.tool_use_id, run.agent_id, op.name, op.at),
    ).fetchone()
    return made is not None


def reserve(transaction: Transaction, op: Reserve) -> Grant:
    return set_aside(transaction, op, hold(transaction, op.fence).agent_id)


def spend(transaction: Transaction, op: Spend) -> None:
    hold(transaction, op.fence)
    settle(transaction, op.fence.run_id, op.spent)


def find_run(db: Database, run_id: str) -> Run | None:
    try:
        row = db.execute(_BY_ID, (run_id,)).fetchone()
        return row and run_of(row)
    except UNREADABLE:
        row = legible_row(db, _BY_ID, (run_id,))
        if row is None or row[13] is None:
            raise
        return damaged_run(row)


def has_open_run(db: Database, key: SessionKey) -> bool:
    row = db.execute(
        f"SELECT 1 FROM runs WHERE key = ? AND {_OPEN} LIMIT 1", (key.text,)
    ).fetchone()
    return row is not None


def list_open_runs(db: Database, key: SessionKey) -> list[Run]:
    sql = f"SELECT {RUN} FROM runs WHERE key = ? AND {_OPEN} ORDER BY id"
    return read_rows(db, "runs", sql, (key.text,), run_of)


def list_made_runs(db: Database) -> list[Run]:
    sql = (
        f"SELECT {RUN} FROM runs WHERE {_OPEN} AND CASE WHEN json_valid(authority) "
        "THEN json_array_length(authority, '$.made_by') > 0 END ORDER BY id"
    )
    return read_rows(db, "runs", sql, (), run_of)


def lanes_with_work(db: Database) -> list[SessionKey]:
    rows = db.execute(
        f"SELECT key, min(agent_id), min(id) FROM runs WHERE {_OPEN} GROUP BY key ORDER BY 3"
    )
    return [key_of(key, agent_id) for key, agent_id, _ in rows]


def find_inbox(db: Database, run_id: str) -> UserMessage | None:
    row = db.execute("SELECT message FROM inbox WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    message = decode_message(row[0])
    if not isinstance(message, UserMessage):
        raise Invalid(f"the inbox has a {type(message).__name__} for run {run_id}")
    return message


def tool_was_started(db: Database, run_id: str, tool_use_id: str) -> bool:
    row = db.execute(
        "SELECT 1 FROM tool_calls WHERE run_id = ? AND tool_use_id = ?", (run_id, tool_use_id)
    ).fetchone()
    return row is not None


def find_deduped(db: Database, dedupe: Dedupe) -> str | None:
    row = db.execute(
        "SELECT run_id FROM dedupe WHERE scope = ? AND key = ? AND digest = ?",
        (dedupe.scope, dedupe.key, dedupe.digest),
    ).fetchone()
    run_id: str | None = row and row[0]
    return run_id


def list_request_times(
    db: Database, scope: str, prefix: str, *, since: int, limit: int
) -> list[int]:
    rows = db.execute(
        "SELECT at FROM dedupe WHERE at > ? AND scope = ? AND substr(key, 1, ?) = ? "
        "ORDER BY at DESC LIMIT ?",
        (since, scope, len(prefix), prefix, limit),
    )
    return [at for (at,) in rows]
