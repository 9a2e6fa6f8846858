"""OpenAI: chat completions, at any base URL (llama.cpp, vLLM, Ollama, gateways).

Servers that imitate this API differ in what they leave out, so the reading is liberal: usage, ids and
indexes of tool calls may be missing, reasoning comes under two names. One thing must come, the
finish reason: without it nobody could tell an answer from the beginning of one.
"""

from typing import Any

import msgspec

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
from crossclaw.providers.calls import call_ids, make_call_id, parse_arguments
from crossclaw.providers.contract import (
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

WIRE = "OpenAI chat completions"
BASE_URL = "https://api.openai.com/v1"

_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "error",
}


class OpenAIProvider:
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
        self._base_url = (base_url or BASE_URL).rstrip("/")
        key = clean_key(name, api_key)
        self._service = Service(
            Failures(name, host_of(name, self._base_url), WIRE, key),
            f"{self._base_url}/chat/completions",
            {"Authorization": f"Bearer {key}"},
            Patience(retries, connect_timeout_s, silence_timeout_s),
        )

    async def complete(self, request: ModelRequest, tell: Tell) -> AssistantMessage:
        answer = _Answer(request)
        params = completion_params(request, is_openai=self._base_url == BASE_URL)
        await self._service.ask(params, answer, tell)
        return answer.message(self.name, request.model)

    async def close(self) -> None:
        await self._service.close()


class _Call:
    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.wire_id: str | None = None
        self.name = ""
        self.parts: list[str] = []


class _Answer:
    """The message under construction. Calls are kept in the order in which they began."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._taken = call_ids(request)
        self._thinking: list[str] = []
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._usage: Any = None
        self._finish: str | None = None

    @property
    def finished(self) -> bool:
        return self._finish is not None

    def add(self, chunk: Any) -> list[Piece]:
        self._usage = chunk.get("usage") or self._usage
        pieces: list[Piece] = []
        for choice in chunk.get("choices") or []:
            if (delta := choice.get("delta")) is not None:
                pieces += self._read(delta)
            self._finish = choice.get("finish_reason") or self._finish
        return pieces

    def message(self, provider: str, model: str) -> AssistantMessage:
        stop = _STOP.get(self._finish or "", "end_turn")
        if stop == "end_turn" and self._calls:
            stop = "tool_use"  # several servers say `stop` after tool calls
        filtered = "the service's content filter stopped the answer; put the request differently"
        return AssistantMessage(
            content=self._blocks(),
            provider=provider,
            model=model,
            usage=_usage(self._usage),
            stop_reason=stop,
            error=filtered if stop == "error" else None,
        )

    def _read(self, delta: Any) -> list[Piece]:
        pieces: list[Piece] = []
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self._thinking.append(reasoning)
            pieces.append(ThinkingPiece(reasoning))
        for text in (delta.get("content"), delta.get("refusal")):
            if text:
                self._text.append(text)
                pieces.append(TextPiece(text))
        for part in delta.get("tool_calls") or []:
            pieces += self._extend_call(part)
        return pieces

    def _extend_call(self, part: Any) -> list[Piece]:
        call = self._call_of(part.get("index"), part.get("id"))
        function = part.get("function") or {}
        call.parts.append(function.get("arguments") or "")
        name = function.get("name")
        if call.name or not name:
            return []  # some servers repeat the name in every delta
        call.name = name
        return [ToolPiece(call.id, name)]

    def _call_of(self, index: int | None, wire_id: str | None) -> _Call:
        """By index; a new id under a used index begins a new call (some servers write 0 for all)."""
        call = self._by_index.get(index)
        if call is None or (wire_id and call.wire_id and wire_id != call.wire_id):
            call = _Call(self._free_id(wire_id))
            self._calls.append(call)
            self._by_index[index] = call
        call.wire_id = call.wire_id or wire_id
        return call

    def _free_id(self, wire_id: str | None) -> str:
        """The server's id, unless it is missing or the conversation has it already."""
        call_id = wire_id or make_call_id(self._request, len(self._calls))
        if call_id in self._taken:
            call_id = make_call_id(self._request, len(self._calls))
        self._taken.add(call_id)
        return call_id

    def _blocks(self) -> list[AssistantBlock]:
        thinking, text = "".join(self._thinking), "".join(self._text)
        blocks: list[AssistantBlock] = [Thinking(thinking)] if thinking else []
        if text:
            blocks.append(Text(text))
        calls = (ToolUse(c.id, c.name, parse_arguments("".join(c.parts))) for c in self._calls)
        return [*blocks, *calls]


def _usage(usage: Any) -> Usage | None:
    """None when the server did not count. Cached tokens are part of its prompt tokens."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = details.get("cached_tokens") or 0
    written = details.get("cache_write_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    return Usage(
        input=max(0, prompt - read - written),
        output=usage.get("completion_tokens") or 0,
        cache_read=read,
        cache_write=written,
    )


def completion_params(request: ModelRequest, *, is_openai: bool) -> dict[str, Any]:
    """The body of a request."""
    # OpenAI's newer models refuse the old name, other servers do not all know the new one.
    limit = "max_completion_tokens" if is_openai else "max_tokens"
    params: dict[str, Any] = {
        "model": request.model,
        "messages": [*_system(request), *(m for turn in request.turns for m in _messages(turn))],
        limit: request.output_tokens_max,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        params["tools"] = [_tool(tool) for tool in request.tools]
    if request.thinking != "off":
        params["reasoning_effort"] = request.thinking
    return params


def _system(request: ModelRequest) -> list[dict[str, Any]]:
    return [{"role": "system", "content": request.system}] if request.system.strip() else []


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", **tool.schema},
    }
    return {"type": "function", "function": function}


def _messages(turn: Turn) -> list[dict[str, Any]]:
    match turn:
        case AssistantTurn(content=content):
            return [_assistant(content)]
        case UserTurn(results=results, content=content):
            # A tool message holds words only: pictures follow in the user message after all results.
            pictures = [part for result in results for part in _pictures(result)]
            told = [*pictures, *(p for p in content if not isinstance(p, Text) or p.text.strip())]
            if not results and not told:
                told = [Text("(no words)")]
            return [*map(_tool_message, results), *_user(told)]


def _assistant(content: list[AssistantBlock]) -> dict[str, Any]:
    """Thinking stays behind: servers read it into their own next thought or refuse it."""
    text = "".join(block.text for block in content if isinstance(block, Text))
    calls = [_tool_call(block) for block in content if isinstance(block, ToolUse)]
    if calls:
        return {"role": "assistant", "content": text or None, "tool_calls": calls}
    return {"role": "assistant", "content": text or "(no words)"}


def _tool_call(call: ToolUse) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.input).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _tool_message(result: ToolReturn) -> dict[str, Any]:
    text = "\n".join(part.text for part in result.content if isinstance(part, Text))
    if result.is_error:
        text = f"Error: {text}"  # the wire has no field for it
    return {"role": "tool", "tool_call_id": result.tool_use_id, "content": text or "(no output)"}


def _pictures(result: ToolReturn) -> list[Text | Image]:
    images: list[Text | Image] = [part for part in result.content if isinstance(part, Image)]
    return [Text(f"Images from tool call {result.tool_use_id}:"), *images] if images else []


def _user(told: list[Text | Image]) -> list[dict[str, Any]]:
    """Plain words go as a string: chat templates of small servers know nothing else."""
    if not told:
        return []
    words = [part.text for part in told if isinstance(part, Text)]
    if len(words) == len(told):
        return [{"role": "user", "content": "\n\n".join(words)}]
    return [{"role": "user", "content": [_part(part) for part in told]}]


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = part.source
    inline = f"data:{source.media_type or 'image/png'};base64,{source.data}"
    return {"type": "image_url", "image_url": {"url": source.url or inline}}
