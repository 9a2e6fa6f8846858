"""Outbox rows: put with the step that ends a run, settled when the channel has answered."""

import apsw

from crossclaw.ledger.operations import Delivery, PutDelivery, SettleDelivery, TakeDelivery
from crossclaw.ledger.sqlite.entries import put_entry, session_of_key
from crossclaw.ledger.sqlite.rows import DELIVERY, delivery_of, to_json
from crossclaw.ledger.sqlite.writer import Transaction


def put_delivery(transaction: Transaction, op: PutDelivery) -> bool:
    new, address = op.new, op.new.address
    made = transaction.db.execute(
        "INSERT INTO outbox (agent_id, delivery_key, key, run_id, channel, account_id, chat, "
        "thread_id, text, state, created_at, updated_at, authority) "
        "VALUES (?,?,?,?,?,?,?,?,?,'pending',?,?,?) "
        "ON CONFLICT (delivery_key) DO NOTHING RETURNING 1",
        (
            new.key.agent_id,
            new.delivery_key,
            new.key.text,
            new.run_id,
            address.channel,
            address.account_id,
            address.to,
            address.thread_id,
            new.text,
            op.at,
            op.at,
            to_json(new.authority),
        ),
    ).fetchone()
    if made and op.mirror is not None:
        agent_id, session_id = session_of_key(transaction, new.key)
        put_entry(transaction, agent_id, session_id, None, op.mirror, op.at)
    return made is not None


def take_delivery(transaction: Transaction, op: TakeDelivery) -> Delivery | None:
    row = transaction.db.execute(
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, updated_at = ? "
        f"WHERE id = ? AND state = 'pending' RETURNING {DELIVERY}",
        (op.at, op.delivery_id),
    ).fetchone()
    return row and delivery_of(row)


def settle_delivery(transaction: Transaction, op: SettleDelivery) -> None:
    transaction.db.execute(
        "UPDATE outbox SET state = ?, not_before = ?, error = ?, platform_id = ?, updated_at = ? "
        "WHERE id = ? AND state = 'sending'",
        (op.state, op.not_before, op.error, op.platform_id, op.at, op.delivery_id),
    )


def list_open_deliveries(db: apsw.Connection, after: int, limit: int) -> list[Delivery]:
    rows = db.execute(
        f"SELECT {DELIVERY} FROM outbox WHERE state IN ('pending', 'sending') AND id > ? "
        "ORDER BY id LIMIT ?",
        (after, limit),
    )
    return [delivery_of(row) for row in rows]


def find_delivery(db: apsw.Connection, delivery_key: str) -> Delivery | None:
    row = db.execute(
        f"SELECT {DELIVERY} FROM outbox WHERE delivery_key = ?", (delivery_key,)
    ).fetchone()
    return row and delivery_of(row)
