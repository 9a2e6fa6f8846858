"""Sheets: all details of one session, in words and not in the names of the wire."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from crossclaw.cli.tables import ago

SheetRow = dict[str, Any]


def sheet(row: SheetRow, line: SheetRow, state: str, now_ms: float) -> list[tuple[str, object]]:
    """`line` is the same session in the table. What is not known or not set is left out."""
    kind = line.get("kind") or row.get("kind")
    fields = {
        "session": row["key"],
        "name": row.get("label") or row.get("displayName"),
        "id": row.get("sessionId"),
        "kind": " · ".join(filter(None, (kind, row.get("channel")))),
        "state": state + (", the last run was aborted" if row.get("abortedLastRun") else ""),
        "updated": _moment(row.get("updatedAt"), now_ms),
        "model": "/".join(filter(None, (row.get("modelProvider"), row.get("model")))),
        "in its window": _window(row),
        "spent": _spent(row, line.get("costUsd")),
        "budget": (row.get("budget") or {}).get("text"),
        "set here": ", ".join(_set_here(row)),
        "replies go to": _address(row),
        "spawned by": row.get("spawnedBy"),
    }
    return [(name, value) for name, value in fields.items() if value]


def _moment(at_ms: float | None, now_ms: float) -> str | None:
    if at_ms is None:
        return None
    when = datetime.fromtimestamp(at_ms / 1000).astimezone()
    return f"{ago(at_ms, now_ms)}, {when:%Y-%m-%d %H:%M:%S}"


def _window(row: SheetRow) -> str | None:
    held, room = row.get("totalTokens"), row.get("contextTokens")
    if held is None or not room:
        return None if held is None else f"{held:,} tokens"
    return f"{held:,} of {room:,} tokens ({100 * held // room} %)"


def _spent(row: SheetRow, cost_usd: float | None) -> str | None:
    if row.get("inputTokens") is None:
        return None
    text = f"{row['inputTokens']:,} tokens in, {row.get('outputTokens') or 0:,} out"
    text += f", ${cost_usd:.4f}" if cost_usd else ""
    times = row.get("compactionCount") or 0
    return text + (f"; compacted {times} time{'s' if times > 1 else ''}" if times else "")


def _set_here(row: SheetRow) -> Iterator[str]:
    """The settings in which this session differs from its agent."""
    names = {
        "thinkingLevel": "thinking",
        "verboseLevel": "verbose",
        "sendPolicy": "send policy",
        "queueMode": "queue",
    }
    for name, word in names.items():
        if row.get(name):
            yield f"{word} {row[name]}"


def _address(row: SheetRow) -> str | None:
    known = row.get("deliveryContext") or {}
    parts = (known.get("channel"), known.get("to"), known.get("accountId"))
    return ", ".join(str(part) for part in parts if part) or None
