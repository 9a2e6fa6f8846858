"""Lasting: a peer that outlives its connection. A gateway that takes over a changed config closes its
connections and is there again within a second; whoever follows it or talks with it goes on then."""

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from crossclaw.cli.finding import Wanted
from crossclaw.cli.grammar import Arguments
from crossclaw.cli.peer import Event, GatewayPeer, Unreachable, connect_peer
from crossclaw.cli.place import find_served_place
from crossclaw.cli.running import run_async
from crossclaw.cli.say import note

AWAY_S_MAX = (
    30.0  # a gateway that is started again is there by then; longer away, a person asks why
)
_WAIT_S_MIN, _WAIT_S_MAX = 0.1, 2.0
_TELL_AFTER = 3  # attempts: who takes over a config is back before, and nobody has noticed


class LastingPeer:
    """The peer of now. `renew` takes the place of a connection that was lost; what was listened to
    on the old one has ended."""

    def __init__(
        self,
        arguments: Arguments,
        scopes: tuple[str, ...],
        *,
        embed: bool,
        tell: Callable[[str], None] = note,
    ) -> None:
        self._wanted = Wanted(arguments.url, arguments.token, arguments.password)
        self._scopes = scopes
        self._embed = embed
        self._tell = tell
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "LastingPeer":
        await self._open(embed=self._embed)
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stack.__aexit__(*error)

    async def _open(self, *, embed: bool) -> None:
        # Found anew each time: another config may say another port or token.
        opening = connect_peer(self._wanted, find_served_place(), *self._scopes, embed=embed)
        self._peer: GatewayPeer = await self._stack.enter_async_context(opening)
        self.place, self.embedded = self._peer.place, self._peer.embedded
        self.defaults = self._peer.defaults

    async def call(
        self, method: str, params: dict[str, Any], *, timeout_s: float = 30, final: bool = False
    ) -> Any:
        return await self._peer.call(method, params, timeout_s=timeout_s, final=final)

    def listen(self) -> AbstractContextManager[MemoryObjectReceiveStream[Event]]:
        return self._peer.listen()

    async def renew(self, within_s: float = AWAY_S_MAX) -> None:
        """Only where nothing is open inside the old connection: its task group ends with it. For the same
        reason the limit is a number: a cancel scope around this would be outlived by the new one."""
        await self._stack.aclose()
        patience_s = min(within_s, AWAY_S_MAX)
        until, wait_s = anyio.current_time() + patience_s, _WAIT_S_MIN
        for attempt in itertools.count(1):
            await anyio.sleep(wait_s)  # first of all: one that lets in and cuts is not run into
            wait_s = min(2 * wait_s, _WAIT_S_MAX)
            try:
                await self._open(embed=False)
            except Unreachable:
                if anyio.current_time() + wait_s > until:
                    raise self._stays_away(patience_s) from None
                if attempt == _TELL_AFTER:
                    self._tell(f"the gateway is away; waiting for it, up to {patience_s:.0f} s")
            else:
                self._tell("the gateway was away; it is there again")
                return

    async def again(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work that may be done twice, once more when the connection was lost."""
        try:
            await work()
        except Unreachable:
            await self.renew()
            await work()

    def _stays_away(self, patience_s: float) -> Unreachable:
        return Unreachable(
            f"the gateway at {self.place} went away and is not back after {patience_s:.0f} s",
            hint="crossclaw doctor looks for what is wrong; crossclaw gateway starts one here",
        )


def ask_lasting(
    arguments: Arguments,
    *scopes: str,
    work: Callable[[LastingPeer], Awaitable[int]],
    embed: bool = True,
    tell: Callable[[str], None] = note,
) -> int:
    """As `ask`, with a peer that can be renewed; `tell` says when it was."""

    async def whole() -> int:
        async with LastingPeer(arguments, scopes, embed=embed, tell=tell) as peer:
            return await work(peer)

    return run_async(whole)
