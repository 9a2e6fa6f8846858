"""Ollama: its own API, because only there a request can set the size of the window.

By default, Ollama takes a window of a few thousand tokens and silently drops what does not fit.
Here each request says `num_ctx`, the same window that the conversation is compacted for, and asks
not to be cut: what does not fit is refused, and the conversation is compacted.
"""

import re
from functools import partial
from typing import Any

from crossclaw.domain.errors import ProviderError
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
from crossclaw.providers.answer_limits import answer_limit
from crossclaw.providers.calls import function_of, parse_arguments, tool_names
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    Turn,
    in_words,
)
from crossclaw.providers.listing import size
from crossclaw.providers.options import ModelOptions
from crossclaw.providers.parts import (
    NO_WORDS,
    result_words,
    said,
    with_thought,
    without_blank_texts,
)
from crossclaw.providers.service import (
    SILENCE_S,
)
from crossclaw.providers.wire import WireAnswer, WireProvider

LOADING_S = 600.0
"""The longest wait for the first word of a large model: it is read from the disk first, and nothing
is sent meanwhile."""

_STOP: dict[str, StopReason] = {"stop": "end_turn", "length": "max_tokens"}


class _AnswerBuilder(WireAnswer):
    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._thinking: list[str] = []
        self._text: list[str] = []
        self._calls: list[ToolUse] = []
        self._last: Any = None

    @property
    def finished(self) -> bool:
        return self._last is not None

    @property
    def usage(self) -> Usage | None:
        if self._last is None or "eval_count" not in self._last:
            return None
        return Usage(
            input=self._last.get("prompt_eval_count") or 0, output=self._last.get("eval_count") or 0
        )

    def add(self, line: Any) -> list[ModelPiece]:
        message = line.get("message") or {}
        pieces: list[ModelPiece] = []
        if thought := message.get("thinking"):
            self._thinking.append(thought)
            pieces.append(ThinkingPiece(thought))
        if text := message.get("content"):
            self._text.append(text)
            pieces.append(TextPiece(text))
        for call in message.get("tool_calls") or []:
            pieces.append(self._call(call["function"]))
        if line.get("done"):
            self._last = line
        return pieces

    def whole(self, body: Any) -> list[ModelPiece]:
        return self.add({**body, "done": True})

    @property
    def blocks(self) -> list[AssistantBlock]:
        thought = "".join(self._thinking)
        thinking = Thinking(thought, extra={"field": "thinking"}) if thought else None
        return [*with_thought(thinking, "".join(self._text)), *self._calls]

    @property
    def stop(self) -> StopReason:
        return _STOP.get(self._last.get("done_reason") or "stop", "end_turn")

    def _call(self, function: Any) -> ModelPiece:
        """Its ids, where it has any, repeat in every answer: ours do not."""
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            arguments = parse_arguments(arguments)
        call_id = self._ids.make(None, len(self._calls))
        self._calls.append(ToolUse(call_id, function["name"], arguments or {}))
        return ToolPiece(call_id, function["name"])


class OllamaProvider(WireProvider):
    answer = _AnswerBuilder
    wire = "the Ollama API"
    official = "http://127.0.0.1:11434"
    path = "/api/chat"
    in_lines = True

    def __init__(self, *given: Any, silence_timeout_s: float = SILENCE_S, **options: Any) -> None:
        silence_s = LOADING_S if silence_timeout_s == SILENCE_S else silence_timeout_s
        super().__init__(*given, silence_timeout_s=silence_s, **options)

    def _address(self, base_url: str) -> str:
        # People write the address that OpenAI's clients use.
        return base_url.removesuffix("/v1").removesuffix("/api")

    def _headers(self, key: str) -> dict[str, str]:
        return {**super()._headers(key), "Accept": "application/x-ndjson"}

    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        return chat_params(request, facts)

    def _with_own(self, params: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """The parameters with the config's own. `num_ctx` and the like go into the options,
        wherever a person wrote them."""
        params["options"] |= {name: own.pop(name) for name in list(own) if name in _OPTIONS}
        return super()._with_own(params, own)

    async def list_models(self) -> list[ListedModel]:
        """The installed models, and what each can do: nothing of it has to be written down by
        hand."""
        names = await self._service.get(
            f"{self._base_url}/api/tags",
            lambda found: [str(model["name"]) for model in found.get("models") or []],
        )
        listed = []
        for name in names:
            try:
                listed.append(await self.describe(name))
            except ProviderError:
                listed.append(ListedModel(id=name))
        return listed

    async def describe(self, model: str) -> ListedModel:
        return await self._service.post(
            f"{self._base_url}/api/show", {"model": model}, partial(_listed, model)
        )


_OPTIONS = frozenset({"num_ctx", "num_predict", "num_gpu", "temperature", "top_p", "top_k", "seed"})


def _listed(name: str, shown: Any) -> ListedModel:
    """A model's facts: what it was trained for, and what its Modelfile gives it
    (docs.ollama.com/api-reference/ show-model-details; 2026-11-16)."""
    can = shown.get("capabilities")
    windows = [
        value
        for key, value in (shown.get("model_info") or {}).items()
        if key.endswith(".context_length")
    ]
    known = isinstance(can, list)
    given = re.search(r"^num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE)
    return ListedModel(
        id=name,
        window=size(*windows),
        pictures="vision" in can if known else None,
        tools="tools" in can if known else None,
        thinks="thinking" in can if known else None,
        given=int(given.group(1)) if given else None,
    )


def chat_params(request: ModelRequest, facts: ModelFacts) -> dict[str, Any]:
    """The body of a request."""
    names = tool_names(request.turns)
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    params: dict[str, Any] = {
        "model": request.model,
        "messages": [*system, *(m for turn in request.turns for m in _messages(turn, names))],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {
            "num_ctx": facts.window,
            "num_predict": min(answer_limit(request, facts), facts.window // 2),
        },
    }
    if request.thinking != "off":
        params["think"] = True
    elif facts.thinks_unasked:
        params["think"] = False
    if request.tools:
        params["tools"] = [
            {"type": "function", "function": function_of(tool)} for tool in request.tools
        ]
    return params


def _messages(turn: Turn, names: dict[str, str]) -> list[dict[str, Any]]:
    if isinstance(turn, AssistantTurn):
        return [_assistant(turn.content)]
    messages = []
    for result in turn.results:
        name, words = names.get(result.tool_use_id, ""), result_words(result, "\n\n")
        message = {"role": "tool", "tool_name": name, "content": words}
        messages.append(message | _pictures(result.content))
    if turn.content or not turn.results:
        shown = [in_words(part) for part in turn.content]
        words = _words(shown) or NO_WORDS
        messages.append({"role": "user", "content": words} | _pictures(shown))
    return messages


def _assistant(content: list[AssistantBlock]) -> dict[str, Any]:
    text = said(content)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    thoughts = [b.thinking for b in content if isinstance(b, Thinking) and b.extra]
    if thoughts:
        message["thinking"] = "".join(thoughts)
    calls = [
        {"function": {"name": block.name, "arguments": block.input}}
        for block in content
        if isinstance(block, ToolUse)
    ]
    if calls:
        message["tool_calls"] = calls
    elif not text:
        message["content"] = NO_WORDS
    return message


def _words(content: list[Text | Image]) -> str:
    return "\n\n".join(part.text for part in without_blank_texts(content) if isinstance(part, Text))


def _pictures(content: list[Text | Image]) -> dict[str, Any]:
    """The pictures of a message, inline ones only: Ollama fetches nothing."""
    images = [p.source.data for p in content if isinstance(p, Image) and p.source.data]
    return {"images": images} if images else {}
