"""Importing an OpenClaw state folder: its lines read, converted, stored and indexed, durably."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import msgspec

from bench import reference
from bench.stores import Stores
from bench.work import Row, Spent, Stopwatch, Work
from crossclaw.domain.clock import SystemClock
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions.importing import Import

MakeFolder = Callable[[Path, int, int], None]

MANY, SHORT = 10_000, 6  # a folder of years
ONE, LONG = 1, 100_000  # and one conversation that never began anew


def a_folder(folder: Path, count: int, messages: int) -> None:
    """Makes a folder as OpenClaw 2026.2 leaves it: so many conversations with tool calls, of so many messages
    each."""
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    store = {f"agent:main:bench{n}": {"sessionId": f"s{n}", "updatedAt": 1 + n} for n in range(count)}  # fmt: skip
    (sessions / "sessions.json").write_bytes(msgspec.json.encode(store))
    lines = [_line(number) for number in range(messages)]
    for number in range(count):
        header = {"type": "session", "version": 3, "id": f"s{number}"}
        body = msgspec.json.Encoder().encode_lines([header, *lines])
        (sessions / f"s{number}.jsonl").write_bytes(body)


_NEWER = """
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT, archived_at INTEGER);
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER, event_zstd BLOB,
  PRIMARY KEY (session_id, seq));
"""


def a_newer_folder(folder: Path, count: int, messages: int) -> None:
    """Makes the same as OpenClaw 2026.9 leaves it, as far as an import looks at it."""
    store = folder / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    store.parent.mkdir(parents=True)
    lines = [(number, msgspec.json.encode(_line(number)).decode()) for number in range(messages)]
    with closing(apsw.Connection(str(store))) as db, db:
        db.execute(_NEWER)
        for number in range(count):
            session_id, key = f"s{number}", f"agent:main:bench{number}"
            entry = msgspec.json.encode({"sessionId": session_id, "updatedAt": 1 + number}).decode()
            db.execute("INSERT INTO session_nodes VALUES (?,?,?,NULL)", (key, session_id, entry))
            db.execute("INSERT INTO session_windows VALUES (?,?,1,1)", (session_id, key))
            db.executemany(
                "INSERT INTO transcript_events VALUES (?,?,?,1,NULL)",
                [(session_id, seq, text) for seq, text in lines],
            )


def _line(number: int) -> dict[str, object]:
    at = 1_770_000_000_000 + number * 1_000
    usage = {"input": 900, "output": 30, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.01}}
    bodies: list[dict[str, object]] = [
        {"role": "user", "content": f"What does the calendar say about day {number}?"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "toolCall",
                    "id": f"c{number}",
                    "name": "calendar",
                    "arguments": {"day": number},
                }
            ],
            "usage": usage,
            "stopReason": "toolUse",
        },
        {
            "role": "toolResult",
            "toolCallId": f"c{number - 1}",
            "toolName": "calendar",
            "content": [{"type": "text", "text": "09:00 dentist, 11:00 call, 13:00 lunch"}],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Free from two o'clock on; a walk fits in."}],
            "usage": usage,
            "stopReason": "stop",
        },
    ]
    message = {"timestamp": at, **bodies[number % 4]}
    return {
        "type": "message",
        "id": f"{number:08x}",
        "timestamp": "2026-02-08T13:37:01.007Z",
        "message": message,
    }


async def _import(stores: Stores, make: MakeFolder, count: int, messages: int) -> Spent:
    paths = stores.fresh()
    make(paths.state_dir, count, messages)
    ledger = SqliteLedger(paths.ledger_path)
    watch = Stopwatch()
    report = await Import(ledger, SystemClock(), lambda *_: None).run(paths.state_dir)
    spent = watch.stop(report.messages)
    await ledger.close()
    return spent


def _work(count: int, messages: int, name: str, age: str = "", make: MakeFolder = a_folder) -> Work:
    row = Row(f"import: messages of OpenClaw{age}, {name}", "rate", "msgs/s", bar=10_000)
    return Work(
        lambda stores: anyio.run(_import, stores, make, count, messages), reference.GROUPED, (row,)
    )


WORKS = (
    _work(MANY, SHORT, f"{MANY:,} sessions of {SHORT}"),
    _work(ONE, LONG, f"one session of {LONG:,}"),
    _work(MANY, SHORT, f"{MANY:,} sessions of {SHORT}", " 2026.9", a_newer_folder),
    _work(ONE, LONG, f"one session of {LONG:,}", " 2026.9", a_newer_folder),
)
