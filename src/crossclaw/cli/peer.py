"""The gateway that a command talks with: the running one, or its parts opened in this process for one call.

A command does not know which one it has: both have `call` and `listen`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import note
from crossclaw.client.errors import (
    BadAddress,
    CallRefused,
    ClientError,
    GatewayDown,
    NobodyListens,
    NotLetIn,
    WaitTimeout,
    plain_errors,
)
from crossclaw.client.finding import (
    ConnectOptions,
    find_gateway,
    find_serving,
    how_to_start,
    taken_port,
)
from crossclaw.client.peer import GatewayPeer
from crossclaw.domain.aliases import Tell
from crossclaw.domain.errors import StoreLocked

LOCKED_S_MAX = 20.0  # a neighbour's call without a gateway is over by then, or it is none
_LOOK_AGAIN_S = 0.2

Locate = Callable[[], StateLocation]


def failed_by(error: ClientError) -> CommandFailed:
    """The end of a command whose gateway could not be asked, or refused."""
    match error:
        case BadAddress():
            code = Exit.USAGE
        case NotLetIn():
            code = Exit.UNAUTHORIZED
        case CallRefused():
            code = Exit.UNAUTHORIZED if error.is_forbidden else Exit.FAILED
        case GatewayDown():
            code = Exit.UNREACHABLE
        case WaitTimeout():
            code = Exit.TIMEOUT
        case _:
            code = Exit.FAILED
    return CommandFailed(str(error), code, hint=error.hint)


@asynccontextmanager
async def connect_peer(
    wanted: ConnectOptions,
    locate: Locate,
    *scopes: str,
    embed: bool = True,
    lasting: bool = False,
    tell: Tell = note,
) -> AsyncGenerator[GatewayPeer]:
    """Connects to the gateway that was asked for. When the local one does not run and `embed` allows it, its
    parts are opened for this call, in this process. With `lasting` it reconnects when the gateway went away;
    `tell` reports that."""
    place = locate()
    address = find_gateway(wanted, place)
    if address.is_open_line:
        note(f"the token goes to {address.url} unencrypted; wss:// would protect it")
    with plain_errors():
        async with AsyncExitStack() as stack:
            opening = _Opening(wanted, locate, scopes, lasting, tell)
            yield await opening.reach(stack, embed and not place.unread)


class _Opening:
    def __init__(
        self,
        wanted: ConnectOptions,
        locate: Locate,
        scopes: tuple[str, ...],
        lasting: bool,
        tell: Tell,
    ) -> None:
        self._wanted = wanted
        self._locate = locate
        self._scopes = scopes
        self._lasting = lasting
        self._tell = tell

    async def reach(self, stack: AsyncExitStack, embed: bool) -> GatewayPeer:
        locked_until = anyio.current_time() + LOCKED_S_MAX
        while True:
            place = self._locate()
            address = find_gateway(self._wanted, place)
            try:
                return await stack.enter_async_context(self._line())
            except NobodyListens as error:
                hint = how_to_start(address)
                if hint and place.config.ledger.shared:
                    hint += "\nOr ask another one that shares its ledger: --url names it."
                why: ClientError = GatewayDown(str(error), hint=hint)
            except NotLetIn as error:
                if not address.is_unnamed:
                    raise
                why = error  # of a gateway that was killed, the port may be another's by now
            if not (embed and address.is_local):
                raise why
            if place.config.ledger.shared:  # this call would be a gateway among the others
                raise GatewayDown(
                    f"{why}; the ledger is shared by several gateways, and is used through one of them",
                    hint="crossclaw gateway starts this one; --url names another.",
                ) from None
            try:
                return await stack.enter_async_context(_embedded(place, taken_port(address)))
            except StoreLocked as error:
                if isinstance(why, NotLetIn):
                    raise why from None
                if anyio.current_time() > locked_until:
                    raise GatewayDown(f"{why}, and {error}") from None
            await anyio.sleep(_LOOK_AGAIN_S)

    def _line(self) -> AbstractAsyncContextManager[GatewayPeer]:
        from crossclaw.client import reconnecting, wire  # noqa: PLC0415  brings websockets, 100 ms

        return reconnecting.open_reconnecting(
            # Found anew each time: another config may say another port or token.
            lambda: find_serving(self._wanted, self._locate()),
            self._scopes,
            name=wire.ClientName("cli", "cli"),
            away_s=reconnecting.AWAY_S_MAX if self._lasting else 0.0,
            tell=self._tell,
        )


def _embedded(
    place: StateLocation, port_taken: str | None
) -> AbstractAsyncContextManager[GatewayPeer]:
    from crossclaw.cli.embedded import open_embedded  # noqa: PLC0415  brings all of the gateway

    return open_embedded(place, port_taken)
