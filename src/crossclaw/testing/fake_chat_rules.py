"""What OpenAI's chat completions refuse, and what the services that speak alike refuse."""

import re
from collections.abc import Iterator
from itertools import pairwise

from crossclaw.domain.aliases import Json
from crossclaw.testing.fake_facts import gpt
from crossclaw.testing.fake_files import openai_file_complaint
from crossclaw.testing.fake_pictures import openai_complaint
from crossclaw.testing.fake_rules import ALL, ServiceRules


def chat_complaints(body: Json, rules: ServiceRules = ALL) -> Iterator[str]:
    if not body.get("model"):
        yield "you must provide a model parameter"
    if not body.get("messages"):
        yield "[] is too short - 'messages'"
    yield from _model_complaints(body, rules)
    yield from _service_complaints(body, rules)
    open_calls: set[str] = set()
    for place, message in enumerate(body.get("messages") or []):
        yield from _message_complaints(place, message, rules)
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield (
                    f"messages with role 'tool' must be a response to a preceding message with"
                    f" 'tool_calls' (messages.[{place}])"
                )
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            yield _unanswered(open_calls)
        open_calls = {call["id"] for call in message.get("tool_calls") or []}
    if open_calls:
        yield _unanswered(open_calls)


def _unanswered(calls: set[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        f" each 'tool_call_id'. Missing: {', '.join(sorted(calls))}"
    )


def _message_complaints(place: int, message: Json, rules: ServiceRules) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        yield f"Invalid value: '{role}' (messages[{place}].role)"
    if content is None and not (role == "assistant" and message.get("tool_calls")):
        yield f"Invalid value for 'content': expected a string, got null (messages.[{place}])"
    for call in message.get("tool_calls") or []:
        if not isinstance(call.get("function", {}).get("arguments"), str) or not call.get("id"):
            yield f"Invalid tool call (messages[{place}].tool_calls)"
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "image_url" and role != "user":
            yield f"image_url is only allowed in user messages (messages[{place}])"
        url = (
            part.get("image_url", {}).get("url") if part.get("type") == "image_url" else "https://"
        )
        if not url:
            yield f"Invalid image_url (messages[{place}])"
        elif "openai.pictures" in rules and (complaint := openai_complaint(url)):
            yield complaint
        if part.get("type") == "file" and "openai.files" in rules:
            yield from filter(None, [openai_file_complaint(part.get("file") or {})])


def service_of(model: str) -> str:
    """The service whose rules hold, by the model's name."""
    if "/" in model:
        return "openrouter"
    starts = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "gemini": "gemini"}
    starts |= {"deepseek": "deepseek", "mistral": "mistral", "devstral": "mistral"}
    return next((who for start, who in starts.items() if model.startswith(start)), "other")


def chat_thinks(body: Json) -> bool:
    model = str(body.get("model"))
    effort = body.get("reasoning_effort")
    if effort is None:
        return service_of(model) == "deepseek" or gpt(model).unasked
    return bool(effort != "none")


def _model_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    model = str(body.get("model"))
    for tool in body.get("tools") or []:
        yield from tool_complaints(tool["function"], rules)
    if service_of(model) != "openai":
        return
    knows = gpt(model)
    if "openai.limit_name" in rules and knows.efforts and "max_tokens" in body:
        yield (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead."
        )
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    if "openai.max_output" in rules and limit > knows.output:
        yield (
            f"max_tokens is too large: {limit}. This model supports at most {knows.output} completion"
            " tokens"
        )
    yield from effort_complaints(model, body.get("reasoning_effort"), rules)
    if "openai.chat_tools" in rules and body.get("tools"):
        yield from _chat_tool_complaints(body, knows.chat_tools)


def _chat_tool_complaints(body: Json, taken: str) -> Iterator[str]:
    if taken == "no" or (taken == "unthinking" and body.get("reasoning_effort") != "none"):
        yield (
            f"Function tools with reasoning_effort are not supported for {body['model']} in"
            " /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort"
            " to 'none'."
        )


def effort_complaints(model: str, effort: str | None, rules: ServiceRules) -> Iterator[str]:
    taken = gpt(model).efforts
    if effort is None or "openai.levels" not in rules:
        return
    if not taken:
        yield "Unsupported parameter: 'reasoning_effort' is not supported with this model."
    elif effort not in taken:
        listed = ", ".join(f"'{name}'" for name in sorted(taken))
        yield (
            f"Unsupported value: '{effort}' is not supported with the '{model}' model. Supported"
            f" values are: {listed}."
        )


def tool_complaints(function: Json, rules: ServiceRules) -> Iterator[str]:
    name, schema = function.get("name") or "", function.get("parameters") or {}
    if "openai.names" in rules and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        yield f"Invalid 'tools[].function.name': string does not match pattern: '{name}'"
    if "openai.schema" in rules and (
        schema.get("type") != "object" or {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    ):
        yield (
            f"Invalid schema for function '{name}': schema must have type 'object' and not have"
            " 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        )


def _service_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    messages = body.get("messages") or []
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    match service_of(str(body.get("model"))):
        case "openai" if "openai.names" in rules:
            for call in calls:
                if len(call["id"]) > 40:
                    yield (
                        "Invalid 'messages[].tool_calls[].id': string too long. Expected a string with"
                        f" maximum length 40, but got a string with length {len(call['id'])} instead."
                    )
        case "deepseek" if "deepseek.reasoning" in rules and chat_thinks(body):
            yield from _unreasoned(messages)
        case "gemini" if "gemini.signature" in rules:
            yield from _unsigned(messages)
        case "openrouter" if "openrouter.reasoning" in rules:
            yield from _without_details(messages)
        case "mistral":
            yield from _mistral_complaints(messages, calls, rules)


def _current(messages: list[Json]) -> list[Json]:
    """The turn under way: what follows the last words of a user."""
    places = [place for place, message in enumerate(messages) if message.get("role") == "user"]
    return messages[places[-1] :] if places else messages


def _unreasoned(messages: list[Json]) -> Iterator[str]:
    for message in _current(messages):
        if message.get("tool_calls") and "reasoning_content" not in message:
            yield "The `reasoning_content` in the thinking mode must be passed back to the API."


def _unsigned(messages: list[Json]) -> Iterator[str]:
    """Calls without a signature; of several calls at once the first carries it."""
    for message in _current(messages):
        for call in (message.get("tool_calls") or [])[:1]:
            google = (call.get("extra_content") or {}).get("google") or {}
            if not google.get("thought_signature"):
                yield (
                    "Function call is missing a thought_signature in functionCall parts. This is"
                    f" required for tools to work correctly: `{call['function']['name']}`"
                )


def _without_details(messages: list[Json]) -> Iterator[str]:
    for message in _current(messages):
        thought = any(call["id"].startswith("thought_") for call in message.get("tool_calls") or [])
        details = message.get("reasoning_details") or []
        if thought and not any(detail.get("signature") for detail in details):
            yield "reasoning_details of an assistant message with tool calls must be preserved"


def _mistral_complaints(
    messages: list[Json], calls: list[Json], rules: ServiceRules
) -> Iterator[str]:
    for call in calls if "mistral.ids" in rules else []:
        if not re.fullmatch("[a-zA-Z0-9]{9}", call["id"]):
            yield f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
    for before, after in pairwise(messages if "mistral.order" in rules else []):
        if before.get("role") == "tool" and after.get("role") == "user":
            yield "Unexpected role 'user' after role 'tool'"
