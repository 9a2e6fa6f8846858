"""OpenAI's Responses API, without state on their side: nothing is stored there, and the model's reasoning
comes to us encrypted and goes back with the next request.

It is the wire of `openai` at its official address: newer models take tools here only.
"""

from typing import Any

import msgspec

from crossclaw.config.catalogue import known_facts
from crossclaw.domain.errors import LevelRefused
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Document,
    Image,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.calls import plain_schema
from crossclaw.providers.contract import (
    AssistantTurn,
    LostSpending,
    ModelRequest,
    Part,
    Tell,
    ToolReturn,
    ToolSpec,
    Turn,
)
from crossclaw.providers.failures import Failures
from crossclaw.providers.openai import chat_listed
from crossclaw.providers.options import DEFAULTS, WireOptions, with_params
from crossclaw.providers.responses_reading import ResponsesAnswer
from crossclaw.providers.room import answer_limit
from crossclaw.providers.service import (
    CONNECT_S,
    RETRIES,
    SILENCE_S,
    CallLimits,
    ModelService,
    clean_key,
    host_of,
)

WIRE = "the OpenAI Responses API"
BASE_URL = "https://api.openai.com/v1"
LIMIT_LEAST = 16  # less is refused


class ResponsesProvider:
    def __init__(
        self,
        name: str,
        base_url: str | None,
        api_key: str,
        *,
        retries: int = RETRIES,
        connect_timeout_s: float = CONNECT_S,
        silence_timeout_s: float = SILENCE_S,
        options: WireOptions = DEFAULTS,
    ) -> None:
        self.name = name
        self._options = options
        self._base_url = (base_url or BASE_URL).rstrip("/")
        key = clean_key(name, api_key)
        self._failures = Failures(name, host_of(name, self._base_url), WIRE, key)
        self._service = ModelService(
            self._failures,
            f"{self._base_url}/responses",
            {"Authorization": f"Bearer {key}"},
            CallLimits(retries, connect_timeout_s, silence_timeout_s, options.timeout_s),
        )
        self._summaries = True
        """Summaries of reasoning need a verified organisation; without one the request is refused."""

    async def complete(self, request: ModelRequest, tell: Tell) -> AssistantMessage:
        try:
            return await self._complete(request, tell)
        except LevelRefused as error:
            if not self._summaries or "summar" not in str(error).lower():
                raise
        self._summaries = False
        return await self._complete(request, tell)

    async def _complete(self, request: ModelRequest, tell: Tell) -> AssistantMessage:
        options, facts = self._options.of(request.model), self._options.facts(request.model)
        params = response_params(request, facts, summaries=self._summaries)
        params = with_params(params, options.params, request.params)
        answer = ResponsesAnswer(request)
        await self._service.ask(params, answer, tell, headers=options.headers)
        if (why := answer.declined) is not None:
            tell(LostSpending(answer.usage or Usage()))
            raise self._failures.declined(why)
        return answer.message(self.name, request.model)

    async def list_models(self) -> list[ListedModel]:
        return await self._service.get(
            f"{self._base_url}/models",
            lambda found: [chat_listed(model) for model in found.get("data") or []],
        )

    async def close(self) -> None:
        await self._service.close()


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
    """Models that cannot think refuse to be asked for what they thought."""
    if facts.thinking == "none" or (facts.thinking == "unknown" and request.thinking == "off"):
        return {}
    asked: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    effort = facts.level(request.thinking) or request.thinking
    if request.thinking == "off":
        effort = "none" if facts.off == "none" else next(iter(facts.levels), "low")
    shown = {"summary": "auto"} if summaries and effort != "none" else {}
    return asked | {"reasoning": {"effort": effort, **shown}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": plain_schema(tool.schema),
        "strict": False,  # left out, the service would make every parameter required
    }


def _items(turn: Turn) -> list[dict[str, Any]]:
    if isinstance(turn, AssistantTurn):
        return _said(turn.content)
    told = [part for part in turn.content if not isinstance(part, Text) or part.text.strip()]
    if not turn.results and not told:
        told = [Text("(no words)")]
    message = [{"role": "user", "content": [_part(part) for part in told]}] if told else []
    return [*map(_output, turn.results), *message]


def _said(content: list[AssistantBlock]) -> list[dict[str, Any]]:
    """In their order: reasoning is refused without what followed it."""
    items: list[dict[str, Any]] = []
    for block in content:
        match block:
            case Thinking(extra=dict(extra)) if "reasoning" in extra:
                items.append(extra["reasoning"])
            case Text(text=text) if text.strip():
                phase = {"phase": block.extra["phase"]} if block.extra else {}
                items.append({"role": "assistant", "content": text, **phase})
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
    return items or [{"role": "assistant", "content": "(no words)"}]


def _output(result: ToolReturn) -> dict[str, Any]:
    words = "\n".join(part.text for part in result.content if isinstance(part, Text))
    words = f"Error: {words}" if result.is_error else words or "(no output)"
    pictures = [_part(part) for part in result.content if isinstance(part, Image)]
    output: Any = words
    if pictures:
        output = [{"type": "input_text", "text": words}, *pictures]
    return {"type": "function_call_output", "call_id": result.tool_use_id, "output": output}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    source = part.source
    if isinstance(part, Document):
        inline = f"data:{source.media_type};base64,{source.data}"
        return {"type": "input_file", "filename": part.title or "file", "file_data": inline}
    inline = f"data:{source.media_type or 'image/png'};base64,{source.data}"
    return {"type": "input_image", "image_url": source.url or inline}
