"""A model service over HTTP: a request goes out, its answer comes in as server-sent events.

What every wire needs is here: time limits, another attempt after a short trouble, errors told as
ours. How requests and answers are written is the providers' matter. In production for asyncio;
nothing here depends on it.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
import msgspec

from crossclaw.domain import untrusted
from crossclaw.domain.errors import ProviderError, ProviderRefused
from crossclaw.providers.contract import Piece, Tell
from crossclaw.providers.failures import (
    Answer,
    Failures,
    error_parts,
    retry_after_s,
    where_the_key_goes,
)
from crossclaw.providers.lines import Lines

if TYPE_CHECKING:
    import httpx2

RETRIES = 2
RETRY_FIRST_S, RETRY_MAX_S = 0.5, 8.0  # where the service does not say; doubled each time
RETRY_AFTER_S_MAX = 30.0
"""A service may ask for an hour, and nobody would know why the run stands still. Longer waits are
told instead of slept."""

CONNECT_S = 10.0
SILENCE_S = 120.0
"""Between two bytes of an answer. Services send pings while a model thinks."""

LINGER_S = 1.0
"""After an answer's last word: token counts may follow, then the end of the body, which frees the
connection for the next call. Some servers never send it."""

EVENT_BYTES_MAX = 32 * 1024 * 1024  # a call's arguments may come in one piece, with a file in them

ANSWER_CHARS_MAX = (
    4 * EVENT_BYTES_MAX
)  # all events of one answer: a service that never ends is none
ERROR_BYTES_MAX = 64 * 1024

_END = "[DONE]"  # OpenAI's wire says it before the end of the body

_encode = msgspec.json.Encoder().encode


class Patience(NamedTuple):
    retries: int = RETRIES
    connect_s: float = CONNECT_S
    silence_s: float = SILENCE_S


class Reading(Protocol):
    """An answer under construction. A wrong shape may raise what reading it raises."""

    @property
    def finished(self) -> bool: ...

    def add(self, event: Any) -> list[Piece]: ...


class Service:
    """One address of one provider."""

    def __init__(
        self, failures: Failures, url: str, headers: Mapping[str, str], patience: Patience
    ) -> None:
        self._failures = failures
        self._url = url
        self._address: httpx2.URL | None = None
        """The same, read by the HTTP client once: that takes it as long as all the rest of a request."""
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": "crossclaw",
            **headers,
        }
        self._patience = patience
        self._lines = Lines(patience.connect_s, patience.silence_s)

    async def ask(self, params: Mapping[str, Any], answer: Reading, tell: Tell) -> None:
        """On return the answer is finished, and its pieces have been told."""
        async with self._lines.hold() as client:
            with self._explained():
                response = await self._begin(client, _encode(params))
                content_type = response.headers.get("content-type", "")
                try:
                    await self._listen(response, answer, tell)
                finally:
                    await response.aclose()
        if not answer.finished:
            raise self._failures.unfinished(content_type)

    async def close(self) -> None:
        await self._lines.close()

    # ── the request ────────────────────────────────────────────────────────────────────────────

    async def _begin(self, client: "httpx2.AsyncClient", body: bytes) -> "httpx2.Response":
        """An answer that has begun. Before that nothing was told, so a trouble can be waited out."""
        import httpx2  # noqa: PLC0415  # loaded by now

        for attempt in range(self._patience.retries):
            wait_s = min(RETRY_FIRST_S * 2**attempt, RETRY_MAX_S) * random.uniform(0.75, 1.0)
            with suppress(httpx2.TransportError):
                response = await self._send(client, body)
                if not _may_pass(response):
                    return await self._accepted(response)
                wait_s = _asked_wait_s(response) or wait_s
                await response.aclose()
            await anyio.sleep(wait_s)
        return await self._accepted(await self._send(client, body))

    async def _send(self, client: "httpx2.AsyncClient", body: bytes) -> "httpx2.Response":
        import httpx2  # noqa: PLC0415  # loaded by now

        self._address = self._address or httpx2.URL(self._url)
        request = httpx2.Request("POST", self._address, headers=self._headers, content=body)
        return await client.send(request, stream=True)

    async def _accepted(self, response: "httpx2.Response") -> "httpx2.Response":
        if response.is_success:
            return response
        try:
            text = await _beginning(response)
        finally:
            await response.aclose()
        raise self._failures.answered(_answer_of(response, text))

    # ── the answer ─────────────────────────────────────────────────────────────────────────────

    async def _listen(self, response: "httpx2.Response", answer: Reading, tell: Tell) -> None:
        import httpx2  # noqa: PLC0415  # loaded by now

        # Whatever a server calls its stream, it is read as one.
        response.headers["content-type"], response.encoding = "text/event-stream", "utf-8"
        chars = 0
        with anyio.CancelScope() as lingering:
            async for event in httpx2.EventSource(response, EVENT_BYTES_MAX):
                chars += len(event.data)
                if chars > ANSWER_CHARS_MAX:
                    raise self._failures.garbled()
                for piece in self._read(response, answer, event):
                    tell(piece)
                if answer.finished:
                    lingering.deadline = anyio.current_time() + LINGER_S

    def _read(
        self, response: "httpx2.Response", answer: Reading, event: "httpx2.ServerSentEvent"
    ) -> list[Piece]:
        if not event.data or event.event == "ping" or event.data.startswith(_END):
            return []
        try:
            data = _parse(event.data) if event.event != "error" else None
            if data is None or data.get("error"):
                raise self._failures.answered(_answer_of(response, event.data))
            return answer.add(data)
        except (ValueError, AttributeError, KeyError, TypeError):
            raise self._failures.garbled() from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The HTTP client's errors become ours, `from None`: theirs may quote the request."""
        import httpx2  # noqa: PLC0415  # loaded by now

        try:
            yield
        except httpx2.RequestError as error:
            raise self._failure_of(error) from None

    def _failure_of(self, error: "httpx2.RequestError") -> ProviderError:
        import httpx2  # noqa: PLC0415  # loaded by now

        match error:
            case httpx2.ReadTimeout() | httpx2.WriteTimeout() | httpx2.PoolTimeout():
                return self._failures.silent(self._patience.silence_s)
            case httpx2.ReadError() | httpx2.WriteError() | httpx2.RemoteProtocolError():
                return self._failures.cut()
            case httpx2.SSEError() | httpx2.DecodingError() | httpx2.TooManyRedirects():
                return self._failures.garbled()
            case _:
                return self._failures.unreachable()


def _may_pass(response: "httpx2.Response") -> bool:
    """Whether the same request may get another answer soon. A service that says so knows best."""
    if response.is_success or (_asked_wait_s(response) or 0) > RETRY_AFTER_S_MAX:
        return False
    told = response.headers.get("x-should-retry")
    if told in ("true", "false"):
        return bool(told == "true")
    return response.status_code in (408, 409, 429) or response.status_code >= 500


def _asked_wait_s(response: "httpx2.Response") -> float | None:
    return retry_after_s(response.headers)


def _answer_of(response: "httpx2.Response", text: str) -> Answer:
    try:
        body = _parse(text)
    except ValueError:
        body = text
    kinds, message = error_parts(body)
    said = message or text or f"status {response.status_code}"
    return Answer(response.status_code, kinds, said, response.headers)


def _parse(text: str) -> Any:
    try:
        return untrusted.decode_leniently(text)
    except untrusted.TooHeavy as error:
        raise ValueError(str(error)) from None


async def _beginning(response: "httpx2.Response") -> str:
    """Of an answer that is an error: its text says why, and needs no more than that."""
    text = bytearray()
    async for chunk in response.aiter_bytes():
        text += chunk
        if len(text) > ERROR_BYTES_MAX:
            break
    return bytes(text[:ERROR_BYTES_MAX]).decode("utf-8", "replace")


def host_of(name: str, base_url: str) -> str:
    """For error texts: a URL may carry a password, its host does not."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProviderRefused(
            f"models.providers.{name}.baseUrl is no address; write it like http://127.0.0.1:8080/v1"
        )
    return f"{parts.hostname}:{port}" if port else parts.hostname


def clean_key(name: str, api_key: str) -> str:
    """A key goes into an HTTP header, where a pasted line break or quotation mark fails obscurely."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ProviderRefused(
            f"the key of {name} holds characters that no key has; copy it again into"
            f" {where_the_key_goes(name)}"
        )
    return key
