"""Importing an OpenClaw state folder: its lines read, converted, stored and indexed, durably."""

from pathlib import Path

import anyio
import msgspec

from bench import reference
from bench.stores import Stores
from bench.work import Row, Spent, Stopwatch, Work
from crossclaw.domain.clock import SystemClock
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions.importing import Import

MANY, SHORT = 10_000, 6  # a folder of years
ONE, LONG = 1, 100_000  # and one conversation that never began anew


def a_folder(folder: Path, count: int, messages: int) -> None:
    """What OpenClaw 2026.2 leaves: so many conversations with tool calls, of so many messages each."""
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    store = {f"agent:main:bench{n}": {"sessionId": f"s{n}", "updatedAt": 1 + n} for n in range(count)}  # fmt: skip
    (sessions / "sessions.json").write_bytes(msgspec.json.encode(store))
    lines = [_line(number) for number in range(messages)]
    for number in range(count):
        header = {"type": "session", "version": 3, "id": f"s{number}"}
        body = msgspec.json.Encoder().encode_lines([header, *lines])
        (sessions / f"s{number}.jsonl").write_bytes(body)


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


async def _import(stores: Stores, count: int, messages: int) -> Spent:
    paths = stores.fresh()
    a_folder(paths.state_dir, count, messages)
    ledger = SqliteLedger(paths.ledger_path)
    watch = Stopwatch()
    report = await Import(ledger, SystemClock(), lambda *_: None).run(paths.state_dir)
    spent = watch.stop(report.messages)
    await ledger.close()
    return spent


def _work(count: int, messages: int, name: str) -> Work:
    row = Row(f"import: messages of OpenClaw, {name}", "rate", "msgs/s", bar=10_000)
    return Work(
        lambda stores: anyio.run(_import, stores, count, messages), reference.GROUPED, (row,)
    )


WORKS = (
    _work(MANY, SHORT, f"{MANY:,} sessions of {SHORT}"),
    _work(ONE, LONG, f"one session of {LONG:,}"),
)
