"""A model service over HTTP: sends a request, reads the answer as server-sent events.

What every API needs is here: time limits, another attempt after a short failure, errors translated
into ours. How requests and answers are written is up to the providers. In production for asyncio;
nothing here depends on it.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio
import msgspec

from crossclaw.domain import untrusted
from crossclaw.domain.errors import ProviderError, ProviderRefused
from crossclaw.domain.messages import Usage
from crossclaw.providers.contract import LostSpending, ModelPiece, TellPiece
from crossclaw.providers.event_stream import EventStream, EventTooLarge, StreamedEvent
from crossclaw.providers.failures import (
    ErrorAnswer,
    Failures,
    error_param,
    error_parts,
    part_at,
    retry_after_s,
    where_the_key_goes,
)
from crossclaw.providers.kept_connections import KeptConnections
from crossclaw.providers.spending import HeardChars, estimated_usage

if TYPE_CHECKING:
    import httpx2

RETRIES = 2
RETRY_FIRST_S, RETRY_MAX_S = 0.5, 8.0  # where the service does not say; doubled each time
RETRY_AFTER_S_MAX = 30.0
"""The longest wait that a service may ask for. After an hour nobody would know why the run stands
still, so longer ones are reported as errors."""

CONNECT_S = 10.0
SILENCE_S = 120.0
"""The longest time between two bytes of an answer. Services send pings while a model thinks."""

LINGER_S = 1.0
"""How long to read on after an answer's last word: token counts may follow, then the end of the
body, which frees the connection for the next call. Some servers never send it."""

EVENT_BYTES_MAX = 32 * 1024 * 1024  # a call's arguments may come in one piece, with a file in them

ANSWER_CHARS_MAX = (
    4 * EVENT_BYTES_MAX
)  # all events of one answer: a service that never ends is none
ERROR_BYTES_MAX = 64 * 1024

_END = "[DONE]"  # OpenAI's wire says it before the end of the body

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class CallLimits(NamedTuple):
    retries: int = RETRIES
    connect_s: float = CONNECT_S
    silence_s: float = SILENCE_S
    timeout_s: float | None = None
    """The longest time for one call as a whole; None: as long as something arrives."""


class ServiceSaid(Exception):
    """An error inside an answer: its body, as the service wrote it."""


class AnswerBuilder(Protocol):
    """An answer under construction. Its methods may raise any error of reading a wrong shape."""

    @property
    def finished(self) -> bool: ...

    @property
    def usage(self) -> Usage | None:
        """The tokens that the service has counted so far."""
        ...

    def add(self, event: Any) -> list[ModelPiece]: ...

    def whole(self, body: Any) -> list[ModelPiece]:
        """Reads a whole answer from a server that does not stream, although the request says so."""
        ...

    def end(self) -> None:
        """Notes that the service says that nothing more comes."""
        ...


class ModelService:
    """A client for one address of one provider."""

    def __init__(
        self, failures: Failures, url: str, headers: Mapping[str, str], patience: CallLimits
    ) -> None:
        self._failures = failures
        self._url = url
        self._address: httpx2.URL | None = None
        """The URL, parsed once: that takes as long as all the rest of a request."""
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": "crossclaw",
            **headers,
        }
        self._patience = patience
        self._lines = KeptConnections(patience.connect_s, patience.silence_s)

    async def ask(
        self,
        params: Mapping[str, Any],
        answer: AnswerBuilder,
        tell: TellPiece,
        *,
        headers: Mapping[str, str] | None = None,
        url: str | None = None,
        in_lines: bool = False,
    ) -> None:
        """Asks the service. On return the answer is finished, and its pieces were passed to `tell`,
        also the cost of a call that failed. `in_lines`: one JSON a line instead of server-sent
        events."""
        heard = HeardChars(tell)
        try:
            with self._in_time():
                await self._ask(
                    _CallParts(_encode(params), headers or {}, url, in_lines),
                    _BegunAnswer(answer),
                    heard,
                )
        except BaseException as error:
            if isinstance(error, ProviderRefused) and error.place:
                error.part = part_at(params, error.place)
            if heard.said or answer.usage is not None:
                tell(LostSpending(answer.usage or estimated_usage(params, heard.said)))
            raise

    async def _ask(self, call: "_CallParts", answer: "_BegunAnswer", tell: TellPiece) -> None:
        async with self._lines.hold() as client:
            with self._explained(answer):
                response = await self._begin(client, call)
                content_type = response.headers.get("content-type", "")
                try:
                    if call.in_lines:
                        await self._listen_to_lines(response, answer, tell)
                    elif not await self._heard_whole(response, content_type, answer, tell):
                        await self._listen(response, answer, tell)
                finally:
                    await response.aclose()
        if not answer.finished:
            raise self._failures.unfinished(content_type, begun=answer.begun)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        timeout_s = self._patience.timeout_s
        try:
            with anyio.fail_after(timeout_s):
                yield
        except TimeoutError:
            raise self._failures.too_slow(timeout_s or 0.0) from None

    async def get(self, url: str, read: Callable[[Any], T]) -> T:
        """The answer to a simple GET, such as for its list of models. `read` may raise any error of
        reading a wrong shape."""
        return await self._plain("GET", url, b"", read)

    async def post(self, url: str, params: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        return await self._plain("POST", url, _encode(params), read)

    async def post_form(self, url: str, form: dict[str, Any], read: Callable[[Any], T]) -> T:
        """The answer to a posted form: `data` and `files`, as the HTTP client takes them."""
        return await self._plain("POST", url, form, read)

    async def _plain(
        self, method: str, url: str, body: bytes | dict[str, Any], read: Callable[[Any], T]
    ) -> T:
        async with self._lines.hold() as client:
            import httpx2  # noqa: PLC0415  # loaded by now

            with self._explained(), self._in_time():
                headers = {**self._headers, "Accept": "application/json"}
                if isinstance(body, dict):
                    del headers["Content-Type"]  # the form's own, with the mark between its parts
                sent = body if isinstance(body, dict) else {"content": body}
                request = httpx2.Request(method, url, headers=headers, **sent)
                response = await self._accepted(await client.send(request, stream=True))
                try:
                    return read(_parse(await _beginning(response, EVENT_BYTES_MAX)))
                except (ValueError, AttributeError, KeyError, TypeError):
                    raise self._failures.garbled() from None
                finally:
                    await response.aclose()

    async def close(self) -> None:
        await self._lines.close()

    # ── the request ────────────────────────────────────────────────────────────────────────────

    async def _begin(self, client: "httpx2.AsyncClient", call: "_CallParts") -> "httpx2.Response":
        """Sends the request until an answer begins. Nothing was streamed before, so a failure can
        be waited out."""
        import httpx2  # noqa: PLC0415  # loaded by now

        for attempt in range(self._patience.retries):
            wait_s = min(RETRY_FIRST_S * 2**attempt, RETRY_MAX_S) * random.uniform(0.75, 1.0)
            with suppress(httpx2.TransportError):
                response = await self._send(client, call)
                if not _may_pass(response):
                    return await self._accepted(response)
                wait_s = _retry_after_s(response) or wait_s
                await response.aclose()
            await anyio.sleep(wait_s)
        return await self._accepted(await self._send(client, call))

    async def _send(self, client: "httpx2.AsyncClient", call: "_CallParts") -> "httpx2.Response":
        import httpx2  # noqa: PLC0415  # loaded by now

        self._address = self._address or httpx2.URL(self._url)
        headers = {**self._headers, **call.headers} if call.headers else self._headers
        where = call.url or self._address

        async def send() -> httpx2.Response:
            request = httpx2.Request("POST", where, headers=headers, content=call.body)
            return await client.send(request, stream=True)

        try:
            return await send()
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if not self._lines.was_used(client):
                raise
        return await send()  # the server had hung up on a kept connection: this one is new

    async def _accepted(self, response: "httpx2.Response") -> "httpx2.Response":
        if response.is_success:
            return response
        try:
            text = await _beginning(response)
        finally:
            await response.aclose()
        raise self._failures.answered(_answer_of(response, text))

    # ── the answer ─────────────────────────────────────────────────────────────────────────────

    async def _heard_whole(
        self,
        response: "httpx2.Response",
        content_type: str,
        answer: "_BegunAnswer",
        tell: TellPiece,
    ) -> bool:
        """Whether the service answered with one JSON document: an error under the status 200, or an
        answer from a server that does not stream."""
        if not content_type.startswith("application/json"):
            return False
        text = await _beginning(response, EVENT_BYTES_MAX)
        if text.lstrip().startswith(("{", "[")):
            for piece in self._understood(response, text, answer, answer.whole):
                tell(piece)
            return True
        for line in text.splitlines():  # a stream under a wrong name
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data and not data.startswith(_END):
                for piece in self._understood(response, data, answer, answer.add):
                    tell(piece)
        return True

    async def _listen_to_lines(
        self, response: "httpx2.Response", answer: "_BegunAnswer", tell: TellPiece
    ) -> None:
        chars = 0
        async for line in _lines(response):
            chars += len(line)
            if len(line) > EVENT_BYTES_MAX or chars > ANSWER_CHARS_MAX:
                raise self._failures.garbled(begun=answer.begun)
            for piece in self._understood(response, line, answer, answer.add):
                tell(piece)

    async def _listen(
        self, response: "httpx2.Response", answer: "_BegunAnswer", tell: TellPiece
    ) -> None:
        """Reads events: whatever a server calls its stream, it is read as one."""
        stream, chars = EventStream(EVENT_BYTES_MAX), 0
        with anyio.CancelScope() as lingering:
            async for chunk in response.aiter_bytes():
                chars += len(chunk)
                for event in self._events(stream, chunk, chars, answer):
                    for piece in self._read(response, answer, event):
                        tell(piece)
                    if answer.finished:
                        lingering.deadline = anyio.current_time() + LINGER_S

    def _events(
        self, stream: EventStream, chunk: bytes, so_far: int, answer: "_BegunAnswer"
    ) -> list[StreamedEvent]:
        try:
            events = stream.feed(chunk)
        except EventTooLarge:
            raise self._failures.garbled(begun=answer.begun) from None
        if so_far > ANSWER_CHARS_MAX:
            raise self._failures.garbled(begun=answer.begun)
        return events

    def _read(
        self, response: "httpx2.Response", answer: "_BegunAnswer", event: StreamedEvent
    ) -> list[ModelPiece]:
        if not event.data or event.name == "ping":
            return []
        if event.data.startswith(_END):
            answer.end()
            return []
        if event.name == "error":
            raise self._failures.answered(_answer_of(response, event.data))
        return self._understood(response, event.data, answer, answer.add)

    def _understood(
        self,
        response: "httpx2.Response",
        text: str,
        answer: "_BegunAnswer",
        read: Callable[[Any], list[ModelPiece]],
    ) -> list[ModelPiece]:
        try:
            data = _parse(text)
            if isinstance(data, list) or data.get("error"):
                raise self._failures.answered(_answer_of(response, text))
            return read(data)
        except ServiceSaid as said:
            body = _encode(said.args[0]).decode()
            raise self._failures.answered(_answer_of(response, body)) from None
        except (ValueError, AttributeError, KeyError, TypeError):
            raise self._failures.garbled(begun=answer.begun) from None

    @contextmanager
    def _explained(self, answer: "_BegunAnswer | None" = None) -> Iterator[None]:
        """Turns the HTTP client's errors into ours, `from None`: theirs may quote the request."""
        import httpx2  # noqa: PLC0415  # loaded by now

        try:
            yield
        except httpx2.RequestError as error:
            raise self._failure_of(error, answer is not None and answer.begun) from None

    def _failure_of(self, error: "httpx2.RequestError", begun: bool) -> ProviderError:
        import httpx2  # noqa: PLC0415  # loaded by now

        match error:
            case httpx2.ReadTimeout() | httpx2.WriteTimeout() | httpx2.PoolTimeout():
                return self._failures.silent(self._patience.silence_s)
            case httpx2.ReadError() | httpx2.WriteError() | httpx2.RemoteProtocolError():
                return self._failures.cut()
            case httpx2.DecodingError() | httpx2.TooManyRedirects():
                return self._failures.garbled(begun=begun)
            case _:
                return self._failures.unreachable()


class _CallParts(NamedTuple):
    body: bytes
    headers: Mapping[str, str]
    url: str | None
    in_lines: bool


class _BegunAnswer:
    """An answer under construction, and whether it has begun properly: then nonsense after that was
    garbled on the way, even before the first word."""

    def __init__(self, answer: AnswerBuilder) -> None:
        self._answer = answer
        self.begun = False

    @property
    def finished(self) -> bool:
        return self._answer.finished

    def add(self, event: Any) -> list[ModelPiece]:
        pieces = self._answer.add(event)
        self.begun = True
        return pieces

    def whole(self, body: Any) -> list[ModelPiece]:
        return self._answer.whole(body)

    def end(self) -> None:
        self._answer.end()


def _may_pass(response: "httpx2.Response") -> bool:
    """Whether the same request may soon get another answer. A service that says so knows best."""
    if response.is_success or (_retry_after_s(response) or 0) > RETRY_AFTER_S_MAX:
        return False
    advice = response.headers.get("x-should-retry")
    if advice in ("true", "false"):
        return bool(advice == "true")
    return response.status_code in (408, 409, 429) or response.status_code >= 500


def _retry_after_s(response: "httpx2.Response") -> float | None:
    return retry_after_s(response.headers)


def _answer_of(response: "httpx2.Response", text: str) -> ErrorAnswer:
    try:
        body = _parse(text)
    except ValueError:
        body = text
    kinds, message = error_parts(body)
    said = message or text or f"status {response.status_code}"
    return ErrorAnswer(response.status_code, kinds, said, response.headers, error_param(body))


def _parse(text: str) -> Any:
    try:
        return untrusted.decode_leniently(text)
    except untrusted.TooHeavy as error:
        raise ValueError(str(error)) from None


async def _beginning(response: "httpx2.Response", bytes_max: int = ERROR_BYTES_MAX) -> str:
    """The beginning of an error's text, which is enough to say why."""
    text = bytearray()
    async for chunk in response.aiter_bytes():
        text += chunk
        if len(text) > bytes_max:
            break
    return bytes(text[:bytes_max]).decode("utf-8", "replace")


async def _lines(response: "httpx2.Response") -> AsyncIterator[str]:
    """The lines of an answer that are not blank; one that is too long is returned in pieces."""
    held = b""
    async for chunk in response.aiter_bytes():
        *whole, held = (held + chunk).split(b"\n")
        if len(held) > EVENT_BYTES_MAX:
            whole, held = [*whole, held], b""
        for line in whole:
            if line.strip():
                yield line.decode("utf-8", "replace")
    if held.strip():
        yield held.decode("utf-8", "replace")


def host_of(name: str, base_url: str) -> str:
    """The host of a URL, for error texts: a URL may contain a password, its host does not."""
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
    """The key, checked: it goes into an HTTP header, where a pasted line break or quotation mark
    fails obscurely."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ProviderRefused(
            f"the key of {name} holds characters that no key has; copy it again into"
            f" {where_the_key_goes(name)}"
        )
    return key
