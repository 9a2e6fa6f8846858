"""The link between two gateways that share a ledger: one reads what the other's feed tells, a line an event."""

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.linking import LinkWriter
from crossclaw.runs.feed import Feed

PATH = "/gateways/events"
SIGN_OF_LIFE_S = 2.0


def link_endpoint(feed: Feed) -> Endpoint:
    """For the gateways' own secret: whoever has it may see everything anyway."""

    async def handle(_request: Request, _principal: Principal) -> Response:
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return StreamingResponse(_lines(feed), headers=headers, media_type="application/x-ndjson")

    return Endpoint(method="GET", path=PATH, handle=handle)


async def _lines(feed: Feed) -> AsyncGenerator[bytes]:
    writer = LinkWriter()
    leave = feed.subscribe(writer.hear)
    try:
        yield b"\n"
        while not writer.is_full:
            yield await writer.take(SIGN_OF_LIFE_S)
    finally:
        leave()
