"""A question to another gateway: what is known of it when the other one does not answer as a gateway does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from crossclaw.domain.clock import SystemClock
from crossclaw.domain.secret import Secret
from crossclaw.gateway.asking import GatewayRequests
from crossclaw.gateway.link_proof import LinkKey
from crossclaw.gateway.neighbours import Neighbour, NeighbourLost, NeighbourUnreached
from crossclaw.ledger.gateways import SharingGateway

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
        seal = KEY.seal("reply", "b1", ticket_in(asked), body)
        return http("200 OK", body, f"x-crossclaw-seal: {seal}\r\n")

    first: list[bytes] = []

    def recorded(asked: bytes) -> bytes:
        first.append(honest(asked))
        return first[0]

    async with answering(recorded) as (port, _asked):
        assert await requests.carry(neighbour(port), b"{}", 5) == body
        with pytest.raises(NeighbourLost):
            await requests.carry(neighbour(port), b"{}", 5)  # the same answer again
    await requests.close()
