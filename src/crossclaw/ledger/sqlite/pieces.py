"""Rows of pieces of deliveries, each with its own state."""

from typing import Any

from crossclaw.ledger.database import Database
from crossclaw.ledger.pieces import (
    DeliveryPiece,
    MarkDelivered,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.outbox import drop_files
from crossclaw.ledger.sqlite.writer import Transaction

_PIECE = "delivery_id, number, count, text, formatted, state, tried_at, platform_id, file"
_OF = "WHERE delivery_id = ? AND number = ?"


def split_delivery(transaction: Transaction, op: SplitDelivery) -> list[DeliveryPiece]:
    known = list_pieces(transaction.db, op.delivery_id)
    if known or len(op.pieces) < 2:
        return known
    for each in op.pieces:
        transaction.db.execute(
            f"INSERT INTO delivery_pieces ({_PIECE}) VALUES (?,?,?,?,?,'pending',NULL,NULL,?)",
            (op.delivery_id, each.number, each.of, each.text, each.formatted, each.file),
        )
    return list(op.pieces)


def take_piece(transaction: Transaction, op: TakePiece) -> None:
    transaction.db.execute(
        f"UPDATE delivery_pieces SET state = 'sending', tried_at = coalesce(tried_at, ?) {_OF}",
        (op.at, op.delivery_id, op.number),
    )


def settle_piece(transaction: Transaction, op: SettlePiece) -> None:
    """Stores how a piece ended. What its platform has reported meanwhile counts more. If it has
    arrived after all, the rest of the delivery goes out."""
    row = transaction.db.execute(
        "UPDATE delivery_pieces SET state = CASE WHEN state = 'delivered' "
        "OR state = 'failed' AND ?1 <> 'pending' THEN state ELSE ?1 END, "
        "platform_id = coalesce(?2, platform_id), "
        "tried_at = CASE WHEN ?3 = 1 THEN NULL ELSE tried_at END "
        "WHERE delivery_id = ?4 AND number = ?5 RETURNING state",
        (op.state, op.platform_id, int(op.unsent), op.delivery_id, op.number),
    ).fetchone()
    if row is not None and row[0] == "delivered" and op.state != "delivered":
        transaction.db.execute(
            "UPDATE outbox SET state = 'pending', error = NULL, not_before = 0, tried_at = NULL "
            "WHERE id = ? AND state = 'sending'",
            (op.delivery_id,),
        )


def mark_delivered(transaction: Transaction, op: MarkDelivered) -> bool:
    db = transaction.db
    row = db.execute(
        "SELECT 1 FROM outbox WHERE id = ? AND state = 'uncertain'", (op.delivery_id,)
    ).fetchone()
    if row is None:
        return False
    db.execute(
        "UPDATE delivery_pieces SET state = 'delivered' "
        "WHERE delivery_id = ? AND state IN ('sending', 'uncertain')",
        (op.delivery_id,),
    )
    go_on(transaction, op.delivery_id, op.at)
    return True


def go_on(transaction: Transaction, delivery_id: int, at: int) -> None:
    """Lets the rest of a delivery go out; if there is none, marks it as delivered."""
    left = transaction.db.execute(
        "SELECT 1 FROM delivery_pieces WHERE delivery_id = ? AND state <> 'delivered'",
        (delivery_id,),
    ).fetchone()
    transaction.db.execute(
        "UPDATE outbox SET state = ?, error = NULL, not_before = 0, tried_at = NULL, updated_at = ? "
        "WHERE id = ?",
        ("delivered" if left is None else "pending", at, delivery_id),
    )
    if left is None:
        drop_files(transaction.db, delivery_id)


def list_pieces(db: Database, delivery_id: int) -> list[DeliveryPiece]:
    sql = f"SELECT {_PIECE} FROM delivery_pieces WHERE delivery_id = ? ORDER BY number"
    return read_rows(db, "delivery_pieces", sql, (delivery_id,), _piece_of)


def _piece_of(row: Any) -> DeliveryPiece:
    return DeliveryPiece(
        delivery_id=row[0],
        number=row[1],
        of=row[2],
        text=row[3],
        formatted=row[4],
        state=row[5],
        tried_at=row[6],
        platform_id=row[7],
        file=row[8],
    )
