"""The check of gateways that share a ledger: whether each takes runs, and why not."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio

from crossclaw.cli.checks import Finding
from crossclaw.cli.exits import CommandFailed
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import in_one_line
from crossclaw.client.errors import ClientError
from crossclaw.client.finding import ConnectOptions, served_port
from crossclaw.client.peer import READ

ANSWER_S_MAX = 5.0  # a gateway that does not answer is reported by other checks
TODO = "crossclaw gateways list; see docs/cluster.md."


def sharing(place: StateLocation) -> Iterator[Finding]:
    if not place.config.ledger.shared or not served_port(place):
        return
    for each in anyio.run(_gateways, place):
        if why := each.get("whyNoRuns"):
            text = f"it takes no runs, because {in_one_line(str(why))}"
            subject = f"gateway {in_one_line(str(each['id']))}"
            yield Finding(subject, "error" if each["here"] else "warning", text, TODO)


async def _gateways(place: StateLocation) -> list[dict[str, Any]]:
    with anyio.move_on_after(ANSWER_S_MAX), suppress(ClientError, CommandFailed):
        async with connect_peer(ConnectOptions(), lambda: place, READ, embed=False) as peer:
            answer = await peer.call("gateways.list", {})
            found: list[dict[str, Any]] = answer["gateways"]
            return found
    return []
