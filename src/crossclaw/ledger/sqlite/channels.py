"""What chat channels keep: how far each account has read."""

from crossclaw.ledger.channels import LearnFate, SaveCursor
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.writer import Transaction


def save_cursor(transaction: Transaction, op: SaveCursor) -> None:
    transaction.db.execute(
        "INSERT INTO channel_cursors (channel, account_id, name, value, updated_at) "
        "VALUES (?,?,?,?,?) ON CONFLICT (channel, account_id, name) "
        "DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (op.channel, op.account_id, op.name, op.value, op.at),
    )


def find_cursor(db: Database, channel: str, account_id: str, name: str) -> str | None:
    row = db.execute(
        "SELECT value FROM channel_cursors WHERE channel = ? AND account_id = ? AND name = ?",
        (channel, account_id, name),
    ).fetchone()
    value: str | None = row and row[0]
    return value


def learn_fate(transaction: Transaction, op: LearnFate) -> bool:
    if op.arrived:
        learnt = transaction.db.execute(
            "UPDATE outbox SET state = 'delivered', error = NULL, "
            "platform_id = coalesce(?, platform_id), updated_at = ? "
            "WHERE delivery_key = ? AND state = 'uncertain' RETURNING 1",
            (op.platform_id, op.at, op.delivery_key),
        )
    else:
        learnt = transaction.db.execute(
            "UPDATE outbox SET state = 'failed', error = ?, updated_at = ? "
            "WHERE delivery_key = ? AND state IN ('uncertain', 'delivered') RETURNING 1",
            (op.error, op.at, op.delivery_key),
        )
    return learnt.fetchone() is not None
