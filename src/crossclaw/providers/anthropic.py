"""Anthropic: the Messages API, for Claude and for servers that imitate it.

The request is translated by plain functions, the stream of events is put together by `_AnswerBuilder`.
"""

from collections.abc import Iterable
from typing import Any

from crossclaw.config.catalogue import known_facts
from crossclaw.domain.messages import (
    AssistantBlock,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.answer_limits import answer_limit, thinking_budget
from crossclaw.providers.calls import parse_arguments, plain_letters, plain_schema
from crossclaw.providers.contract import (
    AssistantTurn,
    CacheMarks,
    ModelPiece,
    ModelRequest,
    Part,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.listing import size
from crossclaw.providers.options import ModelOptions
from crossclaw.providers.parts import NO_WORDS, media_type, without_blank_texts
from crossclaw.providers.wire import WireAnswer, WireProvider

VERSION = "2023-06-01"

MARKS_MAX = 4  # of the prompt cache in one request; more are refused
_STOP: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    # The two below mean "there is more to come": the next request either goes on or overflows.
    "pause_turn": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
}
REFUSAL = "refusal"


class _AnswerBuilder(WireAnswer):
    """The message under construction: blocks by their index, each a list of what arrived for it."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._finished = False
        self._started: dict[int, Any] = {}
        self._parts: dict[int, list[str]] = {}
        self._signatures: dict[int, str] = {}
        self._usage: dict[str, int] = {}
        self._stop = "end_turn"
        self._refusal: str | None = None

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def declined(self) -> str | None:
        return self._refusal

    @property
    def stop(self) -> StopReason:
        return _STOP.get(self._stop, "end_turn")

    @property
    def blocks(self) -> list[AssistantBlock]:
        return [block for index in sorted(self._started) if (block := self._block(index))]

    def add(self, event: Any) -> list[ModelPiece]:
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
                if self._stop == REFUSAL:
                    self._refusal = _why_refused(event["delta"].get("stop_details"))
            case "message_stop":
                self._finished = True
        return []

    def whole(self, body: Any) -> list[ModelPiece]:
        """Reads a whole answer from a server that does not stream."""
        pieces = self.add({"type": "message_start", "message": body})
        for index, block in enumerate(body["content"]):
            pieces += self._start(index, block)
        self._stop = body.get("stop_reason") or self._stop
        self._finished = True
        return pieces

    def _start(self, index: int, block: Any) -> list[ModelPiece]:
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

    def _extend(self, index: int, delta: Any) -> list[ModelPiece]:
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

    def _say(self, index: int, text: str) -> list[ModelPiece]:
        self._parts[index].append(text)
        return [TextPiece(text)]

    def _think(self, index: int, thinking: str) -> list[ModelPiece]:
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
        """Updates the token counts. They are totals so far; one that is left out keeps its earlier
        value."""
        for name, count in (usage or {}).items():
            if isinstance(count, int):
                self._usage[name] = count

    @property
    def usage(self) -> Usage | None:
        if not self._usage:
            return None
        return Usage(
            input=self._usage.get("input_tokens", 0),
            output=self._usage.get("output_tokens", 0),
            cache_read=self._usage.get("cache_read_input_tokens", 0),
            cache_write=self._usage.get("cache_creation_input_tokens", 0),
        )


class AnthropicProvider(WireProvider):
    answer = _AnswerBuilder
    wire = "the Anthropic Messages API"
    official = "https://api.anthropic.com"
    path = "/v1/messages"

    def _address(self, base_url: str) -> str:
        return base_url.removesuffix("/v1")  # people copy it with and without

    def _headers(self, key: str) -> dict[str, str]:
        """The headers. The key is a bearer token, as the official SDK sends it; servers that
        imitate the service may still look for it under its older name."""
        headers = {"anthropic-version": VERSION, **super()._headers(key)}
        return headers if self._base_url == self.official else {**headers, "X-Api-Key": key}

    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        return message_params(request, facts)

    async def list_models(self) -> list[ListedModel]:
        return await self._service.get(
            f"{self._base_url}/v1/models?limit=1000",
            lambda found: [_listed(model) for model in found.get("data") or []],
        )


def _listed(model: Any) -> ListedModel:
    return ListedModel(
        id=model["id"],
        name=model.get("display_name"),
        window=size(
            model.get("max_input_tokens"), (model.get("meta") or {}).get("n_ctx")
        ),  # llama.cpp
        output=size(model.get("max_tokens")),
    )


def _why_refused(details: Any) -> str:
    if not isinstance(details, dict):
        return ""
    parts = [details.get("category"), details.get("explanation")]
    return ": ".join(part for part in parts if isinstance(part, str))


def message_params(request: ModelRequest, facts: ModelFacts | None = None) -> dict[str, Any]:
    """The body of a request."""
    facts = facts or known_facts(request.model)
    params: dict[str, Any] = {
        "model": request.model,
        "max_tokens": answer_limit(request, facts),
        "messages": [_turn(turn) for turn in request.turns],
        "stream": True,
        **_thinking(request, facts),
    }
    if request.system.strip():
        params["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        params["tools"] = [_tool(tool) for tool in request.tools]
    _mark(params, request.cache)
    return params


def _mark(params: dict[str, Any], cache: CacheMarks) -> None:
    """Sets the marks for the prompt cache: after the tools, which change least, after the system
    prompt, and in the conversation. A mark finds what was cached at most 20 blocks before it: the
    one at the previous user turn is just where the last request ended."""
    mark = {"type": "ephemeral"} if cache.ttl == "5m" else {"type": "ephemeral", "ttl": cache.ttl}
    marked = [params[name][-1] for name in ("tools", "system") if params.get(name)]
    messages = params["messages"]
    for place in cache.turns:
        place = place + len(messages) if place < 0 else place
        if 0 <= place < len(messages) and messages[place]["role"] == "user":
            marked.append(messages[place]["content"][-1])
    for block in marked[:MARKS_MAX]:
        block["cache_control"] = mark


def _thinking(request: ModelRequest, facts: ModelFacts) -> dict[str, Any]:
    """The thinking parameters. Newer Claudes set their own budget and get an effort; older ones,
    and unknown models of servers that imitate the service, get a number of tokens."""
    if request.thinking == "off":
        return _unthinking(facts)
    if facts.thinking == "effort":
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": facts.level(request.thinking)},
        }
    if facts.thinking == "none":
        return {}
    if _is_unthought_tool_turn(request.turns):
        return {}
    budget = thinking_budget(request, facts)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _unthinking(facts: ModelFacts) -> dict[str, Any]:
    """The parameters that switch thinking off. Without any, some models think unasked; one that
    cannot stop is asked for little."""
    if facts.off in ("disabled", "between_tools"):
        return {"thinking": {"type": facts.off}}
    if facts.off == "never" and facts.levels:
        return {"output_config": {"effort": facts.levels[0]}}
    return {}


def _is_unthought_tool_turn(turns: list[Turn]) -> bool:
    """Whether the last turn returns results of calls that came without thinking (another model made
    them, or thinking was switched on since): then a budget is refused. The next user message may
    think again."""
    calls = turns[-2] if len(turns) > 1 else None
    last = turns[-1]
    return (
        isinstance(calls, AssistantTurn)
        and isinstance(last, UserTurn)
        and bool(last.results)
        and not any(isinstance(block, Thinking) and _is_signed(block) for block in calls.content)
    )


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": plain_schema(tool.schema),
    }


def _turn(turn: Turn) -> dict[str, Any]:
    match turn:
        case UserTurn(results=results, content=content):
            blocks = [*map(_result, results), *_parts(content)]
            return {"role": "user", "content": blocks or _no_words()}
        case AssistantTurn(content=content):
            sent = [block for part in content if (block := _said(part))]
            return {"role": "assistant", "content": sent or _no_words()}


def _result(result: ToolReturn) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": plain_letters(result.tool_use_id),
    }
    if content := _parts(result.content):
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _parts(content: Iterable[Part]) -> list[dict[str, Any]]:
    return [_part(part) for part in without_blank_texts(content)]


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image():
            return _image(part)
    inline = {"type": "base64", "media_type": part.source.media_type, "data": part.source.data}
    return {"type": "document", "source": inline, **({"title": part.title} if part.title else {})}


def _image(image: Image) -> dict[str, Any]:
    source = image.source
    if source.type == "url":
        return {"type": "image", "source": {"type": "url", "url": source.url}}
    inline = {"type": "base64", "media_type": media_type(image), "data": source.data}
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


def _is_signed(thinking: Thinking) -> bool:
    return thinking.signature is not None or thinking.redacted is not None


def _no_words() -> list[dict[str, Any]]:
    return [{"type": "text", "text": NO_WORDS}]
