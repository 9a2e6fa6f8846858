"""`gateways`: the gateways that share one ledger."""

from typing import Any

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import in_one_line, out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import ADMIN, READ, GatewayPeer
from crossclaw.domain.clock import SystemClock


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("gateways.list", {}, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
        elif not answer["shared"]:
            out("this gateway has its ledger for itself (ledger.shared is not set)")
        else:
            out(_shown(answer["gateways"], SystemClock().now_ms()))
            for line in reasons_shown(answer["gateways"]):
                out(f"\n{line}")
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


def reasons_shown(found: list[dict[str, Any]]) -> list[str]:
    """The reasons why gateways take no runs. Names and settings in them come from other machines."""
    return [
        in_one_line(f"{each['id']} takes no runs, because {each['whyNoRuns']}.")
        for each in found
        if each.get("whyNoRuns")
    ]


def _shown(found: list[dict[str, Any]], now_ms: float) -> str:
    rows = [
        (
            each["id"] + (" (this one)" if each["here"] else ""),
            _state(each),
            str(each["runs"]),
            str(each["configEpoch"]),
            ", ".join(each["roles"]),
            each["version"],
            ago(each["joinedAt"], now_ms),
        )
        for each in found
    ]
    return table(("gateway", "state", "runs", "config", "roles", "version", "since"), rows)


def _state(each: dict[str, Any]) -> str:
    if not each["leaseMs"]:
        return "not heard of"
    if each["draining"]:
        return "draining"
    return "takes no runs" if each.get("whyNoRuns") else "there"


def _drain_arguments(parser: Parser) -> None:
    parser.add_argument("id", help="its name, as `gateways list` shows it")
    gateway_options(parser)


def _drain(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        await peer.call("gateways.drain", {"id": arguments.id}, timeout_s=arguments.timeout)
        out(f"{arguments.id} begins nothing more, and leaves when its runs have ended")
        return Exit.OK

    return ask(arguments, ADMIN, work=work, embed=False)


COMMANDS = {
    "list": CommandSpec(asking_options, _list),
    "drain": CommandSpec(_drain_arguments, _drain),
}
