"""Gemini: Google's own API (generateContent); the signatures of its thoughts are kept and
returned."""

from typing import Any

from crossclaw.domain.messages import (
    AssistantBlock,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.domain.texts import NO_OUTPUT
from crossclaw.providers.answer_limits import answer_limit, thinking_budget
from crossclaw.providers.calls import plain_schema, tool_names
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    Part,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    Turn,
)
from crossclaw.providers.listing import size
from crossclaw.providers.options import ModelOptions, with_params
from crossclaw.providers.parts import (
    NO_SIGNATURE,
    NO_WORDS,
    media_type,
    pictures,
    without_blank_texts,
)
from crossclaw.providers.wire import WireAnswer, WireProvider

_STOP: dict[str, StopReason] = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens"}
_MALFORMED = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL")
_UNSPECIFIED = ("FINISH_REASON_UNSPECIFIED", "OTHER", "CONTINUATION")


class _AnswerBuilder(WireAnswer):
    """The message under construction. Parts come one after the other; text of one kind is joined
    until another kind comes."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._blocks: list[AssistantBlock] = []
        self._usage: Any = None
        self._finish: str | None = None
        self._blocked: str | None = None

    @property
    def finished(self) -> bool:
        return self._finish is not None or self._blocked is not None

    @property
    def usage(self) -> Usage | None:
        return _usage(self._usage)

    @property
    def declined(self) -> str | None:
        if self._blocked:
            return f"the prompt was blocked: {self._blocked}"
        known = (*_STOP, *_MALFORMED, *_UNSPECIFIED)
        return None if self._finish in known else f"it stopped for {self._finish}"

    def add(self, chunk: Any) -> list[ModelPiece]:
        self._usage = chunk.get("usageMetadata") or self._usage
        self._blocked = (chunk.get("promptFeedback") or {}).get("blockReason") or self._blocked
        pieces: list[ModelPiece] = []
        for candidate in chunk.get("candidates") or []:
            for part in (candidate.get("content") or {}).get("parts") or []:
                pieces += self._part(part)
            self._finish = candidate.get("finishReason") or self._finish
        return pieces

    def whole(self, body: Any) -> list[ModelPiece]:
        return self.add(body)

    @property
    def blocks(self) -> list[AssistantBlock]:
        return self._blocks

    @property
    def stop(self) -> StopReason:
        return _STOP.get(self._finish or "", "end_turn")

    def _part(self, part: Any) -> list[ModelPiece]:
        signature = part.get("thoughtSignature")
        extra = {"thoughtSignature": signature} if signature else None
        if call := part.get("functionCall"):
            return self._call(call, extra)
        text = part.get("text") or ""
        last = self._blocks[-1] if self._blocks else None
        if part.get("thought"):
            grows = isinstance(last, Thinking) and last.extra is None
            before = self._blocks.pop().thinking if grows else ""  # type: ignore[union-attr]
            self._blocks.append(Thinking(before + text, extra=extra))
            return [ThinkingPiece(text)] if text else []
        if not text and extra is None:
            return []
        if isinstance(last, Text) and last.extra is None:
            self._blocks[-1] = Text(last.text + text, extra=extra)
        else:
            self._blocks.append(Text(text, extra=extra))
        return [TextPiece(text)] if text else []

    def _call(self, call: Any, extra: dict[str, Any] | None) -> list[ModelPiece]:
        number = sum(isinstance(block, ToolUse) for block in self._blocks)
        call_id = self._ids.make(call.get("id"), number)
        self._blocks.append(ToolUse(call_id, call["name"], call.get("args") or {}, extra=extra))
        return [ToolPiece(call_id, call["name"])]


class GeminiProvider(WireProvider):
    answer = _AnswerBuilder
    wire = "Google's Gemini API"
    official = "https://generativelanguage.googleapis.com/v1beta"

    def _headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def _url(self, request: ModelRequest) -> str:
        model = request.model.removeprefix("models/")
        return f"{self._base_url}/models/{model}:streamGenerateContent?alt=sse"

    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        return generate_params(request, facts)

    def _with_own(self, params: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """The parameters with the config's own. Fields of `generationConfig` are added to ours."""
        shared = {ours: own.pop(name) for name, ours in _CONFIG.items() if name in own}
        with_params(params["generationConfig"], shared, own.pop("generationConfig", None) or {})
        return super()._with_own(params, own)

    async def list_models(self) -> list[ListedModel]:
        return await self._service.get(f"{self._base_url}/models?pageSize=1000", _listed)


def _listed(found: Any) -> list[ListedModel]:
    return [
        ListedModel(
            id=model["name"].removeprefix("models/"),
            name=model.get("displayName"),
            window=size(model.get("inputTokenLimit")),
            output=size(model.get("outputTokenLimit")),
            thinks=model.get("thinking"),
        )
        for model in found.get("models") or []
        if "generateContent" in (model.get("supportedGenerationMethods") or ["generateContent"])
    ]


def generate_params(request: ModelRequest, facts: ModelFacts) -> dict[str, Any]:
    """The body of a request."""
    names = tool_names(request.turns)
    config: dict[str, Any] = {"maxOutputTokens": answer_limit(request, facts)}
    if thinking := _thinking(request, facts):
        config["thinkingConfig"] = thinking
    params: dict[str, Any] = {
        "contents": [_content(turn, names) for turn in request.turns],
        "generationConfig": config,
    }
    if request.system.strip():
        params["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declared = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": plain_schema(tool.schema),
            }
            for tool in request.tools
        ]
        params["tools"] = [{"functionDeclarations": declared}]
    return params


_CONFIG = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed"}
"""Parameters that other services take at the top of a request, and Gemini only in its
`generationConfig`."""


def _thinking(request: ModelRequest, facts: ModelFacts) -> dict[str, Any]:
    if facts.thinking == "none" or (facts.thinking == "unknown" and request.thinking == "off"):
        return {}
    if facts.thinking == "level":
        level = facts.level(request.thinking) or facts.levels[0]
        return {"thinkingLevel": level.upper(), "includeThoughts": request.thinking != "off"}
    if request.thinking == "off":
        return {"thinkingBudget": 0 if facts.off == "disabled" else 128}
    return {"thinkingBudget": thinking_budget(request, facts), "includeThoughts": True}


def _content(turn: Turn, names: dict[str, str]) -> dict[str, Any]:
    if isinstance(turn, AssistantTurn):
        parts = [part for block in turn.content if (part := _said(block))]
        _sign_first_call(parts)
        return {"role": "model", "parts": parts or [{"text": NO_WORDS}]}
    results = [part for result in turn.results for part in _result(result, names)]
    parts = [*results, *map(_part, without_blank_texts(turn.content))]
    return {"role": "user", "parts": parts or [{"text": NO_WORDS}]}


def _said(block: AssistantBlock) -> dict[str, Any] | None:
    signed = block.extra if block.extra and "thoughtSignature" in block.extra else {}
    match block:
        case Text(text=text) if text.strip() or signed:
            return {"text": text, **signed}
        case Thinking(thinking=text) if signed:
            return {"text": text, "thought": True, **signed}
        case ToolUse(name=name, input=arguments):
            return {"functionCall": {"name": name, "args": arguments}, **signed}
    return None


def _sign_first_call(parts: list[dict[str, Any]]) -> None:
    """Adds a placeholder signature to the first call, if none has one: of several calls at once the
    first carries it, and calls of another model have none."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = NO_SIGNATURE


def _result(result: ToolReturn, names: dict[str, str]) -> list[dict[str, Any]]:
    words = "\n".join(part.text for part in result.content if isinstance(part, Text))
    response = {"error": words} if result.is_error else {"output": words or NO_OUTPUT}
    name = names.get(result.tool_use_id, "unknown")
    shown = {"functionResponse": {"name": name, "response": response}}
    return [shown, *map(_part, pictures(result))]


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    source = part.source
    if source.url:
        return {"fileData": {"mimeType": media_type(part), "fileUri": source.url}}
    return {"inlineData": {"mimeType": media_type(part), "data": source.data}}


def _usage(usage: Any) -> Usage | None:
    """The usage. Thoughts are paid as output and counted beside it."""
    if not isinstance(usage, dict):
        return None
    read = usage.get("cachedContentTokenCount") or 0
    prompt = (usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0)
    said = (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0)
    return Usage(input=max(0, prompt - read), output=said, cache_read=read)
