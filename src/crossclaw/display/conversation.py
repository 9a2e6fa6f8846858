"""A conversation for people: everything said between two questions is one turn.

Tool calls are progress lines in their place, each with its result; a reply that the model's limit
cut and that was continued is shown as one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from crossclaw.display.results import result_markdown
from crossclaw.domain.aliases import Json
from crossclaw.domain.exchanges import CONTROL_TOKENS
from crossclaw.domain.texts import with_ellipsis

ARGUMENTS_CHARS_MAX = 72  # one line on a usual terminal

_CALLS = ("toolCall", "tool_use")
_RESULTS = ("toolResult", "tool_result")
_RESULT_ROLES = ("toolResult", "tool")
_ENDED = ("stop", "end_turn")
_CUT = ("length", "max_tokens")

Answers = dict[Any, Json]


class Words(msgspec.Struct, frozen=True):
    markdown: str


class ToolLine(msgspec.Struct, frozen=True):
    line: str
    result: str = ""
    """The result as Markdown; empty if there is none yet, or it is not wanted."""


class Trouble(msgspec.Struct, frozen=True):
    text: str


class Silence(msgspec.Struct, frozen=True):
    """A reply that was only a control token: an agent's way to say nothing."""


ConversationPart = Words | ToolLine | Trouble | Silence


class ShownMessage(msgspec.Struct, frozen=True):
    who: str
    at: float | None
    parts: tuple[ConversationPart, ...]


def conversation(messages: Sequence[Json], *, results: bool = False) -> list[ShownMessage]:
    """The messages to show, from messages as the wire or a transcript has them, oldest first."""
    answers = dict(_answers(messages))
    said: list[ShownMessage] = []
    was_cut, before = False, ""
    for message in messages:
        role = str(message.get("role") or "?")
        if role in _RESULT_ROLES:
            continue  # it stands with its call
        parts = tuple(_parts(message, answers if results else {}, answers))
        continues = role == before == "assistant"
        if continues:
            said[-1] = msgspec.structs.replace(
                said[-1], parts=_joined(said[-1].parts, parts, was_cut)
            )
        elif parts:
            said.append(
                ShownMessage(_speaker(role, message.get("provenance")), _time(message), parts)
            )
        before = role if parts or continues else before
        was_cut = message.get("stopReason") in _CUT
    return said


def progress_line(name: str, arguments: object, outcome: str = "") -> str:
    """A line like `→ read path: a.md`, with the outcome if it is worth a word."""
    shown = _arguments(arguments)
    line = f"→ {name} {shown}" if shown else f"→ {name}"
    return f"{line}{' —' if shown else ''} {outcome}" if outcome else line


def message_text(message: Any) -> str:
    """The text of a message, its text blocks joined."""
    return "".join(str(b.get("text") or "") for b in _blocks(message) if b.get("type") == "text")


def _speaker(role: str, provenance: Any) -> str:
    """Who said it, by what the gateway recorded: `user` is a person. A name that somebody chose is
    in brackets, so that nobody can pass for another."""
    if role != "user" or not isinstance(provenance, dict):
        return role
    kind = str(provenance.get("kind") or "person")
    # A transcript that an earlier release has written has the second name.
    if source := provenance.get("sourceSessionKey") or provenance.get("sourceSession"):
        return f"{_line(source)} (report)" if kind == "announce" else _line(source)
    who = role if kind == "person" else kind.replace("_", " ")
    name = _line(provenance.get("sender") or "")
    return f"{who} ({name})" if name and name.lower() != kind else who


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _joined(
    before: tuple[ConversationPart, ...], after: tuple[ConversationPart, ...], was_cut: bool
) -> tuple[ConversationPart, ...]:
    if was_cut and before and after:
        last, first = before[-1], after[0]
        if isinstance(last, Words) and isinstance(first, Words):
            return (*before[:-1], Words(last.markdown + first.markdown), *after[1:])
    return (*before, *after)


def _parts(message: Json, shown: Answers, answers: Answers) -> Iterator[ConversationPart]:
    text = ""
    for block in _blocks(message):
        if block.get("type") == "text":
            text += str(block.get("text") or "")
            continue
        if text.strip():
            yield Words(text)
        text = ""
        if block.get("type") in _CALLS:
            yield _progress(block, shown, answers)
    if message.get("role") == "assistant" and text.strip() in CONTROL_TOKENS:
        yield Silence()
    elif text.strip():
        yield Words(text)
    elif _said_nothing(message):
        yield Silence()
    if message.get("omitted"):
        yield Trouble(f"{message.get('bytes')} bytes: only the beginning is shown")
    if error := message.get("errorMessage"):
        what = "stopped" if message.get("stopReason") == "aborted" else "failed"
        yield Trouble(f"{what}: {error}")


def _said_nothing(message: Json) -> bool:
    """Whether the model ended its turn without a word, a call or an error."""
    words = any(block.get("type") not in ("thinking", "text") for block in _blocks(message))
    ended = message.get("role") == "assistant" and message.get("stopReason") in _ENDED
    return ended and not words and not message_text(message).strip()


def _progress(call: Json, shown: Answers, answers: Answers) -> ToolLine:
    call_id = call.get("id")
    answer = answers.get(call_id) or {}
    line = progress_line(
        str(call.get("name") or "tool"),
        call.get("arguments") or call.get("input"),
        "failed" if answer.get("isError") or answer.get("is_error") else "",
    )
    result = result_markdown(shown[call_id].get("content")) if call_id in shown else ""
    return ToolLine(line, result)


def _answers(messages: Iterable[Json]) -> Iterator[tuple[Any, Json]]:
    for message in messages:
        if message.get("role") in _RESULT_ROLES:
            yield message.get("toolCallId") or message.get("tool_use_id"), message
        for block in _blocks(message):
            if block.get("type") in _RESULTS:
                yield block.get("toolCallId") or block.get("tool_use_id"), block


def _blocks(message: Any) -> list[Json]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _time(message: Json) -> float | None:
    at = message.get("timestamp")
    return at if isinstance(at, int | float) else None


def _arguments(arguments: object) -> str:
    if not isinstance(arguments, dict):
        return ""
    text = ", ".join(f"{name}: {_short(value)}" for name, value in arguments.items())
    return with_ellipsis(" ".join(text.split()), ARGUMENTS_CHARS_MAX)


def _short(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
