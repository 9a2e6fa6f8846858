"""Reading the Responses API: an answer put together from its items.

An item is streamed as it grows and stored as it is when it is done: only then is its encrypted
reasoning whole.
"""

from typing import Any

from crossclaw.domain.messages import (
    AssistantBlock,
    StopReason,
    Text,
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
from crossclaw.providers.service import ServiceSaid
from crossclaw.providers.wire import WireAnswer

_ENDS = ("response.completed", "response.incomplete", "response.done")


class ResponsesAnswer(WireAnswer):
    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._items: dict[int, dict[str, Any]] = {}
        self._call_ids: dict[int, str] = {}
        self._words: dict[int, list[str]] = {}
        self._response: Any = None
        self._refusal: list[str] = []

    @property
    def finished(self) -> bool:
        return self._response is not None

    @property
    def usage(self) -> Usage | None:
        return _usage((self._response or {}).get("usage"))

    @property
    def declined(self) -> str | None:
        if self._refusal and not self._has_said():
            return "".join(self._refusal)
        why = self._why_incomplete()
        return "its content filter stopped the answer" if why == "content_filter" else None

    def add(self, event: Any) -> list[ModelPiece]:
        kind, place = event["type"], event.get("output_index", 0)
        match kind:
            case "response.output_item.added":
                return self._begin(place, event["item"])
            case "response.output_item.done":
                return self._done(place, event["item"])
            case "response.output_text.delta":
                self._words.setdefault(place, []).append(event["delta"])
                return [TextPiece(event["delta"])]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ThinkingPiece(event["delta"])]
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return [ThinkingPiece("\n\n")]
            case "response.function_call_arguments.delta":
                self._words.setdefault(place, []).append(event["delta"])
            case "response.refusal.delta":
                self._refusal.append(event["delta"])
            case "response.failed" | "error":
                raise ServiceSaid((event.get("response") or {}).get("error") or event)
            case _ if kind in _ENDS:
                self._end(event["response"])
        return []

    def whole(self, body: Any) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        for place, item in enumerate(body["output"]):
            pieces += self._begin(place, item)
            self._items[place] = item
            pieces += [TextPiece(text) for text in _texts(item)]
        self._end(body)
        return pieces

    @property
    def blocks(self) -> list[AssistantBlock]:
        return [block for place in sorted(self._items) for block in self._blocks(place)]

    @property
    def stop(self) -> StopReason:
        return "end_turn" if self._why_incomplete() is None else "max_tokens"

    def _begin(self, place: int, item: Any) -> list[ModelPiece]:
        self._items[place] = item
        if item["type"] != "function_call":
            return []
        call_id = self._call_ids[place] = self._ids.make(item.get("call_id"), place)
        return [ToolPiece(call_id, item["name"])]

    def _done(self, place: int, item: Any) -> list[ModelPiece]:
        pieces = [] if place in self._items else self._begin(place, item)
        self._items[place] = item
        return pieces

    def _end(self, response: Any) -> None:
        self._response = response
        if (error := response.get("error")) and response.get("status") == "failed":
            raise ServiceSaid(error)

    def _has_said(self) -> bool:
        kinds = {item["type"] for item in self._items.values()}
        return "function_call" in kinds or any(
            _texts(item) for item in self._items.values() if item["type"] == "message"
        )

    def _why_incomplete(self) -> str | None:
        details = (self._response or {}).get("incomplete_details") or {}
        why: str | None = details.get("reason")
        return why

    def _blocks(self, place: int) -> list[AssistantBlock]:
        item = self._items[place]
        match item["type"]:
            case "message":
                text = "".join(_texts(item)) or "".join(self._words.get(place, []))
                extra = {"phase": item["phase"]} if item.get("phase") else None
                return [Text(text, extra=extra)] if text else []
            case "reasoning":
                return [Thinking(_summary(item), extra=_kept(item))]
            case "function_call":
                written = item.get("arguments") or "".join(self._words.get(place, []))
                arguments = parse_arguments(written)
                return [ToolUse(self._call_ids[place], item["name"], arguments)]
        return []


def _kept(item: Any) -> dict[str, Any] | None:
    """The part of an item to send back; without its encrypted content it is of no use."""
    if not item.get("encrypted_content"):
        return None
    names = ("type", "id", "summary", "encrypted_content")
    return {"reasoning": {name: item[name] for name in names if name in item}}


def _summary(item: Any) -> str:
    parts = item.get("summary") or item.get("content") or []
    return "\n\n".join(part["text"] for part in parts if part.get("text"))


def _texts(item: Any) -> list[str]:
    if item["type"] != "message":
        return []
    return [part["text"] for part in item.get("content") or [] if part.get("type") == "output_text"]


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("input_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return Usage(
        input=max(0, (usage.get("input_tokens") or 0) - read - written),
        output=usage.get("output_tokens") or 0,
        cache_read=read,
        cache_write=written,
    )
