"""Operations that import sessions of another store."""

from typing import Any

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.operations import Op


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another store. `columns` are the columns of its row that are kept."""

    key: SessionKey
    session_id: str
    created_at: int
    updated_at: int
    columns: dict[str, Any]
    past: bool = False
    """Whether its key now has another transcript."""


class ImportState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a transcript has been imported."""

    size: int = 0
    bytes: int = 0
    lines: int = 0
    entries: int = 0
    last_seq: int = 0
    """The last seq of the transcript here; if it is beyond `entries`, the session was used
    since."""
    remarks: tuple[str, ...] = ()


class BeginImport(Op[ImportState | None], frozen=True):
    """Make the session and its transcript if they do not exist. A key that has another transcript
    here keeps it; the imported one becomes a past one. None if this id belongs to another
    session."""

    session: ImportedSession
    path: str
    at: int


class ImportedEntry(msgspec.Struct, frozen=True):
    entry: NewEntry
    at: int


class ImportEntries(Op[None], frozen=True):
    """Store entries together with how far the file has been read. Fenced if another import went on
    meanwhile."""

    session_id: str
    entries: list[ImportedEntry]
    before: ImportState
    after: ImportState
