"""Sessions of OpenClaw 2026.9, which keeps them in a database an agent.

A conversation that was begun anew (`/new`, or at its daily hour) goes on there under the same id, with a mark in between. Here
each part is a transcript of its own, so that no model reads what was to be forgotten: the first has the id, the others
`<id>-1` and so on, and the last one is the session's.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.counts import count_of
from crossclaw.domain.errors import CrossclawError, Invalid, InvalidKey
from crossclaw.ledger.imports import ImportedSession
from crossclaw.ledger.openclaw import (
    ARCHIVE_BYTES_MAX,
    AgentStore,
    StoredWindow,
)
from crossclaw.sandbox.files import read_file
from crossclaw.sessions.foreign import columns_of, is_file_name, key_of, number_of
from crossclaw.sessions.import_sources import TranscriptRows
from crossclaw.sessions.imported import FoundTranscript, ImportReport

NEWER_STORES = "agents/*/agent/openclaw-agent.sqlite"
COLD = "cold"  # below an agent's sessions: transcripts that were archived as files


def find_newer(folder: Path) -> list[Path]:
    """The agents' databases in a state folder. Links are not followed: what lies elsewhere was not asked for."""
    return sorted(
        path for path in folder.glob(NEWER_STORES) if path.is_file() and not path.is_symlink()
    )


class NewerStores:
    """The opened databases: `opened` closes them."""

    def __init__(self, report: ImportReport, opened: ExitStack) -> None:
        self._report = report
        self._opened = opened

    def find(self, folder: Path) -> Iterator[FoundTranscript]:
        for path in find_newer(folder):
            try:
                yield from self._of_store(folder, path)
            except (CrossclawError, OSError) as error:
                self._report.problem(f"{path}: {error}")

    def _of_store(self, folder: Path, path: Path) -> Iterator[FoundTranscript]:
        agent = path.parent.parent
        cold = f"{agent.relative_to(folder)}/sessions/{COLD}"
        read = partial(_read_archive, folder, cold)
        store = AgentStore(path, read)
        self._opened.callback(store.close)
        agent_id = normalize_agent_id(agent.name)
        for window in store.windows():
            try:
                yield from self._of_window(agent_id, store, path, window)
            except (CrossclawError, OverflowError, RecursionError, ValueError) as error:
                self._report.problem(f"{path}: session {window.key[:80]!r}: {error}")
        if store.damaged:
            self._report.problem(
                f"{path}: {count_of(store.damaged, 'row')} of other kinds of values"
            )
        if deleted := store.count_deleted():
            left = count_of(deleted, "transcript")
            self._report.remark(f"{path}: {left} of deleted sessions, left out")

    def _of_window(
        self, agent_id: str, store: AgentStore, path: Path, window: StoredWindow
    ) -> Iterator[FoundTranscript]:
        if not is_file_name(window.session_id):
            raise Invalid("it has no usable id")
        try:
            key, past = key_of(agent_id, window.key)
        except InvalidKey as error:
            self._report.problem(f"{path}: {error}")
            return
        entry = _entry_of(window)
        updated_at = number_of(entry.get("updatedAt")) or window.updated_at
        if window.is_archived:
            self._report.remark(f"{key} was archived there, and is an ordinary session here")
        parts = [0, *(seq + 1 for seq in store.resets(window.session_id)), None]
        for number, (first, end) in enumerate(pairwise(parts)):
            assert first is not None
            is_last = end is None
            session_id = f"{window.session_id}-{number}" if number else window.session_id
            size = store.size(window.session_id, first, end)
            session = ImportedSession(
                key=key,
                session_id=session_id,
                created_at=window.created_at,
                updated_at=updated_at,
                columns=columns_of(entry) if is_last else {},
                past=past or not is_last or not window.is_current,
            )
            rows = TranscriptRows(store, path, window.session_id, first, end, size)
            yield FoundTranscript(session, rows if size else None, size)


def _entry_of(window: StoredWindow) -> dict[str, Any]:
    entry = msgspec.json.decode(window.entry)
    if not isinstance(entry, dict):
        raise Invalid("what is known of it is no object")
    return entry


def _read_archive(folder: Path, cold: str, name: str) -> bytes | None:
    return read_file(folder, f"{cold}/{name}", ARCHIVE_BYTES_MAX) if is_file_name(name) else None
