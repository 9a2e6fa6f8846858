"""OpenClaw's own databases, as its release 2026.9 keeps them, read and never written.

    <state>/agents/<agent>/agent/openclaw-agent.sqlite   sessions and transcripts, an agent's keys (schema 23)
    <state>/state/openclaw.sqlite                        jobs, keys of all agents, pairing of chats (schema 18)

Looked up in the schemas that openclaw 2026.9.6 makes (npm, 2026-11-16). A transcript is rows of JSON, the same lines that older
releases wrote into files; long ones may be compressed, and old ones put away whole.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from crossclaw.disk.zstd import zstd
from crossclaw.domain.errors import Invalid

AGENT_STORE = "openclaw-agent.sqlite"
SHARED_STORE = "state/openclaw.sqlite"
EVENT_BYTES_MAX = 4 * 2**20  # as OpenClaw's own: a longer event is not compressed
ARCHIVE_BYTES_MAX = 2**30  # of one transcript that was put away; a gigabyte is a million messages
ROWS_AT_ONCE = 1_000
BUSY_MS = 5_000

_NEEDED = frozenset({"session_nodes", "session_windows", "transcript_events"})
_SESSION = (
    "SELECT w.session_id, w.session_key, n.entry_json, w.session_id = n.current_session_id, "
    "w.created_at, w.updated_at, n.archived_at IS NOT NULL "
    "FROM session_windows w JOIN session_nodes n USING (session_key) ORDER BY w.session_key, w.created_at"
)


_SIZE = {  # with a column for what is compressed, and without
    True: "SELECT coalesce(sum(octet_length(coalesce(event_json, event_zstd))), 0) FROM transcript_events "
    "WHERE session_id = ? AND seq >= ? AND seq < ?",
    False: "SELECT coalesce(sum(octet_length(event_json)), 0) FROM transcript_events "
    "WHERE session_id = ? AND seq >= ? AND seq < ?",
}
_EVENTS = {
    True: "SELECT seq, event_json, event_zstd FROM transcript_events "
    "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq LIMIT ?",
    False: "SELECT seq, event_json, NULL FROM transcript_events "
    "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq LIMIT ?",
}


class StoredWindow(NamedTuple):
    """One transcript of a session: the one that it stands for, or an earlier one."""

    session_id: str
    key: str
    entry: bytes
    """What OpenClaw knows of the session, as JSON."""
    is_current: bool
    created_at: int
    updated_at: int
    is_archived: bool


class StoredEvent(NamedTuple):
    seq: int
    line: bytes
    left: bool
    """It stands on a branch that the conversation has left: it was rewound or said anew."""


class _Foreign:
    """A database of somebody else's, open for reading. Nothing is written there. Without a log beside it the file is
    taken as it stands, and SQLite makes no files for it; a program that runs has a log, which is read with it."""

    def __init__(self, path: Path) -> None:
        log = path.with_name(path.name + "-wal")
        still = "" if log.exists() and log.stat().st_size else "&immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
        try:
            self._db = apsw.Connection(f"file:{_quoted(path)}?mode=ro{still}", flags=flags)
        except apsw.Error as error:
            raise _unreadable(error) from error
        self._db.set_busy_timeout(BUSY_MS)
        self._db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        names = self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")
        self.tables = frozenset(str(name) for (name,) in names)

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql, values).fetchall()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _unreadable(error) from error

    def close(self) -> None:
        self._db.close()


def _unreadable(error: Exception) -> Invalid:
    return Invalid(f"it cannot be read as a database of OpenClaw 2026.9: {error}")


def _quoted(path: Path) -> str:
    """As a part of an address; where links lead is decided before, so that none is followed in the file's name."""
    real = path.parent.resolve() / path.name
    return "".join(
        sign if sign.isalnum() or sign in "/._-~" else "".join(f"%{b:02x}" for b in sign.encode())
        for sign in str(real)
    )


class AgentStore(_Foreign):
    """The sessions of one agent."""

    def __init__(
        self, path: Path, read_archive: Callable[[str], bytes | None] = lambda name: None
    ) -> None:
        """`read_archive` finds what was put away as a file, by its name."""
        super().__init__(path)
        self._read_archive = read_archive
        if missing := _NEEDED - self.tables:
            self.close()
            raise Invalid(
                f"a layout between 2026.2 and 2026.9 (it has no {', '.join(sorted(missing))}); start OpenClaw 2026.9 "
                "once with it, or run openclaw doctor there, which brings it up to date"
            )
        names = {row[1] for row in self.rows("PRAGMA table_info(transcript_events)")}
        self._is_packed = "event_zstd" in names

    def windows(self) -> list[StoredWindow]:
        return [
            StoredWindow(sid, key, entry.encode(), bool(current), created, updated, bool(away))
            for sid, key, entry, current, created, updated, away in self.rows(_SESSION)
        ]

    def resets(self, session_id: str) -> list[int]:
        """After which rows a conversation was begun anew in the same transcript."""
        if "transcript_event_identities" not in self.tables:
            return []
        found = self.rows(
            "SELECT seq FROM transcript_event_identities WHERE session_id = ? AND event_type = 'reset' "
            "ORDER BY seq",
            (session_id,),
        )
        return [seq for (seq,) in found]

    def size(self, session_id: str, first: int, end: int | None) -> int:
        """Bytes of these rows as they lie there."""
        archive = self._archive(session_id)
        if archive is not None:
            return archive.size
        (size,) = self.rows(
            _SIZE[self._is_packed],
            (session_id, first, end if end is not None else 2**62),
        )[0]
        return int(size)

    def events(self, session_id: str, first: int, end: int | None) -> Iterator[StoredEvent]:
        if self._archive(session_id) is not None:
            yield from self._from_archive(session_id)
            return
        begin, left = first, self._left(session_id)
        while True:
            rows = self.rows(
                _EVENTS[self._is_packed],
                (session_id, begin, end if end is not None else 2**62, ROWS_AT_ONCE),
            )
            for seq, text, packed in rows:
                line = text.encode() if text is not None else _unpacked(packed, EVENT_BYTES_MAX)
                yield StoredEvent(seq, line, seq in left)
            if len(rows) < ROWS_AT_ONCE:
                return
            begin = rows[-1][0] + 1

    def _left(self, session_id: str) -> frozenset[int]:
        """Rows beside the path that the conversation took, where OpenClaw's list of it is up to date."""
        if (
            not {"session_transcript_active_events", "session_transcript_index_state"}
            <= self.tables
        ):
            return frozenset()
        known = self.rows(
            "SELECT indexed_seq >= (SELECT max(seq) FROM transcript_events WHERE session_id = ?1) AND NOT needs_rebuild "
            "FROM session_transcript_index_state WHERE session_id = ?1",
            (session_id,),
        )
        if not known or not known[0][0]:
            return frozenset()
        rows = self.rows(
            "SELECT seq FROM transcript_events e WHERE session_id = ?1 AND seq > 0 AND NOT EXISTS (SELECT 1 FROM "
            "session_transcript_active_events a WHERE a.session_id = ?1 AND a.event_seq = e.seq)",
            (session_id,),
        )
        return frozenset(seq for (seq,) in rows)

    def _archive(self, session_id: str) -> "_Archive | None":
        if "session_transcript_cold_archives" not in self.tables:
            return None
        rows = self.rows(
            "SELECT archive_bytes, archive_name, archive_sha256, archive_blob FROM session_transcript_cold_archives "
            "WHERE session_id = ?",
            (session_id,),
        )
        return _Archive(*rows[0]) if rows else None

    def _from_archive(self, session_id: str) -> Iterator[StoredEvent]:
        found = self._archive(session_id)
        assert found is not None
        data = found.data if found.data is not None else self._read_archive(found.name)
        if data is None or sha256(data).hexdigest() != found.sha256:
            raise Invalid(f"the archive {found.name} is missing, or is not what was put away")
        for raw in _unpacked(data, ARCHIVE_BYTES_MAX).splitlines():
            record = msgspec.json.decode(raw, type=_ColdRecord)
            if record.kind == "event" and record.row:
                yield StoredEvent(record.row["seq"], record.row["event_json"].encode(), False)

    def profiles(self) -> list[bytes]:
        """Lists of keys, as JSON."""
        if "auth_profile_store" not in self.tables:
            return []
        return [text.encode() for (text,) in self.rows("SELECT store_json FROM auth_profile_store")]

    def count_deleted(self) -> int:
        """Transcripts of sessions that were deleted or reset, which are kept there for a while."""
        if "session_transcript_archives" not in self.tables:
            return 0
        return int(self.rows("SELECT count(*) FROM session_transcript_archives")[0][0])


class _Archive(NamedTuple):
    size: int
    name: str
    sha256: str
    data: bytes | None
    """None: it lies in a file."""


class ChatAccess(NamedTuple):
    """Who of a chat platform was let in, or has asked for it."""

    channel: str
    account_id: str
    sender: str
    code: str | None = None
    """Of a request that nobody has answered yet."""


class SharedStore(_Foreign):
    """What all agents have in common."""

    def jobs(self) -> list[tuple[bytes, bytes]]:
        """Each job and how it stands, as JSON; without those that OpenClaw makes for itself."""
        if "cron_jobs" not in self.tables:
            return []
        rows = self.rows(
            "SELECT job_json, state_json FROM cron_jobs WHERE declaration_key IS NULL ORDER BY sort_order, job_id"
        )
        return [(job.encode(), state.encode()) for job, state in rows]

    def profiles(self) -> list[bytes]:
        """Lists of keys, as JSON."""
        if "config_machine_state" not in self.tables:
            return []
        rows = self.rows(
            "SELECT * FROM config_machine_state WHERE state_key = 'authProfiles.store'"
        )
        return [row[1].encode() for row in rows]

    def chat_access(self) -> list[ChatAccess]:
        found: list[ChatAccess] = []
        if "channel_pairing_allow_entries" in self.tables:
            rows = self.rows(
                "SELECT channel_key, account_id, entry FROM channel_pairing_allow_entries "
                "ORDER BY channel_key, account_id, sort_order"
            )
            found += [ChatAccess(*row) for row in rows]
        if "channel_pairing_requests" in self.tables:
            rows = self.rows(
                "SELECT channel_key, account_id, request_id, code FROM channel_pairing_requests "
                "ORDER BY channel_key, account_id, created_at"
            )
            found += [ChatAccess(*row) for row in rows]
        return found


class _ColdRecord(msgspec.Struct):
    kind: str
    row: dict[str, Any] | None = None


def _unpacked(data: bytes, limit: int) -> bytes:
    """What a short text may become is bounded: it may have been made to fill the memory."""
    module = zstd()
    try:
        unpacking = module.ZstdDecompressor()
        text: bytes = unpacking.decompress(data, max_length=limit + 1)
    except module.ZstdError as error:
        raise Invalid(f"what is compressed cannot be read: {error}") from None
    if len(text) > limit or not unpacking.eof:
        raise Invalid(f"what is compressed is longer than {limit} bytes, or cut off")
    return text
