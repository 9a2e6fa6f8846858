"""Converts rows to the domain's types, here and nowhere else."""

from typing import Any

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import key_of
from crossclaw.domain.messages import decode_message
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.domain.sessions import UNBOUND, Entry, Session
from crossclaw.ledger.operations import Delivery, DeliveryFile, Export, Timer
from crossclaw.ledger.sqlite.damage import UNREADABLE, StoredRow

_plan = msgspec.json.Decoder(RunPlan)
_authority = msgspec.json.Decoder(Authority)
_cause = msgspec.json.Decoder(Cause)
_note = msgspec.json.Decoder(dict[str, Any])
_files = msgspec.json.Decoder(tuple[DeliveryFile, ...])
_encode = msgspec.json.Encoder().encode


NO_BOUND = "{}"


def to_json(value: Any) -> str:
    return _encode(value).decode()


SESSION = (
    "agent_id, key, session_id, created_at, updated_at, channel, display_name, label, spawned_by, "
    "archived_at, model, thinking, verbose, send_policy, input_tokens, output_tokens, total_tokens, "
    "context_tokens, cost_usd, system_sent, aborted_last_run, "
    "last_channel, last_to, last_account_id, last_thread_id, compactions, authority, queue_mode, "
    "queue_debounce_ms, queue_cap, queue_drop, last_run_id, last_status, last_error, "
    "group_activation"
)


def session_of(row: StoredRow) -> Session:
    """Makes a session of a row, by position in the order of the struct's fields: a list has hundreds of rows."""
    if not (isinstance(row[3], int) and isinstance(row[4], int) and isinstance(row[1], str)):
        raise msgspec.ValidationError("a session without a key or a time")
    channel, to = row[21], row[22]
    address = Address(channel, to, row[23], row[24]) if channel and to else None
    flags: StoredRow = (bool(row[19]), bool(row[20]), address, row[25], bound_of(row[26]))
    return Session(key_of(row[1], row[0]), *row[2:19], *flags, *row[27:])


def bound_of(text: str) -> Authority:
    """The authority bound of a session. Nearly every session has none, so that case is fast."""
    return UNBOUND if text == NO_BOUND else _authority.decode(text)


def damaged_session(row: StoredRow) -> Session:
    """Stands in for a session that cannot be read, in lists for people: its key and its times, as far as there are any.
    Nobody acts on it but to delete it or to begin it anew: whoever asks for it by its key is told that it is damaged."""
    if not (isinstance(row[0], str) and isinstance(row[1], str)):
        raise msgspec.ValidationError("a session without a key")
    created, updated = (at if isinstance(at, int) else 0 for at in row[3:5])
    session_id = row[2] if isinstance(row[2], str) else ""
    archived = row[9] if isinstance(row[9], int) else None
    return Session(
        key_of(row[1], row[0]),
        session_id,
        created,
        updated,
        archived_at=archived,
        authority=Authority(tools=frozenset()),
        unreadable=True,
    )


RUN = (
    "agent_id, key, run_id, session_id, kind, status, attempt, epoch, plan, authority, cause, "
    "created_at, started_at, ended_at, reply, error, merged_into"
)


DAMAGED_RUN = "its stored form is damaged; crossclaw doctor names it"


def run_of(row: StoredRow) -> Run:
    try:
        return _run_of(row)
    except UNREADABLE as error:
        raise msgspec.ValidationError(f"a run of which {why_of(error)}") from error


def damaged_run(row: StoredRow) -> Run:
    """Stands in for a run that cannot be read, after its end: it says so, and may nothing."""
    started, ended = (at if isinstance(at, int) else None for at in row[12:14])
    return Run(
        key=key_of(str(row[1]), str(row[0])),
        run_id=str(row[2]),
        session_id=str(row[3]),
        kind=row[4],
        status="error",
        attempt=row[6],
        epoch=row[7],
        plan=_plan_or_none(row[8]),
        authority=Authority(tools=frozenset()),
        cause=Cause(),
        created_at=row[11],
        started_at=started,
        ended_at=ended,
        error=DAMAGED_RUN,
    )


def _plan_or_none(text: Any) -> RunPlan:
    try:
        return _plan.decode(text)
    except UNREADABLE:
        return RunPlan()


def _run_of(row: StoredRow) -> Run:
    return Run(
        key=key_of(row[1], row[0]),
        run_id=row[2],
        session_id=row[3],
        kind=row[4],
        status=row[5],
        attempt=row[6],
        epoch=row[7],
        plan=_plan.decode(row[8]),
        authority=_authority.decode(row[9]),
        cause=_cause.decode(row[10]),
        created_at=row[11],
        started_at=row[12],
        ended_at=row[13],
        reply=row[14],
        error=row[15],
        merged_into=row[16],
    )


ENTRY = "session_id, seq, entry_id, at, type, run_id, pinned, body"


UNREADABLE_NOTE = "unreadable"
"""The kind of the note that replaces an unreadable entry."""


def entry_of(row: StoredRow) -> Entry:
    """An entry whose body is damaged is a note that says so: it keeps its place, and its neighbours theirs."""
    try:
        return decode_entry(row)
    except UNREADABLE as error:
        return _unreadable(row, why_of(error))


def damaged_entry(row: StoredRow) -> Entry:
    """Stands in for an entry that SQLite itself cannot read."""
    return _unreadable(row, "its stored form is damaged (its text is not valid UTF-8)")


def _unreadable(row: StoredRow, why: str) -> Entry:
    return Entry(
        session_id=row[0],
        seq=row[1],
        entry_id=row[2],
        at=row[3],
        type="note",
        run_id=row[5],
        note={"kind": UNREADABLE_NOTE, "was": str(row[4]), "why": why},
        size=_size(row[7]),
    )


def why_of(error: Exception) -> str:
    """Why a row cannot be read, without any of its content."""
    return f"its stored form is damaged ({type(error).__name__})"


def _size(body: Any) -> int:
    return len(body) if isinstance(body, bytes | str) else 0


def decode_entry(row: StoredRow) -> Entry:
    is_message = row[4] == "message"
    return Entry(
        session_id=row[0],
        seq=row[1],
        entry_id=row[2],
        at=row[3],
        type=row[4],
        run_id=row[5],
        pinned=bool(row[6]),
        message=decode_message(row[7]) if is_message else None,
        note=None if is_message else _note.decode(row[7]),
        size=len(row[7]),
    )


DELIVERY = (
    "id, delivery_key, agent_id, key, channel, chat, account_id, thread_id, text, state, attempt, "
    "not_before, run_id, error, platform_id, authority, named, updated_at, "
    "created_at, tried_at, reply_to, files"
)


def delivery_of(row: StoredRow) -> Delivery:
    return Delivery(
        delivery_id=row[0],
        delivery_key=row[1],
        key=key_of(row[3], row[2]),
        address=Address(row[4], row[5], row[6], row[7], bool(row[16])),
        text=row[8],
        state=row[9],
        attempt=row[10],
        not_before=row[11],
        run_id=row[12],
        error=row[13],
        platform_id=row[14],
        authority=_authority.decode(row[15]),
        updated_at=row[17],
        created_at=row[18],
        tried_at=row[19],
        reply_to=row[20],
        files=_files.decode(row[21]) if row[21] else (),
    )


TIMER = "timer_key, agent_id, kind, due_at, payload"


def timer_of(row: StoredRow) -> Timer:
    return Timer(
        timer_key=row[0], agent_id=row[1], kind=row[2], due_at=row[3], payload=_note.decode(row[4])
    )


EXPORT = (
    "agent_id, session_id, key, created_at, last_seq, exported_seq, exported_bytes, compressed_at"
)


def export_of(row: StoredRow) -> Export:
    return Export(*row)
