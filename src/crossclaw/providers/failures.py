"""Failures: turns a service's errors into ours, with a text that says what would work.

Three questions decide: does the input not fit (compact it), will the same call work later (wait),
or must a person change something (a key, a model name, a base URL)? The service's own words are
quoted, shortened, with the key taken out.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from crossclaw.domain.errors import (
    ContextOverflow,
    KeyRefused,
    LevelRefused,
    ModelDeclined,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
    RateLimited,
    ThinkingRefused,
)
from crossclaw.domain.texts import with_ellipsis

QUOTE_CHARS_MAX = 400
"""How much of an error is quoted. A proxy's HTML page can be long; its beginning says enough."""

_OVERFLOW = re.compile(
    # Anthropic, Bedrock, Fireworks, Cohere; the old Claudes count the answer's limit in
    r"prompt is too long|input is too long|input length exceeds|too many (input )?tokens\b"
    r"|exceed context limit|request_too_large"
    # OpenAI, DeepSeek, vLLM, OpenRouter, Groq, Cerebras, llama.cpp
    r"|exceeds? (the )?(available |model's )?context|exceed_context_size"
    r"|context_length_exceeded|maximum context length|context (window|length) (is )?exceed(ed|s)"
    r"|reduce the length of (the messages|either one)"
    # OpenAI's limit of tokens a minute is smaller than the request: waiting never helps
    r"|request too large for .* tokens per min"
    # Gemini, xAI, Kimi, MiniMax, Qwen, GLM, Copilot, Mistral, Together, LM Studio
    r"|input token count.{0,20} exceeds the maximum|maximum prompt length is \d"
    r"|exceeded model token limit|context window exceeds limit|range of input length should be"
    r"|prompt exceeds max length|prompt token count of \d+ exceeds|too large for model with \d+ maximum"
    r"|tokens \+ `max_new_tokens` must be|greater than the context length"
    r"|loaded with context length of only",
    re.IGNORECASE,
)
_WEB_PAGE = re.compile(r"\s*<(?:!doctype html|html|head|body)\b", re.I)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.I)
_STATE_REFUSED = re.compile(
    r"`?signature`? in `?thinking`? block|thinking`? blocks .{0,60}cannot be modified"
    r"|different conversation|expected `?thinking`? or `?redacted_thinking"
    r"|thought[ _]signature|invalid_encrypted_content|encrypted content .{0,80}could not be"
    r"|reasoning_content`? .{0,40}must be passed back|missing `?reasoning_content"
    r"|of type 'reasoning' was provided without|items are not persisted when `store`"
    r"|reasoning_details .{0,80}must be preserved",
    re.IGNORECASE,
)
_LEVEL_REFUSED = re.compile(r"thinking|reasoning|effort|\bthink\b", re.IGNORECASE)
_LATER_KINDS = {
    "rate_limit_error",
    "rate_limit_exceeded",
    "overloaded_error",
    "api_error",
    "server_error",
    "timeout_error",
    "engine_overloaded",
    "UNAVAILABLE",
    "RESOURCE_EXHAUSTED",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
}
_LIMIT_KINDS = {"rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"}
_NEVER_KINDS = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}


_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
}
_UNSEEN = re.compile(
    r"(image|audio|video)( input)? (is|are) not supported|provide the mmproj"
    r"|does not support (image|vision|multimodal)|not a multimodal model",
    re.IGNORECASE,
)
"""The errors of models that cannot see pictures: llama.cpp says 500 (tools/server, with a real
server; 2026-11-16), vLLM and others 400. Repeating the request would not help."""
_BAD_KEY = re.compile(
    r"(api|access)[ _-]?key (is |was )?(not valid|invalid|incorrect|expired|missing)"
    r"|(invalid|incorrect|expired|missing) (api|access)[ _-]?key",
    re.IGNORECASE,
)
"""The errors of services that say 400 to an unknown key."""


_PLACE = re.compile(r"\b(messages|contents|input)(?:\.?\[\d+\]|\.\d+)(?:\.?\[\d+\]|\.\w+)*")
"""A place in a request as services name it: `messages.3.content.1.image` (Anthropic),
`messages[3].content[1]`, `messages.[3]` and `input[3]` (OpenAI), `contents[3].parts[1]`
(Gemini)."""


def part_at(params: Mapping[str, Any], place: str) -> object:
    """The part of a request at this place. Words of the place that are no names in it (types of
    blocks, other spellings) are skipped; None if the place is not in the request."""
    part: Any = params
    for step in re.findall(r"\d+|[A-Za-z_]+", place):
        if isinstance(part, list) and step.isdigit():
            if int(step) >= len(part):
                return None
            part = part[int(step)]
        elif isinstance(part, dict) and step in part:
            part = part[step]
    return None if part is params else part


def _status_of(answer: "ErrorAnswer") -> int:
    """The HTTP status of an error. Inside a stream that is 200; then the status its kinds stand
    for."""
    if answer.status != 200:
        return answer.status
    numbers = [int(kind) for kind in answer.kinds if re.fullmatch(r"[45]\d\d", kind)]
    named = [_STATUS_OF_KIND[kind] for kind in answer.kinds if kind in _STATUS_OF_KIND]
    return next(iter([*numbers, *named]), 200)


def _may_pass(status: int, kinds: frozenset[str]) -> bool:
    """Whether the same request may work later. A status that blames the request outweighs what the
    body says: trying again would not help."""
    if status in (408, 409, 429) or status >= 500:
        return True
    return status == 200 and bool(kinds & _LATER_KINDS)


class ErrorAnswer(msgspec.Struct, frozen=True):
    """An error as it came over HTTP. Inside a stream the status is still 200."""

    status: int
    kinds: frozenset[str]
    """The service's own names for it: Anthropic's `type`, OpenAI's `type` and `code`."""
    message: str
    headers: Mapping[str, str]
    param: str = ""
    """OpenAI's name for what is wrong in the request."""


def key_variable(name: str) -> str:
    """The variable of a provider's key: `openrouter` → `OPENROUTER_API_KEY`."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_API_KEY"


def where_the_key_goes(name: str) -> str:
    return f"{key_variable(name)} in the environment or models.providers.{name}.apiKey"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds that the service asks to wait; a date is measured from the answer's own
    `Date`."""
    for header, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if re.fullmatch(r"\d+(\.\d+)?", number := headers.get(header, "").strip()):
            return float(number) * unit_s
    try:
        later = parsedate_to_datetime(headers["retry-after"])
        return max(0.0, (later - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def error_parts(body: object) -> tuple[frozenset[str], str | None]:
    """The kinds and the message of an error body. Both APIs put them under `error`; some servers do
    not nest."""
    if isinstance(body, list) and body:  # Google's
        body = body[0]
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return frozenset(), inner if isinstance(inner, str) else None
    message: Any = inner.get("message") or inner.get("detail") or inner.get("error")
    if isinstance(message, list | dict):  # how Mistral and others show what was wrong where
        message = msgspec.json.encode(message).decode()
    kinds = frozenset(str(inner[name]) for name in ("type", "code", "status") if inner.get(name))
    return kinds, message if isinstance(message, str) else None


def error_param(body: object) -> str:
    """The place in the request at which OpenAI sees the fault, beside the error's text."""
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner.get("param") or "") if isinstance(inner, dict) else ""


def _without_markup(text: str) -> str:
    """The text, or the title of a web page, which servers of other kinds answer with."""
    if not _WEB_PAGE.match(text):
        return text
    title = _TITLE.search(text)
    return f"a web page: {title[1].strip()}" if title and title[1].strip() else "a web page"


class Failures:
    """Makes the errors of one provider, in its name and without its key."""

    def __init__(self, name: str, host: str, wire: str, api_key: str) -> None:
        self._name = name
        self._host = host
        self._wire = wire
        self._api_key = api_key

    def answered(self, answer: ErrorAnswer) -> ProviderError:
        error = self._answered(answer)
        named = _PLACE.search(f"{answer.param} {answer.message}")
        if named and isinstance(error, ProviderRefused):
            error.place = named.group()
        return error

    def _answered(self, answer: ErrorAnswer) -> ProviderError:
        said = self._quote(answer.message)
        if self._overflows(answer):
            return ContextOverflow(
                f"the conversation does not fit the model's window ({said}); compact it (/compact),"
                " start a new one (/new), or choose a model with a larger window"
            )
        if _STATE_REFUSED.search(answer.message) or "invalid_encrypted_content" in answer.kinds:
            return ThinkingRefused(
                f"{self._name} does not take its own earlier thinking back ({said}); it is asked"
                " again without"
            )
        if answer.kinds & _NEVER_KINDS or answer.status == 402:
            return KeyRefused(
                f"{self._name}: the account has no credit left ({said}); top it up or use another key"
            )
        status = _status_of(answer)
        if _UNSEEN.search(answer.message):
            return self._refused(400, said)
        if _may_pass(status, answer.kinds):
            return self._later(answer, said)
        return self._refused(status, said)

    def declined(self, why: str | None = None) -> ProviderError:
        """The error for a model that will not answer: not our error, and no reply either."""
        reason = f" ({self._quote(why)})" if why else ""
        return ModelDeclined(
            f"the model declined to answer{reason}; put the request differently or choose another model"
        )

    def too_slow(self, timeout_s: float) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} at {self._host} took longer than {timeout_s:g} s; raise"
            f" models.providers.{self._name}.timeoutSeconds or ask for less"
        )

    def unreachable(self) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} cannot be reached at {self._host}; check the network, that the server"
            f" runs, and models.providers.{self._name}.baseUrl"
        )

    def silent(self, silence_s: float) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} at {self._host} was silent for {silence_s:g} s; the same request may work"
            f" later, a slow model needs a longer models.providers.{self._name}.silenceSeconds"
        )

    def cut(self) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} broke off in the middle of its answer; the same request may work again"
        )

    def unfinished(self, content_type: str, *, begun: bool) -> ProviderError:
        """The error for an answer without its end: cut off, or never a stream (a web page, a plain
        JSON answer)."""
        return self.cut() if begun or "event-stream" in content_type else self.garbled()

    def garbled(self, *, begun: bool = False) -> ProviderError:
        """The error for an answer that cannot be read. If it had begun properly, it was garbled on
        the way, even before the first word."""
        if begun:
            return ProviderOverloaded(
                f"{self._name} turned to nonsense in the middle of its answer; the same request may"
                " work again"
            )
        return ProviderError(
            f"{self._name} at {self._host} does not speak {self._wire} as we know it; check"
            f" models.providers.{self._name}.api and its baseUrl"
        )

    def _overflows(self, answer: ErrorAnswer) -> bool:
        """Whether the input is too long. A 429 is mostly a rate limit, whose texts mention tokens
        too: only OpenAI's counts."""
        text = " ".join([*answer.kinds, answer.message])
        if answer.status == 429:
            return re.search("request too large for", text, re.IGNORECASE) is not None
        if answer.status in (401, 403):
            return False
        return answer.status == 413 or _OVERFLOW.search(text) is not None

    def _later(self, answer: ErrorAnswer, said: str) -> ProviderError:
        wait_s = retry_after_s(answer.headers)
        when = f"in {wait_s:g} s" if wait_s is not None else "later"
        limited = answer.status == 429 or answer.kinds & _LIMIT_KINDS
        kind = RateLimited if limited else ProviderOverloaded
        return kind(f"{self._name} is overloaded or limits us ({said}); try again {when}", wait_s)

    def _refused(self, status: int, said: str) -> ProviderError:
        if status == 401 or (status == 400 and _BAD_KEY.search(said)):
            return KeyRefused(
                f"{self._name} refused the key ({said}); set a valid one:"
                f" {where_the_key_goes(self._name)}"
            )
        if status == 403:
            return KeyRefused(
                f"{self._name} does not let this key use the model ({said}); choose another model or key"
            )
        if status == 404:
            return ProviderRefused(
                f"{self._name} knows no such model or address ({said}); check the model's name and"
                f" models.providers.{self._name}.baseUrl"
            )
        if status == 200:
            return ProviderError(f"{self._name} failed in the middle of its answer ({said})")
        kind = LevelRefused if _LEVEL_REFUSED.search(said) else ProviderRefused
        return kind(
            f"{self._name} refused the request as a bad one ({said}); the model may not take it"
        )

    def _quote(self, text: str) -> str:
        if len(self._api_key) > 3:
            text = text.replace(self._api_key, "[key]")
        return with_ellipsis(" ".join(_without_markup(text).split()), QUOTE_CHARS_MAX)
