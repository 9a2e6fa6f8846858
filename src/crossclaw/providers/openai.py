"""OpenAI: chat completions, at any base URL (llama.cpp, vLLM, gateways, other services).

How the services differ is in `dialects.py`, how an answer is read in `chat_reading.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from crossclaw.config.catalogue import known_facts
from crossclaw.domain.errors import ProviderError, ProviderRefused
from crossclaw.domain.messages import (
    AssistantBlock,
    Document,
    Image,
    Text,
    Thinking,
    ToolUse,
)
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.answer_limits import answer_limit
from crossclaw.providers.calls import function_of, nine_letters, tool_names
from crossclaw.providers.chat_reading import ChatAnswer
from crossclaw.providers.contract import (
    AssistantTurn,
    CacheMarks,
    ModelRequest,
    Part,
    ToolReturn,
    Turn,
    UserTurn,
)
from crossclaw.providers.dialects import WireDialect, dialect_of
from crossclaw.providers.listing import named, size
from crossclaw.providers.options import ModelOptions
from crossclaw.providers.parts import (
    NO_SIGNATURE,
    NO_WORDS,
    inline,
    picture_url,
    pictures,
    result_words,
    said,
    without_blank_texts,
)
from crossclaw.providers.wire import WireProvider

BETWEEN = "(The results are there.)"


class OpenAIProvider(WireProvider):
    wire = "OpenAI chat completions"
    official = "https://api.openai.com/v1"
    path = "/chat/completions"
    answer = ChatAnswer

    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        is_openai = self._base_url == self.official
        dialect = dialect_of(
            self._base_url, request.model, facts, options.compat, is_openai=is_openai
        )
        if is_openai and facts.chat_tools == "no" and request.tools:
            raise ProviderRefused(
                f"{request.model} takes no tools over chat completions; set"
                f' models.providers.{self.name}.api to "openai-responses"'
            )
        return completion_params(request, facts, dialect)

    async def list_models(self) -> list[ListedModel]:
        return await self._service.get(f"{self._base_url}/models", chat_listed)

    async def describe(self, model: str) -> ListedModel | None:
        """A model's facts, from the service's list; if that has no window, from what llama.cpp and
        LM Studio offer beside it."""
        found = named(await self.list_models(), model)
        if found is None or found.window:
            return found
        root = self._base_url.removesuffix("/v1")
        for path, read in _BESIDE.items():
            with suppress(ProviderError):
                if window := await self._service.get(f"{root}{path}", partial(read, model)):
                    return msgspec.structs.replace(found, window=window)
        return found


def chat_listed(found: Any) -> list[ListedModel]:
    return [_listed(model) for model in found.get("data") or []]


def _listed(model: Any) -> ListedModel:
    """A model's facts from a list. OpenAI gives only names. More is given by OpenRouter, Together
    (context_length), vLLM, SGLang (max_model_len), Mistral (max_context_length), Groq
    (context_window) and llama.cpp (meta.n_ctx, a slot's share; n_ctx_train is what the model could,
    not what it has). Their API references; 2026-11-16."""
    top, meta = model.get("top_provider") or {}, model.get("meta") or {}
    shape = (model.get("architecture") or {}).get("input_modalities")
    names = ("context_length", "max_model_len", "max_context_length", "context_window")
    return ListedModel(
        id=model["id"],
        name=model.get("name"),
        window=size(*map(model.get, names), meta.get("n_ctx")),
        output=size(top.get("max_completion_tokens")),
        pictures="image" in shape if isinstance(shape, list) else None,
    )


def _slot_window(_model: str, props: Any) -> int | None:
    return size((props.get("default_generation_settings") or {}).get("n_ctx"))


def _loaded_window(model: str, listed: Any) -> int | None:
    found: Any = next((m for m in listed.get("data") or [] if m.get("id") == model), {})
    return size(found.get("loaded_context_length"), found.get("max_context_length"))


_BESIDE: dict[str, Callable[[str, Any], int | None]] = {
    "/props": _slot_window,  # llama.cpp: tools/server/README.md, GET /props; 2026-11-16
    "/api/v0/models": _loaded_window,  # LM Studio: lmstudio.ai/docs/api/rest-api; 2026-11-16
}


def completion_params(
    request: ModelRequest, facts: ModelFacts | None = None, dialect: WireDialect | None = None
) -> dict[str, Any]:
    """The body of a request."""
    facts = facts or known_facts(request.model)
    dialect = dialect or WireDialect()
    messages = [*_system(request), *_conversation(request.turns, dialect)]
    params: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        dialect.limit_name: answer_limit(request, facts),
        "stream": True,
        **_thinking(request, facts, dialect),
    }
    if dialect.usage_in_stream:
        params["stream_options"] = {"include_usage": True}
    if dialect.cache_key and request.session:
        params["prompt_cache_key"] = request.session
    if request.tools:
        params["tools"] = [
            {"type": "function", "function": function_of(tool)} for tool in request.tools
        ]
    if dialect.cache_marks:
        _mark(params, request.cache)
    return params


def _thinking(request: ModelRequest, facts: ModelFacts, dialect: WireDialect) -> dict[str, Any]:
    """The thinking parameters, which each service names differently."""
    on = request.thinking != "off"
    level = _level(request, facts)
    match dialect.thinking:
        case "none":
            return {}
        case "openrouter":
            return {"reasoning": {"effort": level}} if on else _quiet_router(facts)
        case "zai" | "deepseek":
            return {"thinking": {"type": "enabled" if on else "disabled"}}
        case "qwen":
            return {"enable_thinking": on}
        case "qwen-chat-template":
            return {"chat_template_kwargs": {"enable_thinking": on}}
    if facts.off == "none" and (not on or _thinks_not_with_tools(request, facts, dialect)):
        return {"reasoning_effort": "none"}
    if on:
        return {"reasoning_effort": level}
    if facts.always_thinks and facts.levels:
        return {"reasoning_effort": facts.levels[0]}
    return {}


def _thinks_not_with_tools(request: ModelRequest, facts: ModelFacts, dialect: WireDialect) -> bool:
    return bool(request.tools) and facts.chat_tools == "unthinking" and dialect.is_openai


def _quiet_router(facts: ModelFacts) -> dict[str, Any]:
    """The parameters that switch thinking off on OpenRouter. Only for models that think unasked;
    others would refuse them."""
    if not facts.thinks_unasked:
        return {}
    return {"reasoning": {"effort": "low"} if facts.always_thinks else {"enabled": False}}


def _level(request: ModelRequest, facts: ModelFacts) -> str:
    """The thinking level by its name at the service. Unknown models get one that all models with
    levels know."""
    known = {"minimal": "low", "xhigh": "high"}
    return facts.level(request.thinking) or known.get(request.thinking, request.thinking)


def _mark(params: dict[str, Any], cache: CacheMarks) -> None:
    """Sets Anthropic's cache marks through OpenRouter, on the last text of a message. Tools come
    before the system prompt, whose mark covers them."""
    mark = {"type": "ephemeral"} if cache.ttl == "5m" else {"type": "ephemeral", "ttl": cache.ttl}
    messages: list[dict[str, Any]] = params["messages"]
    said = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    places = [*([0] if messages[0]["role"] == "system" else []), len(messages) - 1]
    if said:  # where the last request ended
        places.append(said[-1] - 1)
    for place in dict.fromkeys(places):
        content = messages[place]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts: list[dict[str, Any]] = [part for part in parts or [] if part["type"] == "text"]
        if texts:
            texts[-1]["cache_control"] = mark
            messages[place]["content"] = parts


def _system(request: ModelRequest) -> list[dict[str, Any]]:
    return [{"role": "system", "content": request.system}] if request.system.strip() else []


def _conversation(turns: list[Turn], dialect: WireDialect) -> list[dict[str, Any]]:
    names = tool_names(turns)
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            messages.append(_assistant(turn.content, dialect))
        else:
            messages += _user_messages(turn, names, dialect)
    return messages


def _user_messages(
    turn: UserTurn, names: dict[str, str], dialect: WireDialect
) -> list[dict[str, Any]]:
    # A tool message holds words only: pictures follow in the user message after all results.
    shown = [part for result in turn.results for part in _pictures(result)] + without_blank_texts(
        turn.content
    )
    if not turn.results and not shown:
        shown = [Text(NO_WORDS)]
    results = [_tool_message(result, names, dialect) for result in turn.results]
    between = results and shown and dialect.assistant_after_results
    bridge = [{"role": "assistant", "content": BETWEEN}] if between else []
    return [*results, *bridge, *_user(shown)]


def _assistant(content: list[AssistantBlock], dialect: WireDialect) -> dict[str, Any]:
    """An assistant's message. Thinking is left out, except for a server that wants its own back."""
    text = said(content)
    calls = [_tool_call(block, dialect) for block in content if isinstance(block, ToolUse)]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, **_state(content)}
    if calls:
        message["tool_calls"] = calls
        if dialect.reasoning_always:
            message.setdefault("reasoning_content", "")
    elif not text:
        message["content"] = NO_WORDS
    return message


def _state(content: list[AssistantBlock]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for block in content:
        if not isinstance(block, Thinking) or not block.extra:
            continue
        if block.extra.get("field") == "reasoning_content":
            state["reasoning_content"] = state.get("reasoning_content", "") + block.thinking
        if details := block.extra.get("reasoning_details"):
            state["reasoning_details"] = [*state.get("reasoning_details", []), *details]
    return state


def _tool_call(call: ToolUse, dialect: WireDialect) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.input).decode()
    wire: dict[str, Any] = {
        "id": _id(call.id, dialect),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
    if call.extra and "extra_content" in call.extra:
        wire["extra_content"] = call.extra["extra_content"]
    elif dialect.signatures_always:
        wire["extra_content"] = {"google": {"thought_signature": NO_SIGNATURE}}
    return wire


def _id(call_id: str, dialect: WireDialect) -> str:
    return nine_letters(call_id) if dialect.nine_letter_ids else call_id


def _tool_message(
    result: ToolReturn, names: dict[str, str], dialect: WireDialect
) -> dict[str, Any]:
    call_id = _id(result.tool_use_id, dialect)
    message = {"role": "tool", "tool_call_id": call_id, "content": result_words(result)}
    if dialect.names_in_results:
        message["name"] = names.get(result.tool_use_id, "unknown")
    return message


def _pictures(result: ToolReturn) -> list[Text | Image]:
    images = pictures(result)
    return [Text(f"Images from tool call {result.tool_use_id}:"), *images] if images else []


def _user(shown: list[Part]) -> list[dict[str, Any]]:
    """A user's message. Plain text is a string: chat templates of small servers accept nothing
    else."""
    if not shown:
        return []
    words = [part.text for part in shown if isinstance(part, Text)]
    if len(words) == len(shown):
        return [{"role": "user", "content": "\n\n".join(words)}]
    return [{"role": "user", "content": [_part(part) for part in shown]}]


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Document):
        return {
            "type": "file",
            "file": {"filename": part.title or "file", "file_data": inline(part)},
        }
    return {"type": "image_url", "image_url": {"url": picture_url(part)}}
