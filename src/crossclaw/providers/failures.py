"""Failures: what a model service answered instead of words, told so that the reader knows what would work.

Three questions decide: does the input not fit (compact it), will the same call work later (wait), or
must a person change something (a key, a model name, a base URL)? The service's own words are
quoted, shortened, with the key taken out.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from crossclaw.domain.errors import (
    ContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
)

QUOTE_CHARS_MAX = 400
"""A proxy's HTML page can be long; its beginning says enough."""

_OVERFLOW = re.compile(
    r"prompt is too long|input is too long|input length exceeds|too many input tokens"
    r"|exceeds? (the )?(available |model's )?context|exceed_context_size"
    r"|context_length_exceeded|maximum context length|context (window|length) (is )?exceeded"
    r"|request_too_large|reduce the length of the messages",
    re.IGNORECASE,
)
_LATER_KINDS = {
    "rate_limit_error",
    "rate_limit_exceeded",
    "overloaded_error",
    "api_error",
    "server_error",
    "timeout_error",
    "engine_overloaded",
}
_NEVER_KINDS = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}


class Answer(msgspec.Struct, frozen=True):
    """An error as it came over the wire. Inside a stream the status is still 200."""

    status: int
    kinds: frozenset[str]
    """The wire's own names for it: Anthropic's `type`, OpenAI's `type` and `code`."""
    message: str
    headers: Mapping[str, str]


def key_variable(name: str) -> str:
    """`openrouter` → `OPENROUTER_API_KEY`."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_API_KEY"


def where_the_key_goes(name: str) -> str:
    return f"{key_variable(name)} in the environment or models.providers.{name}.apiKey"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as the service asks; a date is measured from the answer's own `Date`."""
    for header, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if re.fullmatch(r"\d+(\.\d+)?", number := headers.get(header, "").strip()):
            return float(number) * unit_s
    try:
        later = parsedate_to_datetime(headers["retry-after"])
        return max(0.0, (later - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def error_parts(body: object) -> tuple[frozenset[str], str | None]:
    """Kinds and message of an error body. Both wires put them under `error`; some servers do not nest."""
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return frozenset(), inner if isinstance(inner, str) else None
    message: Any = inner.get("message")
    kinds = frozenset(str(inner[name]) for name in ("type", "code") if inner.get(name))
    return kinds, message if isinstance(message, str) else None


class Failures:
    """Makes the errors of one provider, in its name and without its key."""

    def __init__(self, name: str, host: str, wire: str, api_key: str) -> None:
        self._name = name
        self._host = host
        self._wire = wire
        self._api_key = api_key

    def answered(self, answer: Answer) -> ProviderError:
        said = self._quote(answer.message)
        if self._overflows(answer):
            return ContextOverflow(
                f"the conversation does not fit the model's window ({said}); compact it (/compact),"
                " start a new one (/new), or choose a model with a larger window"
            )
        if answer.kinds & _NEVER_KINDS or answer.status == 402:
            return ProviderRefused(
                f"{self._name}: the account has no credit left ({said}); top it up or use another key"
            )
        if answer.status in (408, 409, 429) or answer.status >= 500 or answer.kinds & _LATER_KINDS:
            return self._later(answer, said)
        return self._refused(answer.status, said)

    def unreachable(self) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} cannot be reached at {self._host}; check the network, that the server"
            f" runs, and models.providers.{self._name}.baseUrl"
        )

    def silent(self, silence_s: float) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} at {self._host} was silent for {silence_s:g} s; the same request may work"
            " later, a slow model needs a longer limit"
        )

    def cut(self) -> ProviderError:
        return ProviderOverloaded(
            f"{self._name} broke off in the middle of its answer; the same request may work again"
        )

    def unfinished(self, content_type: str) -> ProviderError:
        """An answer without its end: cut off, or never a stream (a web page, a plain JSON answer)."""
        return self.cut() if "event-stream" in content_type else self.garbled()

    def garbled(self) -> ProviderError:
        return ProviderError(
            f"{self._name} at {self._host} does not speak {self._wire} as we know it; check"
            f" models.providers.{self._name}.api and its baseUrl"
        )

    def _overflows(self, answer: Answer) -> bool:
        if answer.status in (401, 403, 429):
            return False
        text = " ".join([*answer.kinds, answer.message])
        return answer.status == 413 or _OVERFLOW.search(text) is not None

    def _later(self, answer: Answer, said: str) -> ProviderError:
        wait_s = retry_after_s(answer.headers)
        when = f"in {wait_s:g} s" if wait_s is not None else "later"
        return ProviderOverloaded(
            f"{self._name} is overloaded or limits us ({said}); try again {when}", wait_s
        )

    def _refused(self, status: int, said: str) -> ProviderError:
        if status == 401:
            return ProviderRefused(
                f"{self._name} refused the key ({said}); set a valid one:"
                f" {where_the_key_goes(self._name)}"
            )
        if status == 403:
            return ProviderRefused(
                f"{self._name} does not let this key use the model ({said}); choose another model or key"
            )
        if status == 404:
            return ProviderRefused(
                f"{self._name} knows no such model or address ({said}); check the model's name and"
                f" models.providers.{self._name}.baseUrl"
            )
        if status == 200:
            return ProviderError(f"{self._name} failed in the middle of its answer ({said})")
        return ProviderRefused(
            f"{self._name} refused the request ({said}); the model may not take it"
        )

    def _quote(self, text: str) -> str:
        if len(self._api_key) > 3:
            text = text.replace(self._api_key, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= QUOTE_CHARS_MAX else text[:QUOTE_CHARS_MAX] + "…"
