"""Messages as OpenClaw's clients know them: its block names, always blocks, always a time."""

from typing import Any

import msgspec

from crossclaw.domain.media import base64_chars, shown_size
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserBlock,
    UserMessage,
)
from crossclaw.domain.sessions import Entry
from crossclaw.domain.states import call_state
from crossclaw.ledger.contract import Ledger
from crossclaw.sessions.fitting import beginning_of, fitting, role_of, with_small_media
from crossclaw.sessions.rows import UNREADABLE, is_unreadable

WAITING_BYTES_MAX = (
    256 * 1024
)  # of a message that waits; it is whole in its transcript, once it is there

_STOP_WORDS = {
    "end_turn": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "error": "error",
    "aborted": "aborted",
    "injected": "injected",
}


def wire_message(message: Message, at: int = 0) -> dict[str, Any]:
    """A message in the wire's form. `at` is when it was stored, for a message without a time of its own."""
    match message:
        case UserMessage():
            return _user(message, at)
        case AssistantMessage():
            return _assistant(message, at)
        case ToolResultMessage():
            return _tool_result(message, at)


def entry_message(entry: Entry) -> dict[str, Any]:
    """A message of a transcript."""
    return _known(entry, _wire(entry))


def short_message(entry: Entry, size: int) -> dict[str, Any]:
    """A message that is too large for the answer: clients show its beginning like any text."""
    return _known(entry, short_wire_message(entry, size))


def short_wire_message(entry: Entry, size: int) -> dict[str, Any]:
    message = entry.message
    assert message is not None
    wire: dict[str, Any] = {
        "id": entry.entry_id,
        "role": role_of(message),
        "content": [{"type": "text", "text": beginning_of(message)}],
        "timestamp": message.timestamp or entry.at,
        "omitted": True,
        "bytes": size,
    }
    if isinstance(message, ToolResultMessage):
        call = {"toolCallId": message.tool_use_id, "toolName": message.tool_name}
        return {**wire, **call, "isError": message.is_error, **_standing_of_call(message)}
    if isinstance(message, UserMessage) and message.provenance is not None:
        wire["provenance"] = msgspec.to_builtins(message.provenance)
    return wire


async def waiting_message(
    ledger: Ledger, run_id: str, message: UserMessage, at: int
) -> dict[str, Any]:
    """The message that a run answers, which may not be in a transcript yet; many may stand in one answer."""
    entry = Entry(session_id="", seq=0, entry_id=run_id, at=at, type="message", message=message)
    entries = await with_small_media(ledger, [entry], WAITING_BYTES_MAX)
    return fitting(entries, WAITING_BYTES_MAX, _wire, short_wire_message)[0]


def _wire(entry: Entry) -> dict[str, Any]:
    if is_unreadable(entry):
        words = [{"type": "text", "text": UNREADABLE}]
        return {"role": "system", "content": words, "timestamp": entry.at, "unreadable": True}
    assert entry.message is not None
    return wire_message(entry.message, entry.at)


def _known(entry: Entry, wire: dict[str, Any]) -> dict[str, Any]:
    """Adds `__openclaw`, by which a client recognises what it has sent or received before, and does not show
    it twice."""
    known: dict[str, Any] = {"id": entry.entry_id, "seq": entry.seq}
    if entry.run_id is not None and wire["role"] == "user":
        known["idempotencyKey"] = f"{entry.run_id}:user"
    elif entry.run_id is not None:
        known["runId"] = entry.run_id
    return {**wire, "__openclaw": known}


def text_message(text: str, at: int) -> dict[str, Any]:
    """The words of a reply, as `chat` events carry them."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "timestamp": at,
    }


def _user(message: UserMessage, at: int) -> dict[str, Any]:
    # Clients show only arrays of blocks, so a plain text becomes one.
    blocks = [Text(message.content)] if isinstance(message.content, str) else message.content
    wire: dict[str, Any] = {
        "role": "user",
        "content": [_block(block) for block in blocks],
        "timestamp": message.timestamp or at,
    }
    if message.provenance is not None:
        wire["provenance"] = msgspec.to_builtins(message.provenance)
    return wire


def _assistant(message: AssistantMessage, at: int) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "role": "assistant",
        "content": [_block(block) for block in message.blocks],
        "timestamp": message.timestamp or at,
    }
    optional = {
        "provider": message.provider,
        "model": message.model,
        "usage": message.usage and wire_usage(message.usage),
        "stopReason": message.stop_reason and _STOP_WORDS[message.stop_reason],
        "errorMessage": message.error,
    }
    wire.update({name: value for name, value in optional.items() if value is not None})
    return wire


def _tool_result(message: ToolResultMessage, at: int) -> dict[str, Any]:
    wire = {
        "role": "toolResult",
        "toolCallId": message.tool_use_id,
        "toolName": message.tool_name,
        "content": _result_blocks(message.content),
        "isError": message.is_error,
        "timestamp": message.timestamp or at,
        **_standing_of_call(message),
    }
    if message.duration_ms is not None:
        wire["durationMs"] = message.duration_ms
    return wire


def _standing_of_call(message: ToolResultMessage) -> dict[str, Any]:
    """The state of a failed call: `isError` is the tool's own word, a program's exit code is not in it."""
    state = call_state(message.tool_name, message.content, is_error=message.is_error)
    return {} if state.name == "ok" else {"standing": msgspec.to_builtins(state)}


def wire_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.prompt + usage.output,
    }
    if usage.cost is not None:
        wire["cost"] = {"total": usage.cost}
    return wire


def _block(block: UserBlock | AssistantBlock) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case ToolUse(id=call_id, name=name, input=arguments):
            return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}
        case ToolResult(tool_use_id=call_id, content=content, is_error=is_error):
            return {
                "type": "toolResult",
                "toolCallId": call_id,
                "content": _result_blocks(content),
                "isError": is_error,
            }
        case Thinking(thinking=thinking):
            return {"type": "thinking", "thinking": thinking}
        case Image():
            return _image(block)
        case Document():
            return _document(block)


def _image(block: Image) -> dict[str, Any]:
    source = block.source
    if source.type == "base64":
        return {"type": "image", "mimeType": source.media_type, "data": source.data}
    if source.type == "stored":  # as OpenClaw tells of one that it leaves out
        chars = base64_chars(source.size)
        return {"type": "image", "mimeType": source.media_type, "omitted": True, "bytes": chars}
    return {"type": "image", "url": source.url}


def _document(block: Document) -> dict[str, Any]:
    """A file as a line of text: clients know no other kind of block, and a chat does not need its bytes."""
    source = block.source
    size = source.size or len(source.data or "") * 3 // 4
    kind = source.media_type or "file"
    about = {"fileName": block.title, "mimeType": kind, "bytes": size}
    words = f"[file: {block.title or kind}, {kind}, {shown_size(size)}]"
    return {"type": "text", "text": words, "file": about}


def _result_blocks(content: Any) -> list[dict[str, Any]]:
    """A tool's answer: text and picture blocks as they are, anything else as text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list) and content and all(_is_block(part) for part in content):
        return [_plain_block(part) for part in content]
    return [{"type": "text", "text": msgspec.json.format(msgspec.json.encode(content)).decode()}]


def _is_block(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "image", "document")


def _plain_block(part: dict[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "image":
            return _image(msgspec.convert(part, Image))
        case "document":
            return _document(msgspec.convert(part, Document))
        case _:
            return part
