"""Rows of messages that show a reply while it is being written."""

from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import DeliveryPreview
from crossclaw.ledger.pieces import BeginPreview, DropPreview, NotePreview
from crossclaw.ledger.sqlite.writer import Transaction

KEPT_MS = 7 * 86_400_000  # of a reply that never came, because its run was stopped


def begin_preview(transaction: Transaction, op: BeginPreview) -> DeliveryPreview | None:
    db = transaction.db
    if (known := find_preview(db, op.delivery_key)) is not None:
        return known
    if db.execute("SELECT 1 FROM outbox WHERE delivery_key = ?", (op.delivery_key,)).fetchone():
        return DeliveryPreview(op.delivery_key, op.at)  # the reply itself is there: too late
    db.execute("DELETE FROM delivery_previews WHERE tried_at < ?", (op.at - KEPT_MS,))
    db.execute(
        "INSERT INTO delivery_previews (delivery_key, tried_at) VALUES (?,?)",
        (op.delivery_key, op.at),
    )
    return None


def note_preview(transaction: Transaction, op: NotePreview) -> None:
    transaction.db.execute(
        "UPDATE delivery_previews SET platform_id = ? WHERE delivery_key = ?",
        (op.platform_id, op.delivery_key),
    )


def drop_preview(transaction: Transaction, op: DropPreview) -> None:
    transaction.db.execute(
        "DELETE FROM delivery_previews WHERE delivery_key = ?", (op.delivery_key,)
    )


def find_preview(db: Database, delivery_key: str) -> DeliveryPreview | None:
    row = db.execute(
        "SELECT delivery_key, tried_at, platform_id FROM delivery_previews WHERE delivery_key = ?",
        (delivery_key,),
    ).fetchone()
    return row and DeliveryPreview(*row)
