"""Accepted messages that wait for their run: their senders may still change or delete them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.messages import Text, UserBlock, UserMessage, content_of, encode_message
from crossclaw.domain.runs import Outcome, Run
from crossclaw.ledger.channels import ChangeHeard, EditWaiting, WithdrawWaiting
from crossclaw.ledger.operations import Dedupe, EndOpenRun
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.media import forget_holder, keep_waiting, waiting_holder
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.runs import end, find_deduped, find_inbox, find_run
from crossclaw.ledger.sqlite.writer import Transaction


class _WaitingMessage(NamedTuple):
    run: Run
    message: UserMessage


def edit_waiting(transaction: Transaction, op: EditWaiting) -> str | None:
    if (known := find_deduped(transaction.db, op.dedupe)) is not None:
        return known if known in {find_deduped(transaction.db, each) for each in op.of} else None
    found = _find_waiting(transaction, op.of)
    if found is None:
        return None
    run, agent_id = found.run, found.run.key.agent_id
    files = op.files
    if files is None:
        files = tuple(each for each in _blocks(found.message) if not isinstance(each, Text))
    else:
        forget_holder(transaction.db, waiting_holder(run.run_id))
    message = msgspec.structs.replace(found.message, content=content_of(op.text, files))
    kept = keep_waiting(transaction, agent_id, run.run_id, message, op.at)
    authority = to_json(run.authority.meet(op.authority))
    transaction.db.execute(
        "UPDATE inbox SET message = ?, authority = ? WHERE run_id = ?",
        (encode_message(kept), authority, run.run_id),
    )
    transaction.db.execute(
        "UPDATE runs SET authority = ? WHERE run_id = ?", (authority, run.run_id)
    )
    _remember(transaction, op.dedupe, agent_id, run.run_id, op.at)
    return run.run_id


def withdraw_waiting(transaction: Transaction, op: WithdrawWaiting) -> list[Run]:
    found = _find_waiting(transaction, op.of)
    if found is None:
        return []
    run_id = found.run.run_id
    transaction.db.execute("DELETE FROM inbox WHERE run_id = ?", (run_id,))
    forget_holder(transaction.db, waiting_holder(run_id))
    _remember(transaction, op.dedupe, found.run.key.agent_id, run_id, op.at)
    over = EndOpenRun(run_id=run_id, outcome=Outcome("aborted", error=op.why), at=op.at)
    return end(transaction, run_id, found.run.epoch, over)


def change_heard(transaction: Transaction, op: ChangeHeard) -> bool:
    db = transaction.db
    if find_deduped(db, op.dedupe) is not None:
        return True
    of = "channel = ? AND account_id = ? AND chat = ? AND message_id = ? AND sender IN ("
    of += ",".join("?" * len(op.senders)) + ")"
    values = (op.channel, op.account_id, op.chat, op.message_id, *op.senders)
    if op.text is None:
        changed = db.execute(f"DELETE FROM heard_messages WHERE {of} RETURNING 1", values)
    else:
        sql = f"UPDATE heard_messages SET text = ? WHERE {of} RETURNING 1"
        changed = db.execute(sql, (op.text, *values))
    if changed.fetchone() is None:
        return False
    _remember(transaction, op.dedupe, "", "", op.at)  # it has no run
    return True


def _find_waiting(transaction: Transaction, of: Sequence[Dedupe]) -> _WaitingMessage | None:
    """The waiting message of these keys, if it can still be changed. It cannot if its run has
    begun, even if that was given back; if it steered another run, since only a reminder is left; or
    if it was made of several messages."""
    for each in of:
        run_id = find_deduped(transaction.db, each)
        if not run_id:
            continue
        try:
            run = find_run(transaction.db, run_id)
            message = find_inbox(transaction.db, run_id)
        except (*UNREADABLE, Invalid):
            return None
        if run is None or message is None or run.status != "queued":
            return None
        queue = run.plan.queue
        is_said = queue is not None and queue.mode == "backlog"
        return None if is_said or run.plan.joined else _WaitingMessage(run, message)
    return None


def _blocks(message: UserMessage) -> Sequence[UserBlock]:
    return () if isinstance(message.content, str) else message.content


def _remember(transaction: Transaction, once: Dedupe, agent_id: str, run_id: str, at: int) -> None:
    transaction.db.execute(
        "INSERT INTO dedupe (scope, key, agent_id, digest, run_id, at) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT (scope, key) DO NOTHING",
        (once.scope, once.key, agent_id, once.digest, run_id, at),
    )
