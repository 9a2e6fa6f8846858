"""Operations that bring in sessions of another store, as data."""

from typing import Any

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.operations import Op


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another store. `columns` are those of the row that it keeps."""

    key: SessionKey
    session_id: str
    created_at: int
    updated_at: int
    columns: dict[str, Any]
    past: bool = False
    """A transcript that its key no longer stands for."""


class ImportState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a transcript has come in."""

    size: int = 0
    bytes: int = 0
    lines: int = 0
    entries: int = 0
    last_seq: int = 0
    """Of the transcript here; beyond `entries` it was talked in since."""
    remarks: tuple[str, ...] = ()


class BeginImport(Op[ImportState | None], frozen=True):
    """The session and its transcript, made if they are not there. A key that stands for another
    transcript here keeps it; the imported one is a past one. None: this id is another session's."""

    session: ImportedSession
    path: str
    at: int


class ImportedEntry(msgspec.Struct, frozen=True):
    entry: NewEntry
    at: int


class ImportEntries(Op[None], frozen=True):
    """Entries with how far the file is read thereby. Fenced when another import went on meanwhile."""

    session_id: str
    entries: list[ImportedEntry]
    before: ImportState
    after: ImportState
