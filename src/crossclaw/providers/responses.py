"""OpenAI's Responses API, without state on their side: nothing is stored there, and the model's
reasoning comes to us encrypted and goes back with the next request.

It is the API of `openai` at its official address: newer models take tools only here.
"""

from typing import Any

import msgspec

from crossclaw.config.catalogue import known_facts
from crossclaw.domain.errors import LevelRefused
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Document,
    Text,
    Thinking,
    ToolUse,
)
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.answer_limits import answer_limit
from crossclaw.providers.calls import function_of
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelRequest,
    Part,
    TellPiece,
    ToolReturn,
    ToolSpec,
    Turn,
)
from crossclaw.providers.openai import OpenAIProvider, chat_listed
from crossclaw.providers.options import ModelOptions
from crossclaw.providers.parts import (
    NO_WORDS,
    inline,
    picture_url,
    pictures,
    result_words,
    without_blank_texts,
)
from crossclaw.providers.responses_reading import ResponsesAnswer
from crossclaw.providers.wire import WireProvider

LIMIT_LEAST = 16  # less is refused


class ResponsesProvider(WireProvider):
    wire = "the OpenAI Responses API"
    official = OpenAIProvider.official
    path = "/responses"
    answer = ResponsesAnswer

    _summaries = True
    """Whether to ask for summaries of reasoning. They need a verified organisation; without one the
    request is refused."""

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        try:
            return await super().complete(request, tell)
        except LevelRefused as error:
            if not self._summaries or "summar" not in str(error).lower():
                raise
        self._summaries = False
        return await super().complete(request, tell)

    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        return response_params(request, facts, summaries=self._summaries)

    async def list_models(self) -> list[ListedModel]:
        return await self._service.get(f"{self._base_url}/models", chat_listed)


def response_params(
    request: ModelRequest, facts: ModelFacts | None = None, *, summaries: bool = True
) -> dict[str, Any]:
    """The body of a request."""
    facts = facts or known_facts(request.model)
    params: dict[str, Any] = {
        "model": request.model,
        "input": [item for turn in request.turns for item in _items(turn)],
        "max_output_tokens": max(LIMIT_LEAST, answer_limit(request, facts)),
        "stream": True,
        "store": False,
        **_reasoning(request, facts, summaries=summaries),
    }
    if request.system.strip():
        params["instructions"] = request.system
    if request.tools:
        params["tools"] = [_tool(tool) for tool in request.tools]
    if request.session:
        params["prompt_cache_key"] = request.session
    return params


def _reasoning(request: ModelRequest, facts: ModelFacts, *, summaries: bool) -> dict[str, Any]:
    """The reasoning parameters. Models that cannot think refuse to be asked for it."""
    if facts.thinking == "none" or (facts.thinking == "unknown" and request.thinking == "off"):
        return {}
    asked: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    effort = facts.level(request.thinking) or request.thinking
    if request.thinking == "off":
        effort = "none" if facts.off == "none" else next(iter(facts.levels), "low")
    shown = {"summary": "auto"} if summaries and effort != "none" else {}
    return asked | {"reasoning": {"effort": effort, **shown}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    # Left out, `strict` would make every parameter required.
    return {"type": "function", **function_of(tool), "strict": False}


def _items(turn: Turn) -> list[dict[str, Any]]:
    if isinstance(turn, AssistantTurn):
        return _said(turn.content)
    shown = without_blank_texts(turn.content)
    if not turn.results and not shown:
        shown = [Text(NO_WORDS)]
    message = [{"role": "user", "content": [_part(part) for part in shown]}] if shown else []
    return [*map(_output, turn.results), *message]


def _said(content: list[AssistantBlock]) -> list[dict[str, Any]]:
    """An assistant's items in order: reasoning is refused without what followed it."""
    items: list[dict[str, Any]] = []
    for block in content:
        match block:
            case Thinking(extra=dict(extra)) if "reasoning" in extra:
                items.append(extra["reasoning"])
            case Text(text=text) if text.strip():
                phase = {"phase": block.extra["phase"]} if block.extra else {}
                items.append(_message(text) | phase)
            case ToolUse(id=call_id, name=name, input=arguments):
                written = msgspec.json.encode(arguments).decode()
                items.append(
                    {
                        "type": "function_call",
                        "call_id": call_id,
                        "name": name,
                        "arguments": written,
                    }
                )
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items or [_message(NO_WORDS)]


def _message(text: str) -> dict[str, Any]:
    """A message item, with its type, which llama.cpp needs and OpenAI does not."""
    return {"type": "message", "role": "assistant", "content": text}


def _output(result: ToolReturn) -> dict[str, Any]:
    output: Any = result_words(result)
    if images := pictures(result):
        output = [{"type": "input_text", "text": output}, *map(_part, images)]
    return {"type": "function_call_output", "call_id": result.tool_use_id, "output": output}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Document):
        return {"type": "input_file", "filename": part.title or "file", "file_data": inline(part)}
    return {"type": "input_image", "image_url": picture_url(part)}
