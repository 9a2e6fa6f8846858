"""signal-cli's JSON-RPC, over HTTP with an event stream or over a socket with a line a message.

A failed call says at which point: before it left, or with an unknown outcome.
"""

import itertools
from collections.abc import AsyncGenerator
from typing import Any, Protocol, Self
from urllib.parse import quote, urlsplit

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.http import ChannelHttp, HttpClients
from crossclaw.channels.websocket import Dial
from crossclaw.domain.errors import (
    ChannelDown,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
    PlatformUnreachable,
)

ANSWER_S = 120.0  # Signal itself may be slow to take a message with a file
CONNECT_S = 10.0
SILENCE_S = 60.0  # the daemon writes something every 15 s
LINE_BYTES_MAX = 64 * 2**20  # a file comes as one line
CHUNK = 65_536


class SignalRefusal(CrossclawError):
    """The daemon answered with an error."""

    def __init__(self, number: int, text: str, data: Any = None) -> None:
        super().__init__(f"signal-cli refused ({number}): {text}"[:500])
        self.number = number
        self.data = data


class SignalClient(Protocol):
    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Makes a call that may be repeated. ChannelDown when there is no answer."""
        ...

    async def send(self, method: str, params: dict[str, Any]) -> Any:
        """Makes a call with an effect that people see: DeliveryError when it did not leave, DeliveryUncertain
        when it may have."""
        ...

    def events(self) -> AsyncGenerator[Any]:
        """The events one by one: the next is read when this one was taken. The first is None: connected."""
        ...

    async def close(self) -> None: ...


def open_client(url: str, account: str, http: HttpClients) -> SignalClient:
    where = urlsplit(url)
    if where.scheme in ("tcp", "unix"):
        return SignalSocket(url, account, http.dial)
    return SignalHttp(http.open(url, timeout_s=ANSWER_S), account)


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": str(number), "method": method, "params": params}


def _result(answer: Any) -> Any:
    """The result in an answer to a request; raises for an error."""
    if not isinstance(answer, dict):
        raise SignalRefusal(0, "its answer is not a JSON-RPC object")
    error = answer.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        raise SignalRefusal(
            code if isinstance(code, int) else 0, str(error.get("message")), error.get("data")
        )
    return answer.get("result")


class SignalHttp:
    def __init__(self, http: ChannelHttp, account: str) -> None:
        self._http = http
        self._account = account
        self._numbers = itertools.count(1)

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        body = _request(next(self._numbers), method, params)
        answer = await self._http.ask(
            "POST", "/api/v1/rpc", json=body, limit=LINE_BYTES_MAX, timeout_s=ANSWER_S
        )
        if not answer.is_ok:
            raise ChannelDown(f"signal-cli answered with status {answer.status}")
        return _result(answer.json())

    async def send(self, method: str, params: dict[str, Any]) -> Any:
        body = _request(next(self._numbers), method, params)
        answer = await self._http.send("POST", "/api/v1/rpc", json=body, timeout_s=ANSWER_S)
        if not answer.is_ok:
            raise DeliveryUncertain(f"signal-cli answered with status {answer.status}")
        return _result(answer.json())

    async def events(self) -> AsyncGenerator[Any]:
        """The events of the stream: `data:` lines up to an empty one. Its headers come with the first sign of
        life, after up to 15 s."""
        path = "/api/v1/events"
        if self._account:
            path += f"?account={quote(self._account, safe='')}"
        async with self._http.stream("GET", path, silence_s=SILENCE_S) as (status, lines):
            if status != 200:
                raise ChannelDown(f"signal-cli answered with status {status}")
            yield None
            data: list[bytes] = []
            async for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    yield _decode(b"\n".join(data))
                    data = []
        raise ChannelDown("signal-cli has ended its stream of events")

    async def close(self) -> None:
        await self._http.close()


class SignalSocket:
    """A connection for each call, so that one that cannot be made has sent nothing for sure; and one on which messages
    come."""

    def __init__(self, url: str, account: str, dial: Dial) -> None:
        self._url = urlsplit(url)
        self._account = account
        self._dial = dial
        self._numbers = itertools.count(1)

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self.send(method, params)
        except DeliveryError as error:
            raise ChannelDown(str(error)) from error

    async def send(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self._numbers)
        async with await self._connect() as line:
            try:
                with anyio.fail_after(ANSWER_S):
                    await line.write(_request(number, method, params))
                    return _result(await self._answer(line, number))
            except BROKEN as error:
                raise DeliveryUncertain("signal-cli went away before it answered") from error

    async def _answer(self, line: "JsonLines", number: int) -> Any:
        while True:
            found = _decode(await line.read())
            if isinstance(found, dict) and found.get("id") == str(number):
                return found

    async def _connect(self) -> "JsonLines":
        try:
            with anyio.fail_after(CONNECT_S):
                if self._url.scheme == "unix":
                    return JsonLines(await anyio.connect_unix(self._url.path))
                host, port = self._url.hostname or "127.0.0.1", self._url.port or 7583
                return JsonLines(await self._dial(host, port, False))
        except OSError as error:
            raise PlatformUnreachable(f"signal-cli is not there: {error}") from error

    async def events(self) -> AsyncGenerator[Any]:
        try:
            line = await self._connect()
        except DeliveryError as error:
            raise ChannelDown(str(error)) from error
        async with line:
            try:
                params = {"account": self._account}
                await line.write(_request(0, "subscribeReceive", params))
                with anyio.fail_after(ANSWER_S):
                    early = await self._subscribed(line)
                yield None
                for found in early:
                    yield found
                while True:
                    found = _decode(await line.read())
                    if isinstance(found, dict) and found.get("method") == "receive":
                        yield found.get("params")
            except BROKEN as error:
                raise ChannelDown("signal-cli went away") from error

    async def _subscribed(self, line: "JsonLines") -> list[Any]:
        """Waits for the answer to the subscription; returns messages that came before it. A daemon that
        receives by itself knows no subscriptions: its messages come without."""
        early: list[Any] = []
        while True:
            found = _decode(await line.read())
            if not isinstance(found, dict):
                continue
            if found.get("method") == "receive":
                early.append(found.get("params"))
            elif found.get("id") == "0":
                try:
                    _result(found)
                except SignalRefusal as refusal:
                    if refusal.number != NO_METHOD:
                        raise
                return early

    async def close(self) -> None:
        """Does nothing: no connection stays open between calls."""


BROKEN = (OSError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError)
NO_METHOD = -32601


class JsonLines:
    """Messages over any stream, one a line."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._rest = bytearray()

    async def write(self, message: Any) -> None:
        await self._stream.send(msgspec.json.encode(message) + b"\n")

    async def read(self) -> bytes:
        looked_at = 0
        while (end := self._rest.find(b"\n", looked_at)) < 0:
            looked_at = len(self._rest)
            if looked_at > LINE_BYTES_MAX:
                raise ChannelDown("signal-cli wrote a line that does not end")
            self._rest += await self._stream.receive(CHUNK)
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._stream)


def _decode(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
