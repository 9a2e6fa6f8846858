"""Transcripts of OpenClaw (files in 2026.2, rows in 2026.9): their lines become entries of ours, and nothing of them is lost.

{"type":"session","version":3,"id":…,"timestamp":…,"cwd":…}
{"type":"message","id":…,"parentId":…,"timestamp":…,"message":{"role":"user"|"assistant"|"toolResult",…}}
{"type":"compaction"|"model_change"|"custom"|…}                    kept as notes
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, get_args

import msgspec

from crossclaw.domain.media import KINDS
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Document,
    Image,
    MediaSource,
    Message,
    Provenance,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserBlock,
    UserMessage,
)
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.imports import ImportedEntry

TIME_MAX = 2**53  # milliseconds; more is damage
LINE_BYTES_MAX = 64 * 1024 * 1024  # several pictures in one message; more is no message

_STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "error",
    "aborted": "aborted",
    "injected": "injected",
    **{reason: reason for reason in get_args(StopReason)},  # a copy of ours has our own words
}


class ForeignLine(msgspec.Struct, frozen=True):
    """The fields that every line has; the rest is read by its type."""

    type: str
    id: str | None = None
    timestamp: str | int | float | None = None
    message: msgspec.Raw = msgspec.Raw(b"")


class _Cost(msgspec.Struct, frozen=True):
    total: float | None = None


class _Usage(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = msgspec.field(default=0, name="cacheRead")
    cache_write: int = msgspec.field(default=0, name="cacheWrite")
    cost: _Cost | float | None = None


class _Block(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "text"
    text: str | None = None
    thinking: str | None = None
    thinking_signature: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    data: str | None = None
    mime_type: str | None = None
    source: Any = None
    title: str | None = None
    tool_use_id: str | None = msgspec.field(default=None, name="tool_use_id")
    content: Any = None
    is_error: bool | None = msgspec.field(default=None, name="is_error")


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    role: str
    content: str | list[_Block] = ""
    timestamp: float | None = None
    provider: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None
    error_message: str | None = None
    tool_call_id: str | None = None
    tool_use_id: str | None = msgspec.field(default=None, name="tool_use_id")
    """The id of the call, under the name that our own copies use."""
    tool_name: str | None = None
    is_error: bool = False


class _Result(msgspec.Struct, frozen=True):
    """A tool's result as it was stored there: its content is any JSON."""

    content: Any = ""


_lines = msgspec.json.Decoder(ForeignLine)
_messages = msgspec.json.Decoder(_Message)
_results = msgspec.json.Decoder(_Result)
_anything = msgspec.json.Decoder(dict[str, Any])


class LineRead(NamedTuple):
    """One line: the entry it became, or what is wrong with it; and where the next one begins."""

    number: int
    end: int
    entry: ImportedEntry | None = None
    problem: str | None = None
    torn: bool = False
    """Whether the last line has no end: it may still be written."""


class UnreadableLine(ValueError):
    pass


def read_transcript(file: BinaryIO, *, begin: int = 0, lines: int = 0) -> Iterator[LineRead]:
    """Reads lines from the byte `begin`, before which there were so many lines. Holds one line at a
    time."""
    file.seek(begin)
    number, end = lines, begin
    while raw := file.readline(LINE_BYTES_MAX):
        number, end = number + 1, end + len(raw)
        if not raw.endswith(b"\n"):
            skipped = _skip_line(file)
            if skipped is None:
                yield _last_line(raw, number, end)
                return
            end += skipped
            yield LineRead(number, end, problem=f"longer than {LINE_BYTES_MAX} bytes")
            continue
        yield _read(raw, number, end)


def read_row(raw: bytes, number: int, end: int, *, left: bool = False) -> LineRead:
    """Reads one row of a transcript that is stored in rows. A message on a branch that the
    conversation has `left` is no longer part of it, and becomes a note."""
    if len(raw) > LINE_BYTES_MAX:
        return LineRead(number, end, problem=f"longer than {LINE_BYTES_MAX} bytes")
    read = _read(raw, number, end)
    if not left or read.entry is None or read.entry.entry.message is None:
        return read
    note = {"about": "openclaw.left_branch", **_rest(replace_lone_surrogates(raw))}
    entry = NewEntry(entry_id=read.entry.entry.entry_id, note=note, type="note")
    return read._replace(entry=ImportedEntry(entry, read.entry.at))


def _skip_line(file: BinaryIO) -> int | None:
    """Skips the rest of a line that is too long; returns its length, or None if the file has
    ended."""
    skipped = 0
    while raw := file.readline(LINE_BYTES_MAX):
        skipped += len(raw)
        if raw.endswith(b"\n"):
            return skipped
    return skipped or None


def _last_line(raw: bytes, number: int, end: int) -> LineRead:
    read = _read(raw, number, end)
    return read if read.problem is None else read._replace(torn=True, end=end - len(raw))


_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.S,
)


def replace_lone_surrogates(raw: bytes) -> bytes:
    """The line with lone halves of emojis replaced by the replacement character. JavaScript cuts
    texts in the middle of an emoji and writes the half; no other reader accepts that."""
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], raw)


def _read(raw: bytes, number: int, end: int) -> LineRead:
    if not raw.strip():
        return LineRead(number, end)
    try:
        try:
            return LineRead(number, end, entry=read_line(raw, number))
        except msgspec.DecodeError:
            return LineRead(number, end, entry=read_line(replace_lone_surrogates(raw), number))
    except UnreadableLine as error:
        return LineRead(number, end, problem=str(error))
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
        OverflowError,
        ValueError,
    ) as error:
        return LineRead(number, end, problem=f"{error}")


def read_line(raw: bytes, number: int) -> ImportedEntry | None:
    """The entry of a line; None for the header, which the session's row replaces."""
    line = _lines.decode(raw)
    if line.type == "session":
        return None
    at, entry_id = parse_time(line.timestamp), line.id or f"{number:08x}"
    message = _message_of(bytes(line.message)) if line.type == "message" else None
    if message is None:
        message = _custom_message(raw, at) if line.type == "custom_message" else None
    if message is not None:
        return ImportedEntry(NewEntry(entry_id=entry_id, message=message), message.timestamp or at)
    note = {"about": f"openclaw.{line.type}", **_rest(raw)}
    return ImportedEntry(NewEntry(entry_id=entry_id, note=note, type="note"), at)


def _rest(raw: bytes) -> dict[str, Any]:
    return {k: v for k, v in _anything.decode(raw).items() if k not in ("type", "id", "timestamp")}


def _custom_message(raw: bytes, at: int) -> UserMessage | None:
    """A message that OpenClaw puts into the model's context as the user's."""
    line = _anything.decode(raw)
    content = line.get("content")
    if isinstance(content, list):
        content = "\n".join(b["text"] for b in content if isinstance(b, dict) and "text" in b)
    if not isinstance(content, str):
        return None
    return UserMessage(content, at, Provenance("system", sender=str(line.get("customType", ""))))


def _message_of(raw: bytes) -> Message | None:
    """The message of a line; None for a role that is no part of a conversation, which becomes a
    note."""
    if not raw:
        raise UnreadableLine("a message line without its message")
    message = _messages.decode(raw)
    at = parse_time(message.timestamp)
    match message.role:
        case "user":
            return UserMessage(_user_content(message.content), at)
        case "assistant":
            return _assistant(message, at)
        case "toolResult":
            return ToolResultMessage(
                message.tool_call_id or message.tool_use_id or "",
                message.tool_name or "",
                _result_content(_results.decode(raw).content),
                message.is_error,
                None,
                at,
            )
        case _:
            return None


def _user_content(content: str | list[_Block]) -> str | list[UserBlock]:
    if isinstance(content, str):
        return content
    blocks: list[UserBlock] = []
    for block in content:
        if block.type in KINDS:
            blocks.append(_media(block))
        elif block.type == "tool_result":
            blocks.append(
                ToolResult(block.tool_use_id or "", block.content or "", bool(block.is_error))
            )
        elif block.text is not None:
            blocks.append(Text(block.text))
        else:
            blocks.append(Text(_as_text(block)))
    return blocks


def _media(block: _Block) -> Image | Document | Text:
    """A picture or a file, in OpenClaw's form or in that of our copies; as text if its bytes cannot
    be found."""
    try:
        source = (
            msgspec.convert(block.source, MediaSource)
            if block.data is None
            else MediaSource("base64", block.mime_type, block.data)
        )
    except msgspec.ValidationError:
        return Text(_as_text(block))
    return Image(source) if block.type == "image" else Document(source, block.title)


def _assistant(message: _Message, at: int) -> AssistantMessage:
    content = message.content
    return AssistantMessage(
        content if isinstance(content, str) else [_assistant_block(block) for block in content],
        at,
        message.provider,
        message.model,
        _usage(message.usage),
        _STOPS.get(message.stop_reason or ""),
        message.error_message,
    )


def _assistant_block(block: _Block) -> AssistantBlock:
    match block.type:
        case "thinking":
            return Thinking(block.thinking or "", block.thinking_signature or block.signature)
        case "toolCall" | "tool_use":
            given = block.arguments if block.arguments is not None else block.input
            arguments = (
                given if isinstance(given, dict) else {} if given is None else {"raw": given}
            )
            return ToolUse(block.id or "", block.name or "", arguments)
        case _:
            return Text(block.text if block.text is not None else _as_text(block))


def _as_text(block: _Block) -> str:
    return msgspec.json.encode({k: v for k, v in msgspec.structs.asdict(block).items() if v is not None}).decode()  # fmt: skip


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    cost = usage.cost.total if isinstance(usage.cost, _Cost) else usage.cost
    return Usage(usage.input, usage.output, usage.cache_read, usage.cache_write, cost)


def _result_content(content: Any) -> Any:
    """A tool's result with pictures as our own blocks; texts are the same in both."""
    if not isinstance(content, list):
        return content
    return [_result_block(block) if isinstance(block, dict) else block for block in content]


def _result_block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image" and isinstance(block.get("data"), str):
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block["data"]}
        return {"type": "image", "source": source}
    return block


def parse_time(written: str | float | None) -> int:
    """The time in milliseconds; 0 if it cannot be read."""
    if isinstance(written, int | float):
        return int(written) if 0 <= written <= TIME_MAX else 0
    if not written:
        return 0
    return _ms_of(written[:19]) + _millis(written)


@lru_cache(maxsize=1024)  # lines come close together
def _ms_of(seconds: str) -> int:
    try:
        return int(datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return 0


def _millis(written: str) -> int:
    part = written[20:23]
    return int(part) if written[19:20] == "." and part.isdecimal() and len(part) == 3 else 0
