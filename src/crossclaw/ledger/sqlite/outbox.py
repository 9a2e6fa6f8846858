"""Outbox rows: put in the step that ends a run, settled when the channel has answered."""

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.ledger.database import Database
from crossclaw.ledger.gateways import OUTBOX
from crossclaw.ledger.operations import (
    Delivery,
    PutDelivery,
    SettleDelivery,
    TakeDelivery,
    TakenDelivery,
    media_holder,
)
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.entries import put_entry, session_of_key
from crossclaw.ledger.sqlite.media import forget_holder
from crossclaw.ledger.sqlite.previews import find_preview
from crossclaw.ledger.sqlite.rows import DELIVERY, SESSION, delivery_of, session_of, to_json
from crossclaw.ledger.sqlite.writer import Transaction

PIECE_FAILED = "a part of it did not arrive, as its platform said later"
WITHDRAWN = "the session was deleted before this was delivered"
OLD_FILES_AT_ONCE = 500  # an hour later the next ones


def put_delivery(transaction: Transaction, op: PutDelivery) -> bool:
    new, address = op.new, op.new.address
    if op.if_there and _session_of(transaction.db, new.key) is None:
        return False
    made = transaction.db.execute(
        "INSERT INTO outbox (agent_id, delivery_key, key, run_id, channel, account_id, chat, "
        "thread_id, named, text, state, created_at, updated_at, authority, reply_to, files) "
        "VALUES (?,?,?,?,?,?,?,?,?,?,'pending',?,?,?,?,?) "
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
            address.named,
            new.text,
            op.at,
            op.at,
            to_json(new.authority),
            new.reply_to,
            to_json(new.files) if new.files else None,
        ),
    ).fetchone()
    if made:
        transaction.hint(OUTBOX, address.channel)
    if made and op.mirror is not None:
        agent_id, session_id = session_of_key(transaction, new.key)
        put_entry(transaction, agent_id, session_id, None, op.mirror, op.at)
    return made is not None


def take_delivery(transaction: Transaction, op: TakeDelivery) -> TakenDelivery | None:
    row = transaction.db.execute(
        "UPDATE outbox SET state = 'sending', attempt = attempt + 1, updated_at = ?1, "
        "tried_at = coalesce(tried_at, ?1) "
        f"WHERE id = ?2 AND state = 'pending' RETURNING {DELIVERY}",
        (op.at, op.delivery_id),
    ).fetchone()
    if row is None:
        return None
    taken = delivery_of(row)
    preview = find_preview(transaction.db, taken.delivery_key)
    return TakenDelivery(taken, _session_of(transaction.db, taken.key), preview)


def _session_of(db: Database, key: SessionKey) -> Session | None:
    row = db.execute(f"SELECT {SESSION} FROM sessions WHERE key = ?", (key.text,)).fetchone()
    return row and session_of(row)


def settle_delivery(transaction: Transaction, op: SettleDelivery) -> None:
    """Stores how an attempt ended. A delivery that was withdrawn while being sent still gets its
    result. An attempt that sent nothing is forgotten (it began at `updated_at`); an earlier one
    that may have arrived is not. One in pieces never returns to the state before its first attempt:
    it keeps its split."""
    transaction.db.execute(
        "UPDATE outbox SET "
        "state = CASE WHEN state = 'uncertain' AND ?1 = 'pending' THEN 'failed' ELSE ?1 END, "
        "not_before = ?2, "
        "error = CASE WHEN state = 'uncertain' AND ?1 = 'pending' THEN error ELSE ?3 END, "
        "platform_id = ?4, updated_at = ?5, attempt = CASE WHEN ?8 = 1 AND attempt = 1 AND EXISTS "
        "(SELECT 1 FROM delivery_pieces WHERE delivery_id = ?6) THEN 1 ELSE attempt - ?8 END, "
        "tried_at = CASE WHEN ?9 = 1 AND tried_at = updated_at THEN NULL ELSE tried_at END "
        "WHERE id = ?6 AND (state = 'sending' OR state = 'uncertain' AND error = ?7)",
        (
            op.state,
            op.not_before,
            op.error,
            op.platform_id,
            op.at,
            op.delivery_id,
            WITHDRAWN,
            0 if op.tried else 1,
            1 if op.unsent or not op.tried else 0,
        ),
    )
    if op.state in (
        "delivered",
        "uncertain",
    ):  # of one whose pieces surely did not all arrive, that is not true
        pieces = "SELECT 1 FROM delivery_pieces WHERE delivery_id = ?2 AND state"
        transaction.db.execute(
            "UPDATE outbox SET state = 'failed', error = ?1 WHERE id = ?2 AND state = ?3 "
            f"AND EXISTS ({pieces} = 'failed') AND NOT EXISTS ({pieces} IN ('sending', 'uncertain'))",
            (PIECE_FAILED, op.delivery_id, op.state),
        )


def withdraw_deliveries(transaction: Transaction, key: SessionKey, at: int) -> None:
    """Withdraws the deliveries of a session that is being deleted. If its send policy denied, also
    what others have on the way to its chat: with the session, its denial is forgotten."""
    transaction.db.execute(
        "UPDATE outbox SET "
        "state = CASE WHEN state = 'sending' THEN 'uncertain' ELSE 'failed' END, error = ?1, "
        "updated_at = ?2 WHERE state IN ('pending', 'sending') AND (key = ?3 OR EXISTS ("
        "SELECT 1 FROM sessions WHERE key = ?3 AND send_policy = 'deny' "
        "AND last_channel = outbox.channel AND last_to = outbox.chat))",
        (WITHDRAWN, at, key.text),
    )
    with_files = "SELECT delivery_key FROM outbox WHERE key = ? AND files IS NOT NULL"
    for (delivery_key,) in transaction.db.execute(with_files, (key.text,)).fetchall():
        forget_holder(transaction.db, media_holder(delivery_key))


def drop_files(db: Database, delivery_id: int) -> None:
    """Removes the files of a delivery that has arrived."""
    row = db.execute(
        "SELECT delivery_key FROM outbox WHERE id = ? AND files IS NOT NULL", (delivery_id,)
    ).fetchone()
    if row is not None:
        forget_holder(db, media_holder(row[0]))


def drop_old_files(db: Database, before: int) -> None:
    """Removes the files of deliveries that failed or are uncertain, and that nobody has sent again
    for so long."""
    rows = db.execute(
        "SELECT delivery_key FROM outbox WHERE state IN ('uncertain', 'failed') AND updated_at < ? "
        "AND files IS NOT NULL AND EXISTS "
        "(SELECT 1 FROM media_uses u WHERE u.holder = 'outbox:' || outbox.delivery_key) LIMIT ?",
        (before, OLD_FILES_AT_ONCE),
    ).fetchall()
    for (delivery_key,) in rows:
        forget_holder(db, media_holder(delivery_key))


def list_open_deliveries(db: Database, *, after: int = 0, limit: int) -> list[Delivery]:
    sql = (
        f"SELECT {DELIVERY} FROM outbox WHERE state IN ('pending', 'sending') AND id > ? "
        "ORDER BY id LIMIT ?"
    )
    return read_rows(db, "outbox", sql, (after, limit), delivery_of)


def find_open_delivery(db: Database, chat: Address) -> Delivery | None:
    row = db.execute(
        f"SELECT {DELIVERY} FROM outbox WHERE channel = ? AND chat = ? "
        "AND coalesce(account_id, '') = ? AND coalesce(thread_id, '') = ? "
        "AND state IN ('pending', 'sending') ORDER BY id LIMIT 1",
        (chat.channel, chat.to, chat.account_id or "", chat.thread_id or ""),
    ).fetchone()
    return row and delivery_of(row)


def find_delivery(db: Database, delivery_key: str) -> Delivery | None:
    row = db.execute(
        f"SELECT {DELIVERY} FROM outbox WHERE delivery_key = ?", (delivery_key,)
    ).fetchone()
    return row and delivery_of(row)
