"""Migrations: numbered, each in one transaction, so that a kill in the middle leaves the version
before."""

import logging
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

import apsw

from crossclaw.domain.errors import StoreTooNew
from crossclaw.domain.messages import decode_message
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.media_moving import move_media
from crossclaw.ledger.sqlite.words import indexed_words, put_words

log = logging.getLogger(__name__)

INDEX_ROWS_BATCH = 1_000  # rows held in memory while an old store gets its search index


class Migration(NamedTuple):
    number: int
    name: str
    fill: Callable[[apsw.Connection], None] | None = None
    """Fills the new tables from the old ones."""

    @property
    def sql(self) -> str:
        file = files("crossclaw.ledger.sqlite") / "migrations" / f"{self.number:04}_{self.name}.sql"
        return file.read_text("utf-8")


def _index_all_entries(db: apsw.Connection) -> None:
    last = 0
    query = "SELECT id, body FROM entries WHERE id > ? AND type = 'message' ORDER BY id LIMIT ?"
    while rows := list(db.execute(query, (last, INDEX_ROWS_BATCH))):
        put_words(db, [(rowid, words) for rowid, body in rows if (words := _words_of(body))])
        last = rows[-1][0]


def _words_of(body: bytes) -> str:
    """The searchable words of a message; empty if it cannot be read."""
    try:
        return indexed_words(decode_message(body))
    except UNREADABLE:
        return ""


MIGRATIONS = (
    Migration(1, "core"),
    Migration(2, "search", _index_all_entries),
    Migration(3, "memory"),
    Migration(4, "imports"),
    Migration(5, "queue"),
    Migration(6, "budgets"),
    Migration(7, "chats_and_ticks"),
    Migration(8, "cascades"),
    Migration(9, "suspects"),
    Migration(10, "partners"),
    Migration(11, "elapsed"),
    Migration(12, "makers"),
    Migration(13, "agreed_tools"),
    Migration(14, "media", move_media),
    Migration(15, "channel_cursors"),
    Migration(16, "outcomes"),
    Migration(17, "approvals"),
    Migration(18, "channel_access"),
    Migration(19, "delivery_pieces"),
    Migration(20, "grants_have_a_place"),
    Migration(21, "figures"),
    Migration(22, "talk"),
)
VERSION = MIGRATIONS[-1].number


def migrate(db: apsw.Connection, upto: int = VERSION) -> None:
    found = db.pragma("user_version")
    if found > VERSION:
        raise StoreTooNew(
            f"the store has version {found}, this Crossclaw knows {VERSION}: it was written by a "
            "newer release. Upgrade Crossclaw, or point OPENCLAW_STATE_DIR to another folder; "
            "nothing was changed"
        )
    for migration in MIGRATIONS[found:upto]:
        if found:  # a new store takes no time
            log.info("the store is brought to version %d (%s)", migration.number, migration.name)
        with db:
            db.execute(migration.sql)
            if migration.fill is not None:
                migration.fill(db)
            db.pragma("user_version", migration.number)
