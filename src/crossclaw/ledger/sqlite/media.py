"""Pictures and files: each stored once, by its hash, as long as something refers to it."""

import hashlib
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from crossclaw.domain.media import (
    Kinds,
    Media,
    SourceChange,
    carried,
    carrying,
    sources_in,
    stored_in,
    with_sources,
)
from crossclaw.domain.messages import AssistantMessage, MediaSource, Message, UserMessage
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.database import Database
from crossclaw.ledger.media import DescribeMedia, DropMedia, KeepMedia, MediaWords
from crossclaw.ledger.sqlite.writer import Transaction

_UNUSED = "NOT EXISTS (SELECT 1 FROM media_uses u WHERE u.sha256 = media.sha256)"


# ── keeping ────────────────────────────────────────────────────────────────────────────────────


def keep_media(transaction: Transaction, op: KeepMedia) -> str:
    key = _put(transaction.db, op.media, op.at)
    transaction.kept.add(key)
    if op.holder is not None:
        _name(transaction.db, op.agent_id, op.holder, key)
    return key


def _put(db: Database, media: Media, at: int) -> str:
    key = media.sha256
    db.execute(
        "INSERT INTO media (sha256, media_type, size, created_at, data) VALUES (?,?,?,?,?) "
        "ON CONFLICT (sha256) DO NOTHING",
        (key, media.media_type, len(media.data), at, media.data),
    )
    return key


def _name(db: Database, agent_id: str, holder: str, key: str) -> None:
    db.execute(
        "INSERT INTO media_uses (agent_id, holder, sha256) VALUES (?,?,?) "
        "ON CONFLICT (holder, sha256) DO NOTHING",
        (agent_id, holder, key),
    )


def waiting_holder(run_id: str) -> str:
    return f"run:{run_id}"


def keep_waiting(
    transaction: Transaction, agent_id: str, run_id: str, message: UserMessage, at: int
) -> UserMessage:
    """The message of a run as the inbox stores it: its media are stored by hash."""
    if isinstance(message.content, str) or next(sources_in(message), None) is None:
        return message
    return with_sources(
        message, partial(_kept, transaction, agent_id, waiting_holder(run_id), (), at)
    )


def keep_in_transcript(
    transaction: Transaction,
    agent_id: str,
    session_id: str,
    run_id: str | None,
    message: Message,
    at: int,
) -> Message:
    """A message as a transcript stores it: the media in it are stored by hash, and its references
    must be its run's or the session's already."""
    if isinstance(message, AssistantMessage) or (
        isinstance(message, UserMessage) and isinstance(message.content, str)
    ):
        return message  # nearly all: words carry nothing
    if next(sources_in(message), None) is None:
        return message
    before = (waiting_holder(run_id),) if run_id else ()
    kept = with_sources(message, partial(_kept, transaction, agent_id, session_id, before, at))
    for holder in before:
        transaction.db.execute("DELETE FROM media_uses WHERE holder = ?", (holder,))
    return kept


def keep_in_note(
    transaction: Transaction,
    agent_id: str,
    session_id: str,
    run_id: str | None,
    note: dict[str, Any],
    at: int,
) -> dict[str, Any]:
    """A note about a message that no model has read, with its media stored by hash."""
    message = _message_in(note)
    if message is None:
        return note
    kept = keep_in_transcript(transaction, agent_id, session_id, run_id, message, at)
    return note if kept is message else {**note, "message": msgspec.to_builtins(kept)}


def _kept(
    transaction: Transaction,
    agent_id: str,
    holder: str,
    before: Sequence[str],
    at: int,
    source: MediaSource,
) -> MediaSource:
    db = transaction.db
    if source.type == "stored":
        key = source.sha256
        if key is None or not _may_name(transaction, key, (holder, *before)):
            return MediaSource("stored", source.media_type)
        _name(db, agent_id, holder, key)
        return MediaSource("stored", source.media_type, sha256=key, size=_size_of(db, key))
    media = carried(source)
    if media is None:
        return source
    _name(db, agent_id, holder, _put(db, media, at))
    return msgspec.structs.replace(media.source, media_type=source.media_type)


def _size_of(db: Database, key: str) -> int:
    """The stored size, not the one a tool claims: what is shown of a history is bounded by it."""
    row = db.execute("SELECT size FROM media WHERE sha256 = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _may_name(transaction: Transaction, key: str, holders: Sequence[str]) -> bool:
    """Whether a message may refer to media. Knowing a hash is not enough: its holder must have had
    it before."""
    if key in transaction.kept:
        return True
    query = "SELECT 1 FROM media_uses WHERE holder = ? AND sha256 = ?"
    return any(transaction.db.execute(query, (holder, key)).fetchone() for holder in holders)


# ── removing ───────────────────────────────────────────────────────────────────────────────────


def drop_media(transaction: Transaction, op: DropMedia) -> None:
    forget_holder(transaction.db, op.holder)


def forget_holder(db: Database, holder: str) -> None:
    """Removes a holder's references to media, and media that nothing refers to any more."""
    named = db.execute("DELETE FROM media_uses WHERE holder = ? RETURNING sha256", (holder,))
    for (key,) in named.fetchall():
        db.execute(f"DELETE FROM media WHERE sha256 = ? AND {_UNUSED}", (key,))
        db.execute(
            "DELETE FROM media_words WHERE sha256 = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM media WHERE sha256 = ?1)",
            (key,),
        )


def sweep_unnamed(db: Database, before: int) -> None:
    """Deletes media of messages that turned out to be repetitions."""
    db.execute(f"DELETE FROM media WHERE created_at < ? AND {_UNUSED}", (before,))


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def find_media(db: Database, sha256: str) -> Media | None:
    row = db.execute("SELECT media_type, data FROM media WHERE sha256 = ?", (sha256,)).fetchone()
    return row and Media(row[0], row[1])


def with_media(db: Database, entries: Sequence[Entry], kinds: Kinds) -> list[Entry]:
    """The entries with the bytes of the media that they refer to."""
    change = partial(_filled, db)
    return [
        msgspec.structs.replace(
            entry,
            message=with_sources(entry.message, change, kinds),
            note=_filled_note(entry.note, change, kinds),
        )
        for entry in entries
    ]


def _filled(db: Database, source: MediaSource) -> MediaSource:
    if source.type != "stored" or source.sha256 is None:
        return source
    media = find_media(db, source.sha256)
    return (
        MediaSource("stored", source.media_type) if media is None else carrying(source, media.data)
    )


def names_media(entry: Entry, kinds: Kinds) -> bool:
    message = entry.message or _message_in(entry.note)
    return any(source.type == "stored" for source in sources_in(message, kinds))


def _message_in(note: dict[str, Any] | None) -> Message | None:
    found = note.get("message") if note else None
    if not isinstance(found, dict) or not isinstance(found.get("content"), list):
        return None
    try:
        message: Message = msgspec.convert(found, Message)
    except msgspec.ValidationError:
        return None
    return message


def _filled_note(
    note: dict[str, Any] | None, change: SourceChange, kinds: Kinds
) -> dict[str, Any] | None:
    message = _message_in(note)
    if note is None or message is None or not stored_in(message, kinds):
        return note
    return {**note, "message": msgspec.to_builtins(with_sources(message, change, kinds))}


# ── what was said about them ───────────────────────────────────────────────────────────────────


def describe_media(transaction: Transaction, op: DescribeMedia) -> None:
    transaction.db.execute(
        "INSERT INTO media_words (sha256, words, model, at) VALUES (?,?,?,?) "
        "ON CONFLICT (sha256) DO UPDATE SET words = excluded.words, model = excluded.model, "
        "at = excluded.at",
        (op.sha256, op.words, op.model, op.at),
    )


def find_media_words(db: Database, hashes: Collection[str]) -> dict[str, MediaWords]:
    rows = db.execute(
        "SELECT w.sha256, w.words, w.model FROM json_each(?) k JOIN media_words w ON w.sha256 = k.value",
        (msgspec.json.encode(list(hashes)).decode(),),
    )
    return {key: MediaWords(words, model) for key, words, model in rows}


# ── whether they are whole ─────────────────────────────────────────────────────────────────────


def check_media(row: tuple[Any, ...]) -> None:
    """Raises ValueError if the bytes are not those of the hash."""
    key, data = row
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != key:
        raise ValueError("the bytes are not those of the hash")


MEDIA_USE = "(SELECT 1 FROM media m WHERE m.sha256 = media_uses.sha256)"


def check_use(row: tuple[Any, ...]) -> None:
    if row[0] is None:
        raise ValueError("the picture or file that is named is missing")
