"""Rows of chat channels: how far each account has read, who may write, and what groups said
before."""

from collections.abc import Sequence
from typing import Any

from crossclaw.domain.addresses import SEPARATOR
from crossclaw.ledger.channels import (
    ChatPairingRequest,
    DecidePairing,
    ForgetHeard,
    HeardMessage,
    LearnFate,
    PairedSender,
    RememberHeard,
    RemovePaired,
    RequestPairing,
    SaveCursor,
)
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import PutDelivery
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.outbox import drop_files, put_delivery
from crossclaw.ledger.sqlite.pieces import go_on
from crossclaw.ledger.sqlite.writer import Transaction

_REQUEST = "channel, account_id, sender, code, sender_name, created_at, last_seen_at, expires_at"
_PAIRED = "channel, account_id, sender, sender_name, approved_at, approved_by"
_HEARD = "channel, account_id, chat, thread_id, message_id, sender, sender_name, text, at"
_OF_ACCOUNT = "channel = ? AND account_id = ?"
_OF_CHAT = "channel = ? AND account_id = ? AND chat = ? AND thread_id = ?"
# Handed to its channel, and nobody knows what became of it; or it is being sent, and the platform tells before it answers.
_UNKNOWN = "(state IN ('sending', 'uncertain') OR state = 'pending' AND tried_at IS NOT NULL)"
HEARD_ROWS_MAX = 50_000  # of all groups; the oldest go first
HEARD_ONCE = "heard"
"""The dedupe scope of group messages that are kept as context. It is not that of accepted messages:
one may still be accepted, and has no run until then."""


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
        if _learn_of_piece(transaction, op):
            return True
        row = transaction.db.execute(
            "UPDATE outbox SET state = 'delivered', error = NULL, "
            "platform_id = coalesce(?, platform_id), updated_at = ? "
            f"WHERE delivery_key = ? AND {_UNKNOWN} RETURNING id",
            (op.platform_id, op.at, op.delivery_key),
        ).fetchone()
        if row is not None:
            drop_files(transaction.db, row[0])
        return row is not None
    if (whole := _failed_piece(transaction, op)) is not None:
        return whole
    learnt = transaction.db.execute(
        "UPDATE outbox SET state = 'failed', error = ?, updated_at = ? "
        "WHERE delivery_key = ? AND state IN ('sending', 'uncertain', 'delivered') RETURNING 1",
        (op.error, op.at, op.delivery_key),
    )
    return learnt.fetchone() is not None


def _learn_of_piece(transaction: Transaction, op: LearnFate) -> bool:
    """Marks a piece as arrived. The pieces after it go out, by whoever is sending the delivery if
    somebody is."""
    whole, _, number = op.delivery_key.rpartition("#")
    if not whole or not number.isdecimal():
        return False
    row = transaction.db.execute(
        "UPDATE delivery_pieces SET state = 'delivered', platform_id = coalesce(?, platform_id) "
        f"WHERE number = ? AND {_UNKNOWN} AND delivery_id = (SELECT id FROM outbox "
        "WHERE delivery_key = ? AND state IN ('pending', 'sending', 'uncertain')) "
        "RETURNING delivery_id",
        (op.platform_id, int(number), whole),
    ).fetchone()
    if row is None:
        return False
    (state,) = transaction.get("SELECT state FROM outbox WHERE id = ?", row)
    if state == "uncertain":
        go_on(transaction, row[0], op.at)
    return True


def _failed_piece(transaction: Transaction, op: LearnFate) -> bool | None:
    """Marks one piece as failed: the others stay where they are, and a resend sends this one. None
    if there is no such piece."""
    whole, _, number = op.delivery_key.rpartition("#")
    if not whole or not number.isdecimal():
        return None
    row = transaction.db.execute(
        "UPDATE delivery_pieces SET state = 'failed' WHERE number = ? AND state <> 'pending' "
        "AND delivery_id = (SELECT id FROM outbox WHERE delivery_key = ?) RETURNING delivery_id",
        (int(number), whole),
    ).fetchone()
    if row is None:
        return None
    transaction.db.execute(
        "UPDATE outbox SET state = 'failed', error = ?, updated_at = ? "
        "WHERE id = ? AND state IN ('uncertain', 'delivered')",
        (op.error, op.at, row[0]),
    )
    return True


# ── who may talk ───────────────────────────────────────────────────────────────────────────────


def request_pairing(transaction: Transaction, op: RequestPairing) -> ChatPairingRequest | None:
    db, new = transaction.db, op.request
    place = (new.channel, new.account_id)
    db.execute("DELETE FROM pairing_requests WHERE expires_at <= ?", (new.last_seen_at,))
    known = db.execute(
        "UPDATE pairing_requests SET last_seen_at = ?, sender_name = coalesce(?, sender_name) "
        f"WHERE {_OF_ACCOUNT} AND sender = ? RETURNING {_REQUEST}",
        (new.last_seen_at, new.sender_name, *place, new.sender),
    ).fetchone()
    if known is not None:
        return _request_of(known)
    (count,) = transaction.get(f"SELECT count(*) FROM pairing_requests WHERE {_OF_ACCOUNT}", place)
    if count >= op.pending_max and not _give_way(db, place, op.gives_way_at):
        return None
    row = (
        *place,
        new.sender,
        new.code,
        new.sender_name,
        new.created_at,
        new.last_seen_at,
        new.expires_at,
    )
    db.execute(f"INSERT INTO pairing_requests ({_REQUEST}) VALUES (?,?,?,?,?,?,?,?)", row)
    for delivery in op.deliveries:
        put_delivery(transaction, PutDelivery(new=delivery, at=new.created_at))
    return new


def _give_way(db: Database, place: tuple[str, str], at: int) -> bool:
    """Removes the oldest request from before `at`; returns whether there was one."""
    gone = db.execute(
        f"DELETE FROM pairing_requests WHERE {_OF_ACCOUNT} AND sender = (SELECT sender FROM "
        f"pairing_requests WHERE {_OF_ACCOUNT} AND created_at < ? ORDER BY created_at, sender "
        "LIMIT 1) RETURNING 1",
        (*place, *place, at),
    )
    return gone.fetchone() is not None


def decide_pairing(transaction: Transaction, op: DecidePairing) -> ChatPairingRequest | None:
    row = transaction.db.execute(
        "DELETE FROM pairing_requests WHERE channel = ? AND code = ? AND expires_at > ? "
        f"AND coalesce(?, account_id) = account_id RETURNING {_REQUEST}",
        (op.channel, op.code, op.at, op.account_id),
    ).fetchone()
    if row is None:
        return None
    found = _request_of(row)
    if op.approve:
        transaction.db.execute(
            f"INSERT INTO paired_senders ({_PAIRED}) VALUES (?,?,?,?,?,?) "
            "ON CONFLICT (channel, account_id, sender) DO UPDATE SET "
            "sender_name = excluded.sender_name, "
            "approved_at = excluded.approved_at, approved_by = excluded.approved_by",
            (found.channel, found.account_id, found.sender, found.sender_name, op.at, op.by),
        )
    return found


def remove_paired(transaction: Transaction, op: RemovePaired) -> bool:
    row = transaction.db.execute(
        f"DELETE FROM paired_senders WHERE {_OF_ACCOUNT} AND sender = ? RETURNING 1",
        (op.channel, op.account_id, op.sender),
    ).fetchone()
    if row is not None and op.forgets_chats:
        for chat in {*op.chats, *_chats_with(transaction.db, op)}:
            transaction.db.execute(
                "UPDATE sessions SET last_channel = NULL, last_to = NULL, last_account_id = NULL, "
                "last_thread_id = NULL WHERE kind <> 'group' AND last_channel = ? AND last_to = ? "
                "AND coalesce(last_account_id, ?) = ?",
                (op.channel, chat, op.account_id, op.account_id),
            )
    return row is not None


def _chats_with(db: Database, op: RemovePaired) -> set[str]:
    """The chats from which somebody has written lately, from the keys of messages: channel,
    account, chat, sender and number."""
    place = SEPARATOR.join((op.channel, op.account_id, ""))
    rows = db.execute(
        "SELECT key FROM dedupe WHERE scope = 'inbound' AND substr(key, 1, ?) = ?",
        (len(place), place),
    )
    found = [key.split(SEPARATOR) for (key,) in rows]
    return {parts[2] for parts in found if len(parts) > 4 and parts[3] == op.sender}


def list_pairing_requests(db: Database, *, at: int, limit: int) -> list[ChatPairingRequest]:
    sql = (
        f"SELECT {_REQUEST} FROM pairing_requests WHERE expires_at > ? ORDER BY created_at LIMIT ?"
    )
    return read_rows(db, "pairing_requests", sql, (at, limit), _request_of)


def list_paired_senders(db: Database, *, limit: int) -> list[PairedSender]:
    rows = db.execute(
        f"SELECT {_PAIRED} FROM paired_senders ORDER BY approved_at DESC LIMIT ?", (limit,)
    )
    return [
        PairedSender(
            channel=row[0],
            account_id=row[1],
            sender=row[2],
            sender_name=row[3],
            approved_at=row[4],
            approved_by=row[5],
        )
        for row in rows
    ]


def is_paired(db: Database, channel: str, account_id: str, senders: Sequence[str]) -> bool:
    marks = ",".join("?" * len(senders))
    row = db.execute(
        f"SELECT 1 FROM paired_senders WHERE {_OF_ACCOUNT} AND sender IN ({marks})",
        (channel, account_id, *senders),
    ).fetchone()
    return row is not None


def _request_of(row: tuple[Any, ...]) -> ChatPairingRequest:
    return ChatPairingRequest(
        channel=row[0],
        account_id=row[1],
        sender=row[2],
        code=row[3],
        sender_name=row[4],
        created_at=row[5],
        last_seen_at=row[6],
        expires_at=row[7],
    )


# ── what was said in groups ────────────────────────────────────────────────────────────────────


def remember_heard(transaction: Transaction, op: RememberHeard) -> None:
    db, heard = transaction.db, op.heard
    if not _is_new(db, op):
        return
    chat = (heard.channel, heard.account_id, heard.chat, heard.thread_id)
    newest = db.execute(
        f"INSERT INTO heard_messages ({_HEARD}) VALUES (?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING RETURNING id",
        (*chat, heard.message_id, heard.sender, heard.sender_name, heard.text, heard.at),
    ).fetchone()
    if newest is None:
        return
    db.execute(
        f"DELETE FROM heard_messages WHERE {_OF_CHAT} AND id NOT IN (SELECT id FROM heard_messages "
        f"WHERE {_OF_CHAT} ORDER BY id DESC LIMIT ?)",
        (*chat, *chat, op.keep),
    )
    db.execute("DELETE FROM heard_messages WHERE id <= ?", (newest[0] - HEARD_ROWS_MAX,))


def _is_new(db: Database, op: RememberHeard) -> bool:
    """Whether its platform sends it for the first time."""
    once = op.dedupe
    accepted = db.execute(
        "SELECT 1 FROM dedupe WHERE scope = ? AND key = ?", (once.scope, once.key)
    ).fetchone()
    if accepted is not None:
        return False
    made = db.execute(
        "INSERT INTO dedupe (scope, key, agent_id, digest, run_id, at) VALUES (?,?,'',?,'',?) "
        "ON CONFLICT (scope, key) DO NOTHING RETURNING 1",
        (HEARD_ONCE, once.key, once.digest, op.at),
    )
    return made.fetchone() is not None


def forget_heard(transaction: Transaction, op: ForgetHeard) -> None:
    chat = (op.channel, op.account_id, op.chat, op.thread_id)
    for message_id in op.message_ids:
        transaction.db.execute(
            f"DELETE FROM heard_messages WHERE {_OF_CHAT} AND message_id = ?", (*chat, message_id)
        )


def list_heard(
    db: Database, channel: str, account_id: str, chat: str, thread_id: str, *, limit: int
) -> list[HeardMessage]:
    rows = db.execute(
        f"SELECT {_HEARD} FROM heard_messages WHERE {_OF_CHAT} ORDER BY id DESC LIMIT ?",
        (channel, account_id, chat, thread_id, limit),
    ).fetchall()
    return [
        HeardMessage(
            channel=row[0],
            account_id=row[1],
            chat=row[2],
            thread_id=row[3],
            message_id=row[4],
            sender=row[5],
            sender_name=row[6],
            text=row[7],
            at=row[8],
        )
        for row in reversed(rows)
    ]
