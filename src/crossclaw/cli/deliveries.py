"""`deliveries`: replies to chats that did not arrive, or whose outcome is unknown."""

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
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import READ, WRITE, GatewayPeer
from crossclaw.domain.clock import SystemClock

CHARS = 60


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"kinds": ["delivery"]}
        answer = await peer.call("attention.list", params, timeout_s=arguments.timeout)
        found = answer["rows"]
        if arguments.json:
            out_json({"deliveries": found})
        else:
            out(_shown(found, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


def _shown(found: list[dict[str, Any]], now_ms: float) -> str:
    rows = [
        (
            each["id"].split(":")[1],
            each["what"][:CHARS],
            (each.get("why") or "")[:CHARS],
            ago(each["since"], now_ms),
        )
        for each in found
    ]
    return table(("delivery", "what", "why", "when"), rows) if rows else "every reply has arrived"


def _id_arguments(parser: Parser) -> None:
    parser.add_argument("id", type=int, help="its number, as `deliveries list` shows it")
    gateway_options(parser)


def _settle(method: str, said: str) -> Any:
    def run(arguments: Arguments) -> int:
        async def work(peer: GatewayPeer) -> int:
            await peer.call(method, {"id": arguments.id}, timeout_s=arguments.timeout)
            out(said)
            return Exit.OK

        return ask(arguments, WRITE, work=work, embed=False)

    return run


COMMANDS = {
    "list": CommandSpec(asking_options, _list),
    "resend": CommandSpec(_id_arguments, _settle("deliveries.resend", "It is sent again.")),
    "delivered": CommandSpec(
        _id_arguments, _settle("deliveries.delivered", "It counts as delivered.")
    ),
}
