"""Running: from a command's arguments to its gateway, into the event loop and back, with plain errors."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from crossclaw.cli.grammar import Arguments
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import served_places
from crossclaw.cli.say import note
from crossclaw.client.errors import plain_errors
from crossclaw.client.finding import ConnectOptions
from crossclaw.client.peer import GatewayPeer


def ask(
    arguments: Arguments,
    *scopes: str,
    work: Callable[[GatewayPeer], Awaitable[int]],
    embed: bool = True,
    lasting: bool = False,
    tell: Callable[[str], None] = note,
) -> int:
    """Finds the gateway that the options name, or embeds one, and does the work with it. With `lasting` a
    gateway that goes away meanwhile is waited for; `tell` reports that."""

    async def whole() -> int:
        wanted = ConnectOptions(arguments.url, arguments.token, arguments.password)
        async with connect_peer(
            wanted, served_places(), *scopes, embed=embed, lasting=lasting, tell=tell
        ) as peer:
            return await work(peer)

    return run_async(whole)


def run_async(work: Callable[[], Awaitable[int]]) -> int:
    # The command says what matters; a library's own log lines would only be in its way.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    with plain_errors():
        return anyio.run(work)
