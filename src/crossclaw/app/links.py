"""Links to the other gateways: bring the events of their runs to the clients of this one, and ask
them for what only they can do.

There is one link to each of the others; it also says who is connected there. The end of a run is
known without it too: by the ledger's hint, a moment later.
"""

import logging
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from functools import partial
from hmac import compare_digest

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from crossclaw.app.parts import Gateway
from crossclaw.domain.aliases import Hints
from crossclaw.domain.errors import CrossclawError, Forbidden
from crossclaw.domain.events import RunEnded
from crossclaw.domain.newest import keep_newest
from crossclaw.gateway.asking import GatewayRequests
from crossclaw.gateway.http.links import PATH, SIGN_OF_LIFE_S
from crossclaw.gateway.link_proof import LinkKey, load_cipher
from crossclaw.gateway.linking import LinkReader
from crossclaw.ledger.gateways import BEAT_S, Membership, SharingGateway
from crossclaw.ledger.hints import ENDED
from crossclaw.runs.neighbours import ConnectedClients

log = logging.getLogger(__name__)

AGAIN_S = 1.0  # between two tries to reach a neighbour
LINK_GRACE_S = 0.3  # an end usually comes by the link, with what was said before it
ENDS_KNOWN_MAX = 10_000
LINE_BYTES_MAX = 16 * 2**20  # of a link; the longest reply is far shorter


async def split_lines(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """The lines of a stream that are not empty. They have a limit: whoever listens at an address in
    the ledger may send any amount."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line:
                yield line
        if len(rest) > LINE_BYTES_MAX:
            raise Forbidden(f"a line of it is longer than {LINE_BYTES_MAX // 2**20} MB")


class GatewayLinks:
    def __init__(self, gateway: Gateway, membership: Membership, key: LinkKey) -> None:
        self._gateway, self._membership, self._key = gateway, membership, key
        self._requests = GatewayRequests(key, gateway.context.clock)
        gateway.neighbours.begin_asking(self._requests.carry)
        self._linked: dict[str, anyio.CancelScope] = {}
        """The link to each neighbour, by its incarnation."""
        self._published_ends: OrderedDict[str, None] = OrderedDict()
        self._ended: set[str] = set()
        self._news = anyio.Event()

    async def serve(self) -> None:
        self._gateway.ledger.on_hint(ENDED, self._on_ends)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell_ends, name="ends on other gateways")
                while True:
                    await self._look_around(tasks)
                    await anyio.sleep(BEAT_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self._requests.close()

    async def _look_around(self, tasks: TaskGroup) -> None:
        try:
            self._settle(tasks, await self._membership.list_gateways())
        except CrossclawError as error:
            log.warning("the other gateways are looked for again: %s", error)

    def _settle(self, tasks: TaskGroup, found: Sequence[SharingGateway]) -> None:
        others = {
            each.incarnation: each
            for each in found
            if each.incarnation != self._gateway.ledger.owner and each.address and each.left_ms > 0
        }
        self._gateway.neighbours.settle(others.values())
        for gone in self._linked.keys() - others.keys():
            self._linked.pop(gone).cancel()
        for incarnation, each in others.items():
            if incarnation not in self._linked:
                scope = self._linked[incarnation] = anyio.CancelScope()
                tasks.start_soon(self._keep, scope, each, name=f"link to {each.gateway_id}")

    async def _keep(self, scope: anyio.CancelScope, other: SharingGateway) -> None:
        await self._requests.http()
        import httpx2  # noqa: PLC0415  loaded by now, in a thread

        with scope:
            while True:
                try:
                    await self._listen(other)
                except (httpx2.HTTPError, OSError, CrossclawError, msgspec.MsgspecError) as error:
                    log.info(
                        "there is no link to gateway %s: %s; it is tried again in %g s",
                        other.gateway_id,
                        str(error) or type(error).__name__,
                        AGAIN_S,
                    )
                finally:
                    self._gateway.neighbours.note_clients(other.incarnation, ConnectedClients())
                await anyio.sleep(AGAIN_S)

    async def _listen(self, other: SharingGateway) -> None:
        import httpx2  # noqa: PLC0415  loaded by now

        reader = LinkReader(
            self._gateway.ledger, partial(self._gateway.neighbours.note_clients, other.incarnation)
        )
        ticket = self._key.ticket(other.incarnation, self._gateway.context.clock.now_ms())
        headers = {"authorization": f"Bearer {ticket.text}", "accept-encoding": "identity"}
        limits = httpx2.Timeout(5.0, read=SIGN_OF_LIFE_S * 3)
        http, url = await self._requests.http(), f"{other.address.rstrip('/')}{PATH}"
        async with http.stream("GET", url, headers=headers, timeout=limits) as answer:
            if answer.status_code != 200:
                raise httpx2.HTTPError(f"it answers {answer.status_code}")
            is_known = False
            async for line in split_lines(answer.aiter_raw()):
                if not is_known:
                    is_known = compare_digest(line, ticket.answer.encode())
                    if not is_known:
                        raise Forbidden("it does not have the secret of the gateways")
                else:
                    await self._take_line(reader, line)

    async def _take_line(self, reader: LinkReader, line: bytes) -> None:
        event = await reader.read(line)
        if isinstance(event, RunEnded) and not self._is_first_end(event.run.run_id):
            return
        if event is not None:
            self._gateway.feed.publish_from_others(event)

    # ── ends, also without a link ──────────────────────────────────────────────────────────────

    def _on_ends(self, run_ids: Hints | None) -> None:
        self._ended.update(run_ids or ())
        if self._ended:
            self._news.set()

    async def _tell_ends(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(LINK_GRACE_S)
            self._news = anyio.Event()
            ended, self._ended = self._ended, set()
            for run_id in ended:
                if run_id not in self._published_ends:
                    await self._tell_end(run_id)

    async def _tell_end(self, run_id: str) -> None:
        gateway = self._gateway
        try:
            run = await gateway.ledger.find_run(run_id)
            if run is None or not run.ended or not self._is_first_end(run_id):
                return
            session = await gateway.ledger.find_session(run.key)
            ended = RunEnded(run, gateway.endings.is_withheld(run, session))
            gateway.feed.publish_from_others(ended)
        except CrossclawError as error:
            log.warning("the end of a run on another gateway was not shown: %s", error)

    def _is_first_end(self, run_id: str) -> bool:
        if run_id in self._published_ends:
            return False
        keep_newest(self._published_ends, run_id, None, ENDS_KNOWN_MAX)
        return True


async def begin_links(tasks: TaskGroup, gateway: Gateway, address: str, key: LinkKey) -> None:
    """Starts the links once this gateway listens; does nothing if it does not share its ledger."""
    membership = gateway.ledger.gateways
    if membership is None:
        return
    await anyio.to_thread.run_sync(load_cipher)
    await membership.publish_address(gateway.config.ledger.reached_at or _reachable(address))
    links = GatewayLinks(gateway, membership, key)
    tasks.start_soon(links.serve, name="links to other gateways")


def _reachable(address: str) -> str:
    """The address by which others reach this gateway. One that listens on all interfaces is reached
    by the machine's name."""
    for everywhere in ("//0.0.0.0:", "//[::]:", "//:::"):
        address = address.replace(everywhere, f"//{socket.gethostname()}:")
    return address
