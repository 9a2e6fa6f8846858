"""Entries: appended in order, never changed."""

from typing import Any, NamedTuple

import msgspec

from crossclaw.domain.errors import Fenced, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    encode_message,
)
from crossclaw.domain.runs import Fence, RunKind
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.ledger.operations import Append, Inject
from crossclaw.ledger.sqlite.accounts import settle
from crossclaw.ledger.sqlite.figures import count_used, note_models
from crossclaw.ledger.sqlite.media import keep_in_note, keep_in_transcript
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.words import indexed_words
from crossclaw.ledger.sqlite.writer import Transaction

CLAIMED = "run_id = ? AND epoch = ? AND owner IS NOT NULL"
"""The condition of a fence: the run is still claimed by its writer. It finds nothing if the run was
given back, lost or ended."""

ROLE_OF = {UserMessage: "user", AssistantMessage: "assistant", ToolResultMessage: "toolResult"}


def append(transaction: Transaction, op: Append) -> list[Entry]:
    run = hold(transaction, op.fence, progress=bool(op.entries))
    count_used(transaction, op, run.agent_id, run.kind, run.plan)
    note_models(transaction, op)
    for new in op.entries:
        if new.spent is not None:
            settle(transaction, op.fence.run_id, new.spent)
    return [
        put_entry(transaction, run.agent_id, run.session_id, op.fence.run_id, new, op.at)
        for new in op.entries
    ]


def inject(transaction: Transaction, op: Inject) -> list[Entry]:
    if (
        op.if_there
        and not transaction.db.execute(
            "SELECT 1 FROM sessions WHERE key = ?", (op.key.text,)
        ).fetchone()
    ):
        return []
    agent_id, session_id = session_of_key(transaction, op.key)
    transaction.db.execute("UPDATE sessions SET updated_at = ? WHERE key = ?", (op.at, op.key.text))
    return [put_entry(transaction, agent_id, session_id, None, new, op.at) for new in op.entries]


class HeldRun(NamedTuple):
    """A run whose claim is still valid: where it writes, and what kind of run it is."""

    agent_id: str
    session_id: str
    attempt: int
    kind: RunKind
    plan: str


def hold(transaction: Transaction, fence: Fence, *, progress: bool = False) -> HeldRun:
    """Refuses a writer that lost its claim. With `progress` the count of its attempts begins
    anew."""
    row = transaction.db.execute(
        f"SELECT agent_id, session_id, attempt, kind, plan FROM runs WHERE {CLAIMED}",
        (fence.run_id, fence.epoch),
    ).fetchone()
    if row is None:
        raise lost_claim(fence)
    run = HeldRun(*row)
    if run.attempt and progress:
        transaction.db.execute("UPDATE runs SET attempt = 0 WHERE run_id = ?", (fence.run_id,))
    return run


def lost_claim(fence: Fence) -> Fenced:
    return Fenced(f"run {fence.run_id} has ended or was taken over; this write is void")


def session_of_key(transaction: Transaction, key: SessionKey) -> tuple[str, str]:
    row = transaction.db.execute(
        "SELECT agent_id, session_id FROM sessions WHERE key = ?", (key.text,)
    ).fetchone()
    if row is None:
        raise NotFound(f"unknown session: {key}")
    return row[0], row[1]


def put_entry(
    transaction: Transaction,
    agent_id: str,
    session_id: str,
    run_id: str | None,
    new: NewEntry,
    at: int,
) -> Entry:
    # A SELECT and an UPDATE cost half of an UPDATE … RETURNING, which builds a table for its row.
    (last_seq,) = transaction.get(
        "SELECT last_seq FROM transcripts WHERE session_id = ?", (session_id,)
    )
    seq = last_seq + 1
    transaction.db.execute(
        "UPDATE transcripts SET last_seq = ? WHERE session_id = ?", (seq, session_id)
    )
    message, note, where = new.message, new.note, (agent_id, session_id, run_id)
    if message is not None:
        message = keep_in_transcript(transaction, *where, message, at)
    elif note:
        note = keep_in_note(transaction, *where, note, at)
    provenance = message.provenance if isinstance(message, UserMessage) else None
    body = to_json(note or {}).encode() if message is None else encode_message(message)
    transaction.db.execute(
        "INSERT INTO entries (agent_id, session_id, seq, entry_id, run_id, at, type, role, "
        "provenance, source_session, body) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (
            agent_id,
            session_id,
            seq,
            new.entry_id,
            run_id,
            at,
            new.type,
            message and ROLE_OF[type(message)],
            provenance and provenance.kind,
            provenance and provenance.source_session_key,
            body,
        ),
    )
    if message is not None:
        transaction.index(session_id, seq, indexed_words(message))
    if isinstance(message, AssistantMessage) and message.usage is not None:
        _count_tokens(transaction, session_id, message)
    if new.type == "compaction":
        _count_compaction(transaction, session_id, new.note or {})
    elif message is None and note and "usage" in note:
        _count_beside(transaction, session_id, note)
    transaction.appended.add(session_id)
    return Entry(
        session_id=session_id,
        seq=seq,
        entry_id=new.entry_id,
        at=at,
        type=new.type,
        run_id=run_id,
        message=message,
        note=note,
        size=len(body),
    )


def _count_beside(transaction: Transaction, session_id: str, note: dict[str, Any]) -> None:
    """Adds what was spent for the session beside its own messages, such as on a picture's
    description."""
    usage = msgspec.convert(note["usage"], Usage)
    transaction.db.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
        "cost_usd = cost_usd + ? WHERE session_id = ?",
        (usage.input, usage.output, usage.cost or 0.0, session_id),
    )


def _count_compaction(transaction: Transaction, session_id: str, note: dict[str, Any]) -> None:
    usage = msgspec.convert(note.get("usage") or {}, Usage)
    transaction.db.execute(
        "UPDATE sessions SET compactions = compactions + 1, total_tokens = ?, "
        "input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
        "cost_usd = cost_usd + ? WHERE session_id = ?",
        (note.get("tokensAfter", 0), usage.input, usage.output, usage.cost or 0.0, session_id),
    )


def _count_tokens(transaction: Transaction, session_id: str, message: AssistantMessage) -> None:
    usage = message.usage
    assert usage is not None
    transaction.db.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
        "total_tokens = ?, cost_usd = cost_usd + ? WHERE session_id = ?",
        (usage.input, usage.output, usage.window, usage.cost or 0.0, session_id),
    )
