"""The links between two gateways that share a ledger: one reads the other's feed, a line an event, and asks
it for what only that one can do."""

from collections.abc import AsyncGenerator

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint, FindToken, bearer
from crossclaw.gateway.link_proof import LinkKey, UsedTickets
from crossclaw.gateway.linking import LinkWriter
from crossclaw.runs.feed import Feed
from crossclaw.runs.neighbours import Neighbours

PATH = "/gateways/events"
ASK_PATH = "/gateways/ask"
SIGN_OF_LIFE_S = 2.0
QUESTION_BYTES_MAX = (
    11 * 2**20
)  # a webhook's body of 4 MB, written as text, and once more when it is encrypted
JSON = "application/json"
ASKED_BEFORE = "this was asked before"


LINKED = Principal(
    name="gateway", role="operator", scopes=frozenset(), sight="nothing", authority=Authority()
)


def _finder(key: LinkKey, own: str, clock: Clock) -> FindToken:
    def find(token: str) -> Principal | None:
        return None if key.answer(own, token, clock.now_ms()) is None else LINKED

    return find


def link_endpoint(
    feed: Feed, neighbours: Neighbours, key: LinkKey, own: str, clock: Clock, used: UsedTickets
) -> Endpoint:
    """Streams this gateway's feed to another one that proves that it has the shared secret, or to whoever shows
    it: they may see everything anyway.

    The first line proves the same to the other side. `own` names this gateway's start. A ticket in `used` opens
    nothing more.
    """

    async def handle(request: Request, principal: Principal) -> Response:
        ticket, now_ms = bearer(request.headers) or "", clock.now_ms()
        if principal is LINKED and not used.use(ticket, now_ms):
            return PlainTextResponse(ASKED_BEFORE, 409)
        proof = key.answer(own, ticket, now_ms) or ""
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        lines = _lines(feed, neighbours, proof)
        return StreamingResponse(lines, headers=headers, media_type="application/x-ndjson")

    return Endpoint(method="GET", path=PATH, handle=handle, find_token=_finder(key, own, clock))


async def _lines(feed: Feed, neighbours: Neighbours, proof: str) -> AsyncGenerator[bytes]:
    writer = LinkWriter(neighbours.own_clients)
    leave = feed.subscribe(writer.on_event)
    stop_listening = neighbours.listen(writer.send_clients)
    try:
        yield proof.encode() + b"\n"
        while not writer.is_full and not neighbours.is_closed:
            yield await writer.take(SIGN_OF_LIFE_S)
    finally:
        leave()
        stop_listening()


def ask_endpoint(
    neighbours: Neighbours, key: LinkKey, own: str, clock: Clock, used: UsedTickets
) -> Endpoint:
    """Answers questions of other gateways. They may ask for actions, so a question is sealed with its ticket,
    and accepted once."""

    async def handle(request: Request, principal: Principal) -> Response:
        ticket, body = bearer(request.headers) or "", await request.body()
        question = key.unseal("question", own, ticket, body) if principal is LINKED else None
        if question is None:
            return PlainTextResponse("only gateways that share the ledger ask here", 403)
        if not used.use(ticket, clock.now_ms()):
            return PlainTextResponse(ASKED_BEFORE, 409)
        try:
            said = await neighbours.answer_one(question)
        except msgspec.MsgspecError as error:
            return PlainTextResponse(f"this is no question: {error}", 400)
        if said is None:
            return PlainTextResponse("this gateway closes", 500)
        sealed = key.seal("reply", own, ticket, said)
        return Response(sealed, headers={"cache-control": "no-store"}, media_type=JSON)

    return Endpoint(
        method="POST",
        path=ASK_PATH,
        handle=handle,
        find_token=_finder(key, own, clock),
        body_bytes_max=QUESTION_BYTES_MAX,
    )
