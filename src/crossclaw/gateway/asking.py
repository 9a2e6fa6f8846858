"""Requests to another gateway: encrypted both ways, and never repeated automatically."""

from typing import Any

import anyio
import anyio.to_thread

from crossclaw.domain.clock import Clock
from crossclaw.gateway.http.links import ASK_PATH, JSON
from crossclaw.gateway.link_proof import LinkKey
from crossclaw.runs.neighbours import Neighbour, NeighbourLost, NeighbourUnreached

CONNECT_S = 5.0
ANSWER_BYTES_MAX = (
    64 * 2**20
)  # a picture of a device, written as text twice; nobody knows yet who answers
_NOT_HEARD = frozenset({400, 401, 403, 404, 405, 409, 413, 415, 421, 503})
"""Status codes that the other edge answers before anything was done."""


class GatewayRequests:
    """Sends requests from this gateway to the others. `close` ends it."""

    def __init__(self, key: LinkKey, clock: Clock) -> None:
        self._key, self._clock = key, clock
        self._http: Any = None
        self._opening = anyio.Lock()

    async def carry(self, neighbour: Neighbour, question: bytes, timeout_s: float) -> bytes:
        """Sends a question to another gateway and returns its answer as it was written."""
        facts = neighbour.facts
        if not facts.address:
            raise NeighbourUnreached(neighbour.name, "it does not listen yet")
        client = await self.http()
        import httpx2  # noqa: PLC0415  loaded by now, in a thread

        ticket = self._key.ticket(facts.incarnation, self._clock.now_ms())
        headers = {
            "authorization": f"Bearer {ticket.text}",
            "content-type": JSON,
            "accept-encoding": "identity",
        }
        sealed = self._key.seal("question", facts.incarnation, ticket.text, question)
        limits = httpx2.Timeout(CONNECT_S, read=timeout_s)
        url = f"{facts.address.rstrip('/')}{ASK_PATH}"
        try:
            with anyio.fail_after(CONNECT_S + timeout_s):  # also where it comes in drops
                status, said = await _post(client, url, sealed, headers=headers, timeout=limits)
        except TimeoutError as error:
            raise NeighbourLost(neighbour.name, "it takes too long") from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            raise NeighbourUnreached(neighbour.name, _words(error)) from error
        except (httpx2.HTTPError, OSError) as error:
            raise NeighbourLost(neighbour.name, _words(error)) from error
        if status in _NOT_HEARD:
            raise NeighbourUnreached(neighbour.name, f"it answers {status}")
        answer = self._key.unseal("reply", facts.incarnation, ticket.text, said)
        if status != 200 or answer is None:
            raise NeighbourLost(neighbour.name, f"what answered with {status} is not that gateway")
        return answer

    async def http(self) -> Any:
        """The shared HTTP client. Importing its package and reading the trusted certificates takes half a
        second, so it is opened in a thread."""
        async with self._opening:
            if self._http is None:
                self._http = await anyio.to_thread.run_sync(_open)
        return self._http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()


def _open() -> Any:
    """Opens an HTTP client that uses a connection a request: a kept one may be gone, and nobody would know
    what has arrived."""
    import httpx2  # noqa: PLC0415  only where there are other gateways

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncClient(limits=limits, trust_env=False)


async def _post(client: Any, url: str, body: bytes, **how: Any) -> tuple[int, bytes]:
    """Posts a body; returns status and answer. The answer's size is limited, since the peer may send any amount."""
    said = bytearray()
    async with client.stream("POST", url, content=body, **how) as answer:
        async for piece in answer.aiter_raw():
            said += piece
            if len(said) > ANSWER_BYTES_MAX:
                raise OSError(f"it answers more than {ANSWER_BYTES_MAX // 2**20} MB")
        return answer.status_code, bytes(said)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
