"""HTTP for channels: one client a base address, and one place that knows at which moment a request failed.

Before the request has left, nothing has happened: it may be repeated. After that the outcome is unknown, unless
there is an answer. `send` is for requests with an effect that people see, and says which of the two it was;
`ask` is for those that may be repeated. What prepares a message (an upload, a chat that is opened) is sent
inside of `before_anything_is_seen`: an unknown outcome does not matter there.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from crossclaw.channels.websocket import Dial, dial
from crossclaw.domain.errors import (
    ChannelDown,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
    PlatformUnreachable,
)

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 16 * 2**20  # of JSON; files are downloaded with a limit of their own
LINE_BYTES_MAX = 64 * 2**20  # of a stream of events; a file may come as one
REDIRECTS_MAX = 5
SENDS_S_MAX = 2.0  # for sends under way when an account is closed: most are answered by then
RETRY_AFTER_MAX_S = 86_400.0  # beyond a day it is a mistake of theirs
USER_AGENT = "crossclaw"


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP answer of any status."""

    status: int
    headers: Mapping[str, str]
    """The headers; names are in lower case."""
    body: bytes

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def retry_after_s(self) -> float | None:
        return seconds_in(self.headers.get("retry-after"))

    def json(self) -> Any:
        """The body as JSON; None if it is not: a proxy's page, an empty body."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


@contextmanager
def before_anything_is_seen() -> Generator[None]:
    """Turns an uncertain outcome into a failure that may be repeated: nobody has seen an effect yet."""
    try:
        yield
    except DeliveryUncertain as error:
        raise DeliveryError(str(error), retryable=True) from error


def seconds_in(value: Any) -> float | None:
    """A wait as platforms write it: 3, 3.5, "3"."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return min(seconds, RETRY_AFTER_MAX_S) if seconds >= 0 else None


class HttpClients:
    """Opens the clients of one account, and closes them with it. A transport that is given takes the place of
    the network: tests have fakes of platforms."""

    def __init__(
        self, transport: "httpx2.AsyncBaseTransport | None" = None, dial: Dial = dial
    ) -> None:
        self._transport = transport
        self.dial = dial
        """Opens connections for WebSockets."""
        self._opened: list[ChannelHttp] = []

    def open(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
        proxy: str | None = None,
    ) -> "ChannelHttp":
        """Opens a client. `hosts`: the hosts it may also go to, for downloads; `*.example.org` means all below."""
        opened = ChannelHttp(
            base_url,
            headers=dict(headers or {}),
            hosts=tuple(hosts),
            timeout_s=timeout_s,
            proxy=proxy,
            transport=self._transport,
        )
        self._opened.append(opened)
        return opened

    async def close(self) -> None:
        """Closes the clients after what is just being sent: cut off, its outcome would be unknown."""
        with anyio.move_on_after(SENDS_S_MAX, shield=True):
            for each in self._opened:
                await each.wait_sent()
        while self._opened:
            await self._opened.pop().close()


class ChannelHttp:
    def __init__(
        self,
        base_url: str,
        *,
        headers: dict[str, str],
        hosts: tuple[str, ...],
        timeout_s: float,
        proxy: str | None,
        transport: "httpx2.AsyncBaseTransport | None",
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = headers
        self._hosts = (urlsplit(base_url).hostname or "", *hosts)
        self._timeout_s = timeout_s
        self._proxy = proxy
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None
        self._sending = 0
        self._sent = anyio.Event()

    async def send(self, method: str, path: str, **request: Any) -> HttpAnswer:
        """Sends a request with an effect that people see. DeliveryError (to be repeated) when it did not
        leave, DeliveryUncertain when it may have."""
        self._sending += 1
        try:
            return await self._request(method, path, **request)
        except _NotSent as error:
            raise PlatformUnreachable(str(error)) from error
        except _Lost as error:
            raise DeliveryUncertain(str(error)) from error
        finally:
            self._sending -= 1
            self._sent.set()

    async def wait_sent(self) -> None:
        """Waits until nothing is on its way by `send`."""
        while self._sending:
            self._sent = anyio.Event()
            await self._sent.wait()

    async def ask(self, method: str, path: str, **request: Any) -> HttpAnswer:
        """Sends a request that may be repeated. ChannelDown when there is no answer."""
        try:
            return await self._request(method, path, **request)
        except (_NotSent, _Lost) as error:
            raise ChannelDown(str(error)) from error

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, silence_s: float
    ) -> AsyncGenerator[tuple[int, AsyncIterator[bytes]]]:
        """The status, and lines as they come, for a stream of events. ChannelDown when it breaks, or when nothing
        comes for so long."""
        client = await self._open()
        import httpx2  # noqa: PLC0415  loaded by now

        timeout = httpx2.Timeout(silence_s, connect=CONNECT_S, pool=CONNECT_S)
        try:
            async with client.stream(
                method, self._address(path), headers=self._headers, timeout=timeout
            ) as response:
                yield response.status_code, _lines(response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ChannelDown(self._words(error)) from error

    async def download(
        self, url: str, *, limit: int, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Downloads a file of at most `limit` bytes. Every host on the way must be among ours, and none of it
        in clear unless all is; credentials (`headers`, and those of this client) go to the first place and no
        other."""
        where, first = self._address(url), _place_of(self._address(url))
        for _hop in range(REDIRECTS_MAX):
            place = _place_of(where)
            host = place[1] or ""
            if not self._may_go_to(host):
                raise MediaRefused(
                    f"the file lies at {host}, which does not belong to the platform"
                )
            if place[0] != "https" and self._base_url.startswith("https:"):
                raise MediaRefused(f"the file is at {host} without encryption (http)")
            shown = {**self._headers, **(headers or {})} if place == first else {}
            try:
                answer = await self._once("GET", where, shown, {}, None, limit)
            except (_NotSent, _Lost) as error:
                raise MediaRefused(f"the file could not be fetched: {error}") from error
            if answer.status not in (301, 302, 303, 307, 308):
                return _file_of(answer)
            where = _joined(where, answer.headers.get("location", ""))
        raise MediaRefused("the file is redirected too often")

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            with anyio.CancelScope(shield=True):
                await client.aclose()

    # ── one request ────────────────────────────────────────────────────────────────────────────

    async def _request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        form: Mapping[str, Any] | None = None,
        files: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        limit: int = ANSWER_BYTES_MAX,
    ) -> HttpAnswer:
        shown, body = {**self._headers, **(headers or {})}, dict[str, Any]()
        if json is not None:
            body["content"] = msgspec.json.encode(json)
            shown = {"content-type": "application/json"} | shown
        elif content is not None:
            body["content"] = content
        elif form is not None or files is not None:
            body |= {"data": form, "files": files}
        if params:
            body["params"] = params
        return await self._once(method, self._address(path), shown, body, timeout_s, limit)

    async def _once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: dict[str, Any],
        timeout_s: float | None,
        limit: int,
    ) -> HttpAnswer:
        client = await self._open()
        import httpx2  # noqa: PLC0415  loaded by now

        timeout = httpx2.Timeout(timeout_s or self._timeout_s, connect=CONNECT_S, pool=CONNECT_S)
        try:
            async with client.stream(
                method, url, headers=dict(headers), timeout=timeout, **body
            ) as response:
                content = await _read(response, limit)
                return HttpAnswer(response.status_code, dict(response.headers), content)
        except BEFORE_SENT() as error:
            raise _NotSent(self._words(error)) from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            raise DeliveryError(f"the request cannot be made: {type(error).__name__}") from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise _Lost(self._words(error)) from error

    async def _open(self) -> "httpx2.AsyncClient":
        if self._client is None:
            if self._transport is None:
                await anyio.to_thread.run_sync(import_module, "httpx2")  # 0.1 s, while others go on
            import httpx2  # noqa: PLC0415  loaded by now

            if self._client is None:
                self._client = httpx2.AsyncClient(
                    transport=_Kept(self._transport) if self._transport else None,
                    proxy=self._proxy if self._transport is None else None,
                    trust_env=False,
                    headers={"user-agent": USER_AGENT},
                )
        return self._client

    def _address(self, path: str) -> str:
        return path if "://" in path else f"{self._base_url}/{path.lstrip('/')}"

    def _may_go_to(self, host: str) -> bool:
        return any(
            host == each or (each.startswith("*.") and host.endswith(each[1:]))
            for each in self._hosts
        )

    def _words(self, error: Exception) -> str:
        """The error's text without the address: a token may be in it."""
        text = (
            str(error) or "no answer in time" if "Timeout" in type(error).__name__ else str(error)
        )
        host = urlsplit(self._base_url).hostname or "the platform"
        return f"{host}: {text or type(error).__name__}"


def _Kept(transport: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncBaseTransport":  # noqa: N802
    """Wraps a transport that its giver closes, not the client."""
    import httpx2  # noqa: PLC0415  loaded by now

    class Kept(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await transport.handle_async_request(request)

    return Kept()


def BEFORE_SENT() -> tuple[type[Exception], ...]:  # noqa: N802
    """Errors that are raised before anything of the request has left."""
    import httpx2  # noqa: PLC0415  loaded by now

    return (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


class _NotSent(CrossclawError):
    pass


class _Lost(CrossclawError):
    pass


async def _lines(response: "httpx2.Response") -> AsyncGenerator[bytes]:
    """Lines ended by a line feed and nothing else: texts have characters that other readers break lines at."""
    rest = bytearray()
    async for part in response.aiter_bytes():
        rest += part
        *lines, last = rest.split(b"\n")
        rest = bytearray(last)
        for line in lines:
            yield bytes(line).removesuffix(b"\r")
        if len(rest) > LINE_BYTES_MAX:
            raise ChannelDown("a line of the platform does not end")


async def _read(response: "httpx2.Response", limit: int) -> bytes:
    """Reads a body within the limit. A declared size beyond it is refused before anything is read."""
    declared = response.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise MediaRefused(f"it has {int(declared):,} bytes; {limit:,} are allowed")
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            raise MediaRefused(f"it has more than {limit:,} bytes, which are allowed")
        parts.append(part)
    return b"".join(parts)


def _file_of(answer: HttpAnswer) -> bytes:
    if not answer.is_ok:
        raise MediaRefused(f"the platform answered with status {answer.status}")
    return answer.body


def _place_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: another port, or the address without TLS, may be another server's."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        raise MediaRefused("the address of the file is not a valid URL") from None


def _joined(before: str, location: str) -> str:
    from urllib.parse import urljoin  # noqa: PLC0415

    try:
        return urljoin(before, location)
    except ValueError:
        raise MediaRefused("the address of the file is not a valid URL") from None
