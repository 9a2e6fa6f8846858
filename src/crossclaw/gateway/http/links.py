"""The link between two gateways that share a ledger: one reads what the other's feed tells, a line an event."""

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint, bearer
from crossclaw.gateway.link_proof import LinkKey
from crossclaw.gateway.linking import LinkWriter
from crossclaw.runs.feed import Feed

PATH = "/gateways/events"
SIGN_OF_LIFE_S = 2.0


LINKED = Principal(
    name="gateway", role="operator", scopes=frozenset(), sight="nothing", authority=Authority()
)


def link_endpoint(feed: Feed, key: LinkKey, own: str, clock: Clock) -> Endpoint:
    """For a gateway that proves that it has the secret of all, or for whoever shows it: they may see everything anyway.
    The first line proves the same to the other side. `own` names this gateway's start."""

    def find(token: str) -> Principal | None:
        return None if key.answer(own, token, clock.now_ms()) is None else LINKED

    async def handle(request: Request, _principal: Principal) -> Response:
        proof = key.answer(own, bearer(request.headers) or "", clock.now_ms()) or ""
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        lines = _lines(feed, proof)
        return StreamingResponse(lines, headers=headers, media_type="application/x-ndjson")

    return Endpoint(method="GET", path=PATH, handle=handle, find_token=find)


async def _lines(feed: Feed, proof: str) -> AsyncGenerator[bytes]:
    writer = LinkWriter()
    leave = feed.subscribe(writer.hear)
    try:
        yield proof.encode() + b"\n"
        while not writer.is_full:
            yield await writer.take(SIGN_OF_LIFE_S)
    finally:
        leave()
