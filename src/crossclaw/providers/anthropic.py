"""Anthropic: the Messages API, for Claude and for servers that speak like it.

The request is translated by plain functions, the stream of events is put together by `_Answer`.
"""

import re
from typing import Any

from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.providers.calls import parse_arguments, plain_letters
from crossclaw.providers.contract import (
    THINKING_TOKENS,
    AssistantTurn,
    ModelRequest,
    Piece,
    Tell,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.failures import Failures
from crossclaw.providers.service import (
    CONNECT_S,
    RETRIES,
    SILENCE_S,
    Patience,
    Service,
    clean_key,
    host_of,
)

WIRE = "the Anthropic Messages API"
BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"

_EFFORT = {"minimal": "low"}
_CACHE = {"type": "ephemeral"}
_STOP: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    # The two below mean "there is more to come": the next request either goes on or overflows.
    "pause_turn": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "error",
}


class AnthropicProvider:
    def __init__(
        self,
        name: str,
        base_url: str | None,
        api_key: str,
        *,
        retries: int = RETRIES,
        connect_timeout_s: float = CONNECT_S,
        silence_timeout_s: float = SILENCE_S,
    ) -> None:
        self.name = name
        # People copy base URLs with and without /v1.
        address = (base_url or BASE_URL).rstrip("/").removesuffix("/v1")
        key = clean_key(name, api_key)
        self._service = Service(
            Failures(name, host_of(name, address), WIRE, key),
            f"{address}/v1/messages",
            _headers(key, is_anthropic=address == BASE_URL),
            Patience(retries, connect_timeout_s, silence_timeout_s),
        )

    async def complete(self, request: ModelRequest, tell: Tell) -> AssistantMessage:
        answer = _Answer()
        await self._service.ask(message_params(request), answer, tell)
        return answer.message(self.name, request.model)

    async def close(self) -> None:
        await self._service.close()


def _headers(key: str, *, is_anthropic: bool) -> dict[str, str]:
    """The key goes as a bearer token, as the official SDK sends it; servers that imitate the service
    may still look for it under its older name."""
    headers = {"anthropic-version": VERSION, "Authorization": f"Bearer {key}"}
    return headers if is_anthropic else {**headers, "X-Api-Key": key}


class _Answer:
    """The message under construction: blocks by their index, each a list of what arrived for it."""

    def __init__(self) -> None:
        self.finished = False
        self._started: dict[int, Any] = {}
        self._parts: dict[int, list[str]] = {}
        self._signatures: dict[int, str] = {}
        self._usage: dict[str, int] = {}
        self._stop = "end_turn"

    def add(self, event: Any) -> list[Piece]:
        match event["type"]:
            case "message_start":
                self._count(event["message"].get("usage"))
            case "content_block_start":
                return self._start(event["index"], event["content_block"])
            case "content_block_delta":
                return self._extend(event["index"], event["delta"])
            case "message_delta":
                self._count(event.get("usage"))
                self._stop = event["delta"].get("stop_reason") or self._stop
            case "message_stop":
                self.finished = True
        return []

    def message(self, provider: str, model: str) -> AssistantMessage:
        stop = _STOP.get(self._stop, "end_turn")
        declined = (
            "the model declined to answer; put the request differently or choose another model"
        )
        return AssistantMessage(
            content=[block for index in sorted(self._started) if (block := self._block(index))],
            provider=provider,
            model=model,
            usage=self._total(),
            stop_reason=stop,
            error=declined if stop == "error" else None,
        )

    def _start(self, index: int, block: Any) -> list[Piece]:
        self._started[index] = block
        self._parts[index] = []
        match block["type"]:
            case "text" if block["text"]:
                return self._say(index, block["text"])
            case "thinking" if block["thinking"]:
                return self._think(index, block["thinking"])
            case "tool_use":
                return [ToolPiece(block["id"], block["name"])]
        return []

    def _extend(self, index: int, delta: Any) -> list[Piece]:
        match delta["type"]:
            case "text_delta":
                return self._say(index, delta["text"])
            case "thinking_delta":
                return self._think(index, delta["thinking"])
            case "signature_delta":
                self._signatures[index] = delta["signature"]
            case "input_json_delta":
                self._parts[index].append(delta["partial_json"])
        return []

    def _say(self, index: int, text: str) -> list[Piece]:
        self._parts[index].append(text)
        return [TextPiece(text)]

    def _think(self, index: int, thinking: str) -> list[Piece]:
        self._parts[index].append(thinking)
        return [ThinkingPiece(thinking)]

    def _block(self, index: int) -> AssistantBlock | None:
        started, written = self._started[index], "".join(self._parts[index])
        match started["type"]:
            case "text" if written:
                return Text(written)
            case "thinking":
                signature = self._signatures.get(index) or started.get("signature")
                return Thinking(written, signature=signature or None)
            case "redacted_thinking":
                return Thinking("", redacted=started.get("data", ""))
            case "tool_use":
                given = started.get("input")
                arguments = parse_arguments(written) or (given if isinstance(given, dict) else {})
                return ToolUse(started["id"], started["name"], arguments)
        return None

    def _count(self, usage: Any) -> None:
        """Counts are totals so far; one that is left out keeps its earlier value."""
        for name, count in (usage or {}).items():
            if isinstance(count, int):
                self._usage[name] = count

    def _total(self) -> Usage | None:
        if not self._usage:
            return None
        return Usage(
            input=self._usage.get("input_tokens", 0),
            output=self._usage.get("output_tokens", 0),
            cache_read=self._usage.get("cache_read_input_tokens", 0),
            cache_write=self._usage.get("cache_creation_input_tokens", 0),
        )


def message_params(request: ModelRequest) -> dict[str, Any]:
    """The body of a request. Three marks for the prompt cache: after the tools,
    which change least, after the system prompt, and after the conversation so far."""
    headroom = THINKING_TOKENS[request.thinking]
    params: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.output_tokens_max + headroom,  # thinking counts as output
        "messages": [_turn(turn) for turn in request.turns],
        "stream": True,
        **_thinking(request),
    }
    if request.system.strip():
        params["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHE}]
    if request.tools:
        params["tools"] = [_tool(tool) for tool in request.tools]
        params["tools"][-1]["cache_control"] = _CACHE
    if params["messages"] and params["messages"][-1]["role"] == "user":
        params["messages"][-1]["content"][-1]["cache_control"] = _CACHE
    return params


def _thinking(request: ModelRequest) -> dict[str, Any]:
    if request.thinking == "off":
        # Not `disabled`: some models refuse it, and those that do not think unasked need no word.
        return {}
    if _thinks_adaptively(request.model):
        effort = _EFFORT.get(request.thinking, request.thinking)
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": effort},
        }
    if _is_unthought_tool_turn(request.turns):
        return {}
    budget = THINKING_TOKENS[request.thinking]
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _thinks_adaptively(model: str) -> bool:
    """Claude from 4.6 on sets its own budget, and from 4.7 on refuses to be given one; older models
    know only budgets, and so do the servers that imitate this API."""
    version = re.search(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)", model)
    if version is None:
        return "claude-mythos" in model
    return (int(version[1]), int(version[2] or 0)) >= (4, 6)


def _is_unthought_tool_turn(turns: list[Turn]) -> bool:
    """In the middle of tool calls, a budget is refused if the calls came without thinking (another
    model made them, or thinking was switched on since). The next user message may think again."""
    calls = turns[-2] if len(turns) > 1 else None
    last = turns[-1]
    return (
        isinstance(calls, AssistantTurn)
        and isinstance(last, UserTurn)
        and bool(last.results)
        and not any(isinstance(block, Thinking) and _is_sealed(block) for block in calls.content)
    )


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object", **tool.schema},
    }


def _turn(turn: Turn) -> dict[str, Any]:
    match turn:
        case UserTurn(results=results, content=content):
            blocks = [*map(_result, results), *_told(content)]
            return {"role": "user", "content": blocks or _no_words()}
        case AssistantTurn(content=content):
            sent = [block for part in content if (block := _said(part))]
            return {"role": "assistant", "content": sent or _no_words()}


def _result(result: ToolReturn) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": plain_letters(result.tool_use_id),
    }
    if content := _told(result.content):
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _told(content: list[Text | Image]) -> list[dict[str, Any]]:
    """Blank text blocks are refused by the service, so they stay behind."""
    return [
        {"type": "text", "text": part.text} if isinstance(part, Text) else _image(part)
        for part in content
        if not isinstance(part, Text) or part.text.strip()
    ]


def _image(image: Image) -> dict[str, Any]:
    source = image.source
    if source.type == "url":
        return {"type": "image", "source": {"type": "url", "url": source.url}}
    media_type = source.media_type or "image/png"
    inline = {"type": "base64", "media_type": media_type, "data": source.data}
    return {"type": "image", "source": inline}


def _said(block: AssistantBlock) -> dict[str, Any] | None:
    match block:
        case Text(text=text) if text.strip():
            return {"type": "text", "text": text}
        case Thinking(redacted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking(thinking=thinking, signature=str(signature)):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUse(id=call_id, name=name, input=arguments):
            return {
                "type": "tool_use",
                "id": plain_letters(call_id),
                "name": name,
                "input": arguments,
            }
    return None  # blank text, or thinking of another provider's model, which has no signature


def _is_sealed(thinking: Thinking) -> bool:
    return thinking.signature is not None or thinking.redacted is not None


def _no_words() -> list[dict[str, Any]]:
    return [{"type": "text", "text": "(no words)"}]
