"""A question to another gateway: what is known of it when the other one does not answer as a gateway does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from starlette.requests import Request

from crossclaw.app import links
from crossclaw.app.links import split_lines
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.secret import Secret
from crossclaw.gateway import asking
from crossclaw.gateway.asking import GatewayRequests
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.links import ask_endpoint, link_endpoint
from crossclaw.gateway.link_proof import LinkKey, UsedTickets
from crossclaw.ledger.gateways import SharingGateway
from crossclaw.runs.feed import Feed
from crossclaw.runs.neighbours import Neighbour, NeighbourLost, Neighbours, NeighbourUnreached

pytestmark = [pytest.mark.anyio, pytest.mark.spec("K3")]
KEY = LinkKey(Secret("the secret that all of them have"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def neighbour(port: int | None) -> Neighbour:
    address = f"http://127.0.0.1:{port}" if port else ""
    return Neighbour(
        SharingGateway(
            gateway_id="b", incarnation="b1", joined_at=1, left_ms=3_000, address=address
        )
    )


@asynccontextmanager
async def answering(said: Callable[[bytes], bytes]) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Whatever listens at the address; with what it was asked."""
    asked: list[bytes] = []

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            if answer := said(asked[-1]):
                await stream.send(answer)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, handle)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), asked
        tasks.cancel_scope.cancel()


def http(status: str, body: bytes = b"{}", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
    return head.encode() + body


def ticket_in(asked: bytes) -> str:
    lines = asked.decode("latin-1").split("\r\n")
    return next(each for each in lines if each.lower().startswith("authorization")).split()[-1]


async def test_a_gateway_that_goes_in_the_middle_is_told_from_one_that_was_never_asked() -> None:
    requests = GatewayRequests(KEY, SystemClock())
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        closed = listener.extra(anyio.abc.SocketAttribute.local_port)
    for nobody in (neighbour(None), neighbour(closed)):
        with pytest.raises(NeighbourUnreached, match="nothing was done"):
            await requests.carry(nobody, b"{}", 5)
    for said, error in (
        (b"", NeighbourLost),  # killed
        (http("500 Internal Server Error"), NeighbourLost),
        (http("200 OK"), NeighbourLost),  # by one that does not have the secret
        (http("401 Unauthorized"), NeighbourUnreached),
        (http("409 Conflict"), NeighbourUnreached),
    ):
        async with answering(lambda _asked, said=said: said) as (port, asked):  # type: ignore[misc]
            with pytest.raises(error):
                await requests.carry(neighbour(port), b"{}", 5)
        assert len(asked) == 1, "once, whatever comes back"
    await requests.close()


async def test_an_answer_counts_only_for_the_question_that_it_was_sealed_for() -> None:
    requests, body = GatewayRequests(KEY, SystemClock()), b'{"result":1}'

    def honest(asked: bytes) -> bytes:
        return http("200 OK", KEY.seal("reply", "b1", ticket_in(asked), body))

    first: list[bytes] = []

    def recorded(asked: bytes) -> bytes:
        first.append(honest(asked))
        return first[0]

    async with answering(recorded) as (port, _asked):
        assert await requests.carry(neighbour(port), b"{}", 5) == body
        with pytest.raises(NeighbourLost):
            await requests.carry(neighbour(port), b"{}", 5)  # the same answer again
    await requests.close()


async def test_whoever_listens_at_an_address_in_the_ledger_cannot_read_what_is_asked() -> None:
    """A webhook that is passed on has its platform's secret in it."""
    requests, secret = GatewayRequests(KEY, SystemClock()), b"x-telegram-bot-api-secret-token"
    async with answering(lambda _asked: http("200 OK")) as (port, asked):
        with pytest.raises(NeighbourLost):
            await requests.carry(neighbour(port), b'{"kind":"webhook","body":"%s"}' % secret, 5)
    assert secret not in asked[0]
    body = asked[0].partition(b"\r\n\r\n")[2]
    ticket = ticket_in(asked[0])
    assert secret in (KEY.unseal("question", "b1", ticket, body) or b""), "the right one can"
    for side, to, of in (
        ("reply", "b1", ticket),
        ("question", "b2", ticket),
        ("question", "b1", "x"),
    ):
        assert KEY.unseal(side, to, of, body) is None  # type: ignore[arg-type]
    assert LinkKey(Secret("another")).unseal("question", "b1", ticket, body) is None
    for damaged in (b"", b"{}", b'"', b'"AAAA"', body[:-3] + b'A="', b"\xff"):
        assert KEY.unseal("question", "b1", ticket, damaged) is None
    await requests.close()


async def test_whoever_answers_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 2**20)
    requests = GatewayRequests(KEY, SystemClock())
    async with answering(lambda _asked: http("200 OK", b"x" * 2**21)) as (port, _asked):
        with pytest.raises(NeighbourLost, match="more than 1 MB"):
            await requests.carry(neighbour(port), b"{}", 5)
    await requests.close()


async def test_a_line_of_a_link_has_an_end_and_lines_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def pieces(*said: bytes) -> AsyncGenerator[bytes]:
        for each in said:
            yield each

    lines = [each async for each in split_lines(pieces(b"a", b"b\n\nc\n", b"d\ne"))]
    assert lines == [b"ab", b"c", b"d"], "the last one has no end yet"
    monkeypatch.setattr(links, "LINE_BYTES_MAX", 8)
    with pytest.raises(Forbidden):
        assert [each async for each in split_lines(pieces(b"12345", b"6789"))] == []


async def test_a_ticket_that_somebody_has_seen_on_its_way_opens_nothing_a_second_time() -> None:
    clock, used, neighbours = SystemClock(), UsedTickets(), Neighbours()
    events = link_endpoint(Feed(), neighbours, KEY, "b1", clock, used)
    ask = ask_endpoint(neighbours, KEY, "b1", clock, used)

    async def call(endpoint: Endpoint, ticket: str, body: bytes = b"") -> int:
        headers = [(b"authorization", f"Bearer {ticket}".encode())]
        scope = {"type": "http", "method": endpoint.method, "headers": headers}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        assert endpoint.find_token is not None
        principal = endpoint.find_token(ticket)
        assert principal is not None, "it is not too old"
        answer: Any = await endpoint.handle(Request(scope, receive), principal)
        return int(answer.status_code)

    first, second = (KEY.ticket("b1", clock.now_ms()).text for _ in range(2))
    question = KEY.seal("question", "b1", first, b'{"kind":"none"}')
    assert await call(ask, first, b"{}") == 403, "it does not prove the secret"
    assert await call(ask, first, question) == 200
    assert await call(ask, first, question) == 409
    assert await call(events, first) == 409, "nor does it open the link of events"
    assert await call(events, second) == 200
    assert await call(events, second) == 409
