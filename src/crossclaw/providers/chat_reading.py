"""Reading chat completions: an answer put together from its chunks.

Servers that imitate this API differ in what they leave out, so the reading is liberal: usage, ids and
indexes of calls may be missing, arguments may be an object, the content a list, reasoning comes under
several names or between `<think>` tags. What a server wants back with the next request (its reasoning, the
signatures of its calls) is kept on the blocks as `extra`.
"""

from typing import Any

import msgspec

from crossclaw.domain.messages import (
    AssistantBlock,
    StopReason,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.providers.calls import parse_arguments
from crossclaw.providers.contract import (
    ModelPiece,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
)
from crossclaw.providers.parts import with_thought
from crossclaw.providers.service import ServiceSaid
from crossclaw.providers.wire import WireAnswer

_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
}
FILTERED = ("content_filter", "sensitive", "refusal")
FAILED = ("error", "network_error")
OPEN, CLOSE = "<think>", "</think>"


class _Call:
    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.wire_id: str | None = None
        self.name = ""
        self.parts: list[str] = []
        self.extra: dict[str, Any] = {}


class ChatAnswer(WireAnswer):
    """The message under construction. Calls are in the order in which they began."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._thinking: list[str] = []
        self._thinking_name: str | None = None
        self._details: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._tags = _ThinkTags()
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._usage: Any = None
        self._finish: str | None = None

    @property
    def finished(self) -> bool:
        return self._finish is not None

    @property
    def usage(self) -> Usage | None:
        return chat_usage(self._usage)

    @property
    def declined(self) -> str | None:
        """Why the service or its model will not answer."""
        if self._refusal and not self._text and not self._calls:
            return "".join(self._refusal)
        return "its content filter stopped the answer" if self._finish in FILTERED else None

    def add(self, chunk: Any) -> list[ModelPiece]:
        self._usage = chunk.get("usage") or self._usage
        pieces: list[ModelPiece] = []
        for choice in chunk.get("choices") or []:
            # xAI and Groq put the usage elsewhere; some servers send `message` at the end.
            self._usage = choice.get("usage") or self._usage
            if (delta := choice.get("delta")) is not None:
                pieces += self._read(delta)
            self._finish = choice.get("finish_reason") or self._finish
            if self._finish in FAILED:
                raise ServiceSaid(choice.get("error") or chunk)
        if self._finish:
            pieces += self._words(self._tags.rest())
        return pieces

    def whole(self, body: Any) -> list[ModelPiece]:
        self._usage = body.get("usage")
        pieces: list[ModelPiece] = []
        for choice in body["choices"]:
            pieces += self._read(choice["message"])
            self._finish = choice.get("finish_reason") or "stop"
        return pieces + self._words(self._tags.rest())

    def end(self) -> None:
        """Handles `[DONE]` without a reason, as several servers send it: the answer counts as
        finished."""
        if self._finish is None and (self._text or self._calls or self._tags.holds):
            self._text += [
                piece.text for piece in self._tags.rest() if isinstance(piece, TextPiece)
            ]
            self._finish = "stop"

    @property
    def stop(self) -> StopReason:
        return _STOP.get(self._finish or "", "end_turn")

    # ── the parts of a delta ───────────────────────────────────────────────────────────────────

    def _read(self, delta: Any) -> list[ModelPiece]:
        pieces = self._reasoning(delta)
        content = delta.get("content")
        for part in content if isinstance(content, list) else [content]:
            pieces += self._content(part)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
        for part in delta.get("tool_calls") or []:
            pieces += self._extend_call(part)
        return pieces

    def _reasoning(self, delta: Any) -> list[ModelPiece]:
        """The name under which it came is the one under which it goes back."""
        for detail in delta.get("reasoning_details") or []:
            _merge_detail(self._details, detail)
        for name in ("reasoning_content", "reasoning"):
            words = delta.get(name)
            if isinstance(words, str) and words:
                self._thinking_name = self._thinking_name or name
                return self._think(words)
        return []

    def _content(self, part: Any) -> list[ModelPiece]:
        if isinstance(part, str):
            return self._words(self._tags.read(part))
        if not isinstance(part, dict):
            return []
        match part.get("type"):
            case "thinking":  # Mistral's: a list of texts again
                inner = part.get("thinking")
                texts = inner if isinstance(inner, list) else [{"text": inner}]
                words = "".join(text.get("text") or "" for text in texts if isinstance(text, dict))
                return self._think(words) if words else []
            case _:
                return self._words([TextPiece(part.get("text") or "")])

    def _words(self, pieces: list[ModelPiece]) -> list[ModelPiece]:
        shown: list[ModelPiece] = []
        for piece in pieces:
            match piece:
                case TextPiece(text=text) if text:
                    self._text.append(text)
                    shown.append(piece)
                case ThinkingPiece(thinking=thinking) if thinking:
                    shown += self._think(thinking)
        return shown

    def _think(self, words: str) -> list[ModelPiece]:
        self._thinking.append(words)
        return [ThinkingPiece(words)]

    # ── calls ──────────────────────────────────────────────────────────────────────────────────

    def _extend_call(self, part: Any) -> list[ModelPiece]:
        function = part.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        call = self._call_of(part.get("index"), part.get("id"), name)
        if isinstance(arguments, dict | list):
            arguments = msgspec.json.encode(arguments).decode()
        call.parts.append(arguments or "")
        if extra := part.get("extra_content"):
            call.extra = {"extra_content": extra}
        if call.name or not name:
            return []  # some servers repeat the name in every delta
        call.name = name
        return [ToolPiece(call.id, name)]

    def _call_of(self, index: int | None, wire_id: str | None, name: str | None) -> _Call:
        """The call that a piece belongs to, by index. Under a used one, a new id begins a new call
        (some servers write 0 for all); without index and id, a new name does, or the same again
        once the arguments are whole."""
        call = self._by_index.get(index)
        if call is None or self._begins_anew(call, index, wire_id, name):
            call = _Call(self._ids.make(wire_id, len(self._calls)))
            self._calls.append(call)
            self._by_index[index] = call
        call.wire_id = call.wire_id or wire_id
        return call

    @staticmethod
    def _begins_anew(call: _Call, index: int | None, wire_id: str | None, name: str | None) -> bool:
        if wire_id and call.wire_id:
            return wire_id != call.wire_id
        if not name or index is not None:
            return False
        return name != call.name or _is_whole("".join(call.parts))

    # ── the message ────────────────────────────────────────────────────────────────────────────

    @property
    def blocks(self) -> list[AssistantBlock]:
        thinking, text = "".join(self._thinking), "".join(self._text)
        if not thinking and CLOSE in text:  # a template that opens the tag itself
            thinking, _, text = text.partition(CLOSE)
            text = text.lstrip("\n")
        thought = Thinking(thinking.strip("\n"), extra=self._state())
        calls = (
            ToolUse(c.id, c.name, parse_arguments("".join(c.parts)), extra=c.extra or None)
            for c in self._calls
        )
        return [*with_thought(thought if thinking or self._details else None, text), *calls]

    def _state(self) -> dict[str, Any] | None:
        if self._details:
            return {"reasoning_details": self._details}
        # `reasoning` alone is for reading; who wants it back sends details too.
        return (
            {"field": "reasoning_content"} if self._thinking_name == "reasoning_content" else None
        )


class _ThinkTags:
    """Takes `<think>…</think>` at the beginning of an answer out of its text, as it streams."""

    def __init__(self) -> None:
        self._state = "beginning"
        self._held = ""

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def read(self, text: str) -> list[ModelPiece]:
        if self._state == "words":
            return [TextPiece(text)]
        self._held += text
        if self._state == "beginning":
            begun = self._held.lstrip()
            if begun.startswith(OPEN):
                self._state, self._held = "thinking", begun.removeprefix(OPEN)
            elif OPEN.startswith(begun):
                return []  # it may still become one
            else:
                return self._speak()
        return self._think()

    def rest(self) -> list[ModelPiece]:
        held, self._held = self._held, ""
        piece = ThinkingPiece(held) if self._state == "thinking" else TextPiece(held)
        return [piece] if held else []

    def _speak(self) -> list[ModelPiece]:
        self._state, held, self._held = "words", self._held, ""
        return [TextPiece(held)] if held else []

    def _think(self) -> list[ModelPiece]:
        before, found, after = self._held.partition(CLOSE)
        if found:
            self._held = after.lstrip("\n")
            return [ThinkingPiece(before), *self._speak()]
        # The end of what came may be the beginning of the closing tag.
        kept = next((n for n in range(len(CLOSE) - 1, 0, -1) if before.endswith(CLOSE[:n])), 0)
        said, self._held = before[: len(before) - kept], before[len(before) - kept :]
        return [ThinkingPiece(said)] if said else []


def _is_whole(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return False
    return True


def _merge_detail(details: list[dict[str, Any]], piece: Any) -> None:
    """Adds a piece of a detail, which OpenRouter sends in pieces: texts grow, the rest comes
    once."""
    if not isinstance(piece, dict):
        return
    last = details[-1] if details else None
    same = last is not None and (last.get("index"), last.get("type")) == (
        piece.get("index"), piece.get("type"),
    )  # fmt: skip
    if last is None or not same:
        details.append(dict(piece))
        return
    for name, value in piece.items():
        if name in ("text", "summary", "data") and isinstance(last.get(name), str):
            last[name] += value or ""
        elif value is not None:
            last[name] = value


def chat_usage(usage: Any) -> Usage | None:
    """The usage; None if the server did not count. Cached tokens are part of its prompt tokens."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    # DeepSeek and Kimi say it beside the rest.
    read = (
        details.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cached_tokens")
        or 0
    )
    written = details.get("cache_write_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    cost = usage.get("cost")
    return Usage(
        input=max(0, prompt - read - written),
        output=usage.get("completion_tokens") or 0,
        cache_read=read,
        cache_write=written,
        cost=float(cost) if isinstance(cost, int | float) and cost > 0 else None,
    )
