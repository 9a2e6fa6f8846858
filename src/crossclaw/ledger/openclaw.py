"""OpenClaw's own databases, as its release 2026.9 keeps them, read and never written.

    <state>/agents/<agent>/agent/openclaw-agent.sqlite   sessions and transcripts, an agent's keys (schema 23)
    <state>/state/openclaw.sqlite                        jobs, keys of all agents, pairing of chats (schema 18)

Looked up in the schemas that openclaw 2026.9.6 makes (npm, 2026-11-16). A transcript is rows of JSON, the same lines that older
releases wrote into files; long ones may be compressed, and old ones archived whole.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from crossclaw.disk.zstd import zstd
from crossclaw.domain.errors import Invalid

SHARED_STORE = "state/openclaw.sqlite"
EVENT_BYTES_MAX = 4 * 2**20  # as OpenClaw's own: a longer event is not compressed
ARCHIVE_BYTES_MAX = 2**30  # of one archived transcript; a gigabyte is a million messages
ROW_BYTES_MAX = 2**28  # an archive in its row; what is longer is not read at all
BUSY_MS = 5_000

T = TypeVar("T")

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
    "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
    False: "SELECT seq, event_json, NULL FROM transcript_events "
    "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
}


class StoredWindow(NamedTuple):
    """One transcript of a session: the current one, or an earlier one."""

    session_id: str
    key: str
    entry: bytes
    """OpenClaw's data about the session, as JSON."""
    is_current: bool
    created_at: int
    updated_at: int
    is_archived: bool


class StoredEvent(NamedTuple):
    seq: int
    line: bytes
    left: bool
    """Whether it is on a branch that the conversation has left: it was rewound or said anew."""


class _Foreign:
    """Another program's database, open for reading. Nothing is written there. Without a log beside
    it the file is read directly, and SQLite creates no files for it; a running program has a log,
    which is read with it."""

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
        self._db.limit(apsw.SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX)
        self.damaged = 0
        """The number of rows with values of other types than OpenClaw's, which SQLite lets anybody
        write."""
        names = self.rows(tuple[str], "SELECT name FROM sqlite_schema WHERE type = 'table'")
        self.tables = frozenset(name for (name,) in names)

    def rows(self, kind: type[T], sql: str, values: tuple[Any, ...] = ()) -> list[T]:
        return list(self.each(kind, sql, values))

    def texts(self, table: str, sql: str) -> list[bytes]:
        """The texts of a table that an older store may not have."""
        rows = self.rows(tuple[str], sql) if table in self.tables else []
        return [text.encode() for (text,) in rows]

    def each(self, kind: type[T], sql: str, values: tuple[Any, ...] = ()) -> Iterator[T]:
        """Yields one row after the other; one that is not of this type is left out and counted."""
        try:
            for row in self._db.execute(sql, values):
                try:
                    yield msgspec.convert(row, kind)
                except msgspec.ValidationError:
                    self.damaged += 1
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _unreadable(error) from error

    def close(self) -> None:
        self._db.close()


def _unreadable(error: Exception) -> Invalid:
    return Invalid(f"it cannot be read as a database of OpenClaw 2026.9: {error}")


def _quoted(path: Path) -> str:
    """The path as part of a URI. Links in its folders are resolved here, so that none is followed
    later."""
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
        """Opens the store. `read_archive` finds an archived transcript by its file name."""
        super().__init__(path)
        self._read_archive = read_archive
        if missing := _NEEDED - self.tables:
            self.close()
            raise Invalid(
                f"a layout between 2026.2 and 2026.9 (it has no {', '.join(sorted(missing))}); start OpenClaw 2026.9 "
                "once with it, or run openclaw doctor there, which brings it up to date"
            )
        names = self.rows(tuple[str], "SELECT name FROM pragma_table_info('transcript_events')")
        self._is_packed = ("event_zstd",) in names

    def windows(self) -> list[StoredWindow]:
        rows = self.rows(tuple[str, str, str, int, int, int, int], _SESSION)
        return [
            StoredWindow(sid, key, entry.encode(), bool(current), created, updated, bool(away))
            for sid, key, entry, current, created, updated, away in rows
        ]

    def resets(self, session_id: str) -> list[int]:
        """The rows after which a conversation was begun anew in the same transcript."""
        if "transcript_event_identities" not in self.tables:
            return []
        found = self.rows(
            tuple[int],
            "SELECT seq FROM transcript_event_identities WHERE session_id = ? AND event_type = 'reset' "
            "ORDER BY seq",
            (session_id,),
        )
        return [seq for (seq,) in found]

    def size(self, session_id: str, first: int, end: int | None) -> int:
        """The stored size of these rows in bytes."""
        archive = self._archive(session_id)
        if archive is not None:
            return archive.size
        (size,) = self.rows(
            tuple[int],
            _SIZE[self._is_packed],
            (session_id, first, end if end is not None else 2**62),
        )[0]
        return size

    def events(self, session_id: str, first: int, end: int | None) -> Iterator[StoredEvent]:
        if self._archive(session_id) is not None:
            yield from self._from_archive(session_id)
            return
        left = self._left(session_id)
        rows = self.each(
            tuple[int, Any, Any],
            _EVENTS[self._is_packed],
            (session_id, first, end if end is not None else 2**62),
        )
        for seq, text, packed in rows:
            line = text.encode() if isinstance(text, str) else b"?"  # read, and told as no JSON
            if text is None and isinstance(packed, bytes):
                line = _unpacked(packed, EVENT_BYTES_MAX)
            yield StoredEvent(seq, line, seq in left)

    def _left(self, session_id: str) -> frozenset[int]:
        """The rows beside the path that the conversation took, if OpenClaw's list of it is up to
        date."""
        if (
            not {"session_transcript_active_events", "session_transcript_index_state"}
            <= self.tables
        ):
            return frozenset()
        known = self.rows(
            tuple[int | None],
            "SELECT indexed_seq >= (SELECT max(seq) FROM transcript_events WHERE session_id = ?1) AND NOT needs_rebuild "
            "FROM session_transcript_index_state WHERE session_id = ?1",
            (session_id,),
        )
        if not known or not known[0][0]:
            return frozenset()
        rows = self.rows(
            tuple[int],
            "SELECT seq FROM transcript_events e WHERE session_id = ?1 AND seq > 0 AND NOT EXISTS (SELECT 1 FROM "
            "session_transcript_active_events a WHERE a.session_id = ?1 AND a.event_seq = e.seq)",
            (session_id,),
        )
        return frozenset(seq for (seq,) in rows)

    def _archive(self, session_id: str) -> "_Archive | None":
        if "session_transcript_cold_archives" not in self.tables:
            return None
        rows = self.rows(
            tuple[int, str, str, bytes | None],
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
            raise Invalid(f"the archive {found.name} is missing, or is not what was archived")
        for raw in _unpacked(data, ARCHIVE_BYTES_MAX).splitlines():
            try:
                record = msgspec.json.decode(raw, type=_ColdRecord)
                if record.kind != "event":
                    continue
                row = msgspec.convert(record.row, _ColdEvent)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Invalid(f"the archive {found.name} cannot be read: {error}") from None
            yield StoredEvent(row.seq, row.event_json.encode(), False)

    def profiles(self) -> list[bytes]:
        """OpenClaw's lists of keys for model services (auth profiles), as JSON."""
        return self.texts("auth_profile_store", "SELECT store_json FROM auth_profile_store")

    def count_deleted(self) -> int:
        """The number of transcripts of deleted or reset sessions, which OpenClaw keeps for a
        while."""
        if "session_transcript_archives" not in self.tables:
            return 0
        return self.rows(tuple[int], "SELECT count(*) FROM session_transcript_archives")[0][0]


class _Archive(NamedTuple):
    size: int
    name: str
    sha256: str
    data: bytes | None
    """The archived transcript; None if it is in a file."""


class ChatAccess(NamedTuple):
    """A person on a chat platform who was let in, or has asked for it."""

    channel: str
    account_id: str
    sender: str
    code: str | None = None
    """The code of a request that nobody has answered yet."""


class SharedStore(_Foreign):
    """The database that all agents share."""

    def jobs(self) -> list[tuple[bytes, bytes]]:
        """Each job and its state, as JSON; without those that OpenClaw makes for itself."""
        if "cron_jobs" not in self.tables:
            return []
        rows = self.rows(
            tuple[str, str],
            "SELECT job_json, state_json FROM cron_jobs WHERE declaration_key IS NULL ORDER BY sort_order, job_id",
        )
        return [(job.encode(), state.encode()) for job, state in rows]

    def profiles(self) -> list[bytes]:
        """OpenClaw's lists of keys for model services (auth profiles), as JSON."""
        if "config_machine_state" not in self.tables:
            return []
        rows = self.rows(
            tuple[Any, ...],
            "SELECT * FROM config_machine_state WHERE state_key = 'authProfiles.store'",
        )
        return [row[1].encode() for row in rows if len(row) > 1 and isinstance(row[1], str)]

    def approvals(self) -> list[bytes]:
        """The commands that were allowed, as JSON."""
        return self.texts(
            "exec_approvals_config", "SELECT raw_json FROM exec_approvals_config LIMIT 100"
        )

    def chat_access(self) -> list[ChatAccess]:
        found: list[ChatAccess] = []
        if "channel_pairing_allow_entries" in self.tables:
            rows = self.rows(
                tuple[str, str, str],
                "SELECT channel_key, account_id, entry FROM channel_pairing_allow_entries "
                "ORDER BY channel_key, account_id, sort_order",
            )
            found += [ChatAccess(*row) for row in rows]
        if "channel_pairing_requests" in self.tables:
            asked = self.rows(
                tuple[str, str, str, str],
                "SELECT channel_key, account_id, request_id, code FROM channel_pairing_requests "
                "ORDER BY channel_key, account_id, created_at",
            )
            found += [ChatAccess(*row) for row in asked]
        return found


class _ColdRecord(msgspec.Struct):
    kind: str
    row: dict[str, Any] | None = None


class _ColdEvent(msgspec.Struct):
    seq: int
    event_json: str


def _unpacked(data: bytes, limit: int) -> bytes:
    """The decompressed data. Its length is bounded: short data may be made to fill the memory."""
    module = zstd()
    try:
        unpacking = module.ZstdDecompressor()
        text: bytes = unpacking.decompress(data, max_length=limit + 1)
    except module.ZstdError as error:
        raise Invalid(f"what is compressed cannot be read: {error}") from None
    if len(text) > limit or not unpacking.eof:
        raise Invalid(f"what is compressed is longer than {limit} bytes, or cut off")
    return text
