"""The past: a stored message as text for people. Tool calls are one line, results only on demand."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from crossclaw.cli.say import cleaned
from crossclaw.cli.screens import tool_line
from crossclaw.cli.talk import message_text

RESULT_CHARS_MAX = 2_000  # about a screen; the transcript has it whole

_CALLS = ("toolCall", "tool_use")
_RESULT_ROLES = ("toolResult", "tool")


def shown_message(message: dict[str, Any], *, tools: bool) -> str:
    role = str(message.get("role") or "?")
    if role in _RESULT_ROLES and not tools:
        return ""
    body = "\n".join(_body(message, role))
    return f"{_head(message, role)}\n{body}" if body else ""


def _head(message: dict[str, Any], role: str) -> str:
    who = f"{message.get('toolName') or 'tool'} answered" if role in _RESULT_ROLES else role
    at = message.get("timestamp")
    if not isinstance(at, int | float):
        return who
    when = datetime.fromtimestamp(at / 1000).astimezone()
    return f"{who}, {when:%Y-%m-%d %H:%M:%S}"


def _body(message: dict[str, Any], role: str) -> Iterator[str]:
    text = cleaned(message_text(message)).strip()
    if role in _RESULT_ROLES and len(text) > RESULT_CHARS_MAX:
        text = text[:RESULT_CHARS_MAX] + f"… ({len(text):,} characters)"
    if text:
        yield text
    if error := message.get("errorMessage"):
        what = "stopped" if message.get("stopReason") == "aborted" else "failed"
        yield f"({what}: {cleaned(str(error))})"
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        if block.get("type") in _CALLS:
            yield tool_line(str(block.get("name")), block.get("arguments") or block.get("input"))
