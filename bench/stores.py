"""Stores: folders with a ledger in them, empty or filled, that last for one run of the benchmarks.

They are filled by SQL in one transaction, because a million sessions made step by step would take half an hour.
The schema decides how the rows look; the benchmarks notice if it changes.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from crossclaw.config import Paths
from crossclaw.domain.figures import HOUR_MS, Figures
from crossclaw.domain.messages import AssistantMessage, Message, Text, Usage, UserMessage
from crossclaw.domain.messages import encode_message as encode
from crossclaw.ledger.sqlite.store import open_writer
from crossclaw.ledger.sqlite.words import indexed_words, put_words

SESSIONS_MANY, SESSIONS_MANY_QUICK = 1_000_000, 100_000
ENTRIES = 100_000
ENTRIES_PER_BATCH = 10_000  # some 10 MB of rows in memory
LONG_SESSION = "long"
COMMON, RARE = "common", "rare"  # a word of every entry, and one of every thousandth
FILL_CACHE_KB = 400_000  # the indexes of a million sessions are filled in no order: they must fit
BEGIN_MS = 1_767_268_800_000
YEAR_MS = 365 * 24 * HOUR_MS


class Stores:
    """The stores, built when first asked for, then shared by all that only read them."""

    def __init__(self, folder: Path, *, quick: bool = False) -> None:
        self._folder = folder
        self._built: dict[str, Path] = {}
        self.building_s = 0.0
        self.many = SESSIONS_MANY_QUICK if quick else SESSIONS_MANY

    def fresh(self) -> Paths:
        return _paths(self._next_folder())

    def scratch(self) -> Path:
        """A folder for work without the gateway, on the same disk."""
        folder = self._next_folder()
        folder.mkdir()
        return folder

    def with_sessions(self, count: int) -> Paths:
        return self._filled(f"{count} sessions", lambda db: fill_sessions(db, count))

    def with_entries(self) -> Paths:
        return self._filled("entries", fill_entries)

    def with_turns(self, count: int) -> Paths:
        """The figures that so many turns of the last year have left."""
        return self._filled(f"{count} turns", lambda db: fill_figures(db, count))

    def with_transcripts(self, sessions: int, entries_each: int) -> Paths:
        """A store with transcripts, made anew each time and without an exported copy: whoever opens it changes it."""
        paths = self.fresh()
        self._build(paths, lambda db: fill_transcripts(db, sessions, entries_each))
        return paths

    def _filled(self, name: str, fill: Callable[[apsw.Connection], None]) -> Paths:
        if name not in self._built:
            paths = self.fresh()
            self._build(paths, fill)
            self._built[name] = paths.home
        return _paths(self._built[name])

    def _build(self, paths: Paths, fill: Callable[[apsw.Connection], None]) -> None:
        began = time.perf_counter()
        paths.state_dir.mkdir(parents=True)
        db = open_writer(paths.ledger_path)
        for name, value in (("journal_mode", "off"), ("synchronous", "off")):
            db.pragma(name, value)
        db.pragma("cache_size", -FILL_CACHE_KB)
        with db:
            fill(db)
        db.pragma("journal_mode", "wal")
        db.close()
        self.building_s += time.perf_counter() - began

    def _next_folder(self) -> Path:
        return self._folder / f"{len(list(self._folder.iterdir())):03}"


def _paths(folder: Path) -> Paths:
    folder.mkdir(exist_ok=True)
    return Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")


# ── filling ────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = (
    "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) "
)
_AGENT = "'agent' || (n % 8)"
_KEY = f"'agent:' || {_AGENT} || ':chat' || n"


def fill_sessions(db: apsw.Connection, count: int) -> None:
    """Adds sessions, each with a run that has ended. The order in which they were last used is not the order
    in which they were made, so the newest ones lie far apart, as in real use."""
    db.execute(
        f"{_NUMBERS} INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at, "
        f"updated_at, channel, display_name) SELECT {_AGENT}, {_KEY}, printf('%032x', n), 'other', "
        "'direct', ?2 + n, ?2 + n * 7919 % 1000003, 'telegram', 'Person ' || n FROM numbers",
        (count, BEGIN_MS),
    )
    db.execute(
        f"{_NUMBERS} INSERT INTO transcripts (session_id, agent_id, key, created_at) "
        f"SELECT printf('%032x', n), {_AGENT}, {_KEY}, ?2 + n FROM numbers",
        (count, BEGIN_MS),
    )
    db.execute(
        f"{_NUMBERS} INSERT INTO runs (agent_id, run_id, key, session_id, kind, status, plan, "
        f"authority, cause, created_at, ended_at) SELECT {_AGENT}, 'run' || n, {_KEY}, "
        "printf('%032x', n), 'chat', 'ok', '{}', '{}', '{}', ?2, ?2 FROM numbers",
        (count, BEGIN_MS),
    )


def fill_figures(db: apsw.Connection, count: int) -> None:
    """Adds a year of turns, at every hour, of eight agents on three models and four channels: summed up by
    the hour."""
    sums = ", ".join(
        "0" if name in ("failed", "stopped") else "count(*)" for name in Figures._fields
    )
    hour = f"?2 + n * {YEAR_MS} / ?1 / {HOUR_MS} * {HOUR_MS}"
    db.execute(
        f"{_NUMBERS} INSERT INTO figures SELECT 60, {hour}, {_AGENT}, 'model' || (n % 3), "
        f"'channel' || (n % 4), 0, {sums} FROM numbers GROUP BY {hour}, n % 8, n % 3, n % 4",
        (count, BEGIN_MS),
    )


def fill_entries(db: apsw.Connection) -> None:
    """Adds one transcript of many messages, all of them in the search index."""
    fill_transcripts(db, 1, ENTRIES)


def fill_transcripts(db: apsw.Connection, sessions: int, entries_each: int) -> None:
    for number in range(sessions):
        session_id = LONG_SESSION if sessions == 1 else f"{LONG_SESSION}-{number}"
        db.execute(
            "INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at, updated_at)"
            " VALUES ('main', ?, ?, 'other', 'direct', ?3, ?3)",
            (f"agent:main:{session_id}", session_id, BEGIN_MS),
        )
        db.execute(
            "INSERT INTO transcripts (session_id, agent_id, key, created_at, last_seq) "
            "VALUES (?, 'main', ?, ?, ?)",
            (session_id, f"agent:main:{session_id}", BEGIN_MS, entries_each),
        )
        for first in range(1, entries_each + 1, ENTRIES_PER_BATCH):
            last = min(first + ENTRIES_PER_BATCH, entries_each + 1)
            _fill_entries(db, session_id, range(first, last))


def _fill_entries(db: apsw.Connection, session_id: str, seqs: range) -> None:
    (last_id,) = db.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone() or (0,)
    messages = list(_messages(seqs))
    db.executemany(
        "INSERT INTO entries (id, agent_id, session_id, seq, entry_id, at, type, role, body) "
        "VALUES (?, 'main', ?, ?, ?, ?, 'message', ?, ?)",
        [
            (id, session_id, seq, f"{seq:08x}", BEGIN_MS + seq, role, encode(message))
            for id, (seq, role, message) in enumerate(messages, start=last_id + 1)
        ],
    )
    words = [indexed_words(message) for _, _, message in messages]
    put_words(db, list(enumerate(words, start=last_id + 1)))


def _messages(seqs: range) -> Iterator[tuple[int, str, Message]]:
    pick = random.Random(seqs.start)
    for seq in seqs:
        text = " ".join(f"word{pick.randrange(5_000)}" for _ in range(20))
        text += f" {COMMON}" + (f" {RARE}" if seq % 1_000 == 0 else "")
        if seq % 2:
            yield seq, "user", UserMessage(text, BEGIN_MS + seq)
        else:
            yield seq, "assistant", answer(text)


def answer(text: str) -> AssistantMessage:
    return AssistantMessage([Text(text)], usage=Usage(120, 40), stop_reason="end_turn")
