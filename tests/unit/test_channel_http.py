"""The HTTP client of channels knows at which moment a request failed: before it left it may be tried again, after
that nobody knows."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import httpx2
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.domain.errors import ChannelDown, DeliveryError, DeliveryUncertain, MediaRefused


class Platform(httpx2.AsyncBaseTransport):
    """Answers or fails as it is told, and keeps what it was asked."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


BEFORE = [httpx2.ConnectError("x"), httpx2.ConnectTimeout("x"), httpx2.PoolTimeout("x"), httpx2.ProxyError("x")]  # fmt: skip
AFTER = [httpx2.ReadError("x"), httpx2.WriteError("x"), httpx2.ReadTimeout("x"), httpx2.WriteTimeout("x"), httpx2.RemoteProtocolError("x")]  # fmt: skip


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("error", BEFORE, ids=lambda each: type(each).__name__)
async def test_what_did_not_leave_may_be_sent_again(error: Exception) -> None:
    http = HttpClients(Platform(error, error)).open("https://api.example.org/secret-token")
    with pytest.raises(DeliveryError) as raised:
        await http.send("POST", "sendMessage", json={})
    assert raised.value.retryable
    assert not isinstance(raised.value, DeliveryUncertain)
    assert "secret-token" not in str(raised.value)
    with pytest.raises(ChannelDown):
        await http.ask("GET", "getMe")


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("error", AFTER, ids=lambda each: type(each).__name__)
async def test_what_may_have_left_is_uncertain(error: Exception) -> None:
    http = HttpClients(Platform(error, error)).open("https://api.example.org")
    with pytest.raises(DeliveryUncertain):
        await http.send("POST", "sendMessage", json={})
    with pytest.raises(ChannelDown):
        await http.ask("GET", "getMe")


async def test_an_answer_is_an_answer_whatever_its_status() -> None:
    refused = httpx2.Response(429, headers={"Retry-After": "3"}, content=b'{"ok": false}')
    clients = HttpClients(Platform(refused, httpx2.Response(502, content=b"<html>")))
    http = clients.open("https://api.example.org")
    answer = await http.send("POST", "sendMessage", json={"text": "hi"})
    assert (answer.status, answer.json(), answer.retry_after_s) == (429, {"ok": False}, 3.0)
    assert (await http.ask("GET", "getMe")).json() is None
    await clients.close()


async def test_a_file_is_fetched_up_to_its_limit_and_from_hosts_of_the_platform_alone() -> None:
    platform = Platform(
        httpx2.Response(302, headers={"location": "https://cdn.example.net/file"}),
        httpx2.Response(200, content=b"12345"),
        httpx2.Response(200, content=b"123456"),
        httpx2.Response(302, headers={"location": "http://169.254.169.254/latest"}),
        httpx2.Response(404),
        httpx2.Response(302, headers={"location": "http://api.example.org/file"}),
        httpx2.Response(302, headers={"location": "https://[odd"}),
        httpx2.Response(302, headers={"location": "https://api.example.org:8443/file"}),
        httpx2.Response(200, content=b"1"),
    )
    http = HttpClients(platform).open(
        "https://api.example.org", headers={"authorization": "Bearer x"}, hosts=["*.example.net"]
    )
    assert await http.download("file/1", limit=5) == b"12345"
    assert [each.headers.get("authorization") for each in platform.asked] == ["Bearer x", None]
    for words in ("bytes", "does not belong", "404", "without encryption", "not a valid URL"):
        with pytest.raises(MediaRefused, match=words):
            await http.download("file/1", limit=5)
    assert await http.download("file/1", limit=5) == b"1"
    assert platform.asked[-1].headers.get("authorization") is None  # another port may be another's


@asynccontextmanager
async def listening(closes_after: int) -> AsyncGenerator[int]:
    """A real port that reads so much of a request and closes; 0: at once."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port: int = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            if closes_after:
                await stream.receive(closes_after)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hang_up)
        yield port
        tasks.cancel_scope.cancel()
    await listener.aclose()


async def test_a_real_connection_that_is_cut_is_told_apart_from_one_that_never_was() -> None:
    clients = HttpClients()
    async with listening(closes_after=65_536) as port:
        http = clients.open(f"http://127.0.0.1:{port}")
        with pytest.raises(DeliveryUncertain):
            await http.send("POST", "sendMessage", json={"text": "hi"})
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        http = clients.open(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(DeliveryError) as raised:
            await http.send("POST", "sendMessage", json={"text": "hi"})
        assert raised.value.retryable
    await clients.close()
