"""`channels`: the chat accounts of the gateway that runs, and how they are."""

from typing import Any
from uuid import uuid4

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options, json_option
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import READ, WRITE, GatewayPeer
from crossclaw.domain.clock import SystemClock

TEST_WORDS = "This is a test message of your gateway."


def _arguments(parser: Parser) -> None:
    parser.add_argument("--probe", action="store_true", help="ask each platform now who we are")
    json_option(parser)
    gateway_options(parser)


def _status(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"probe": True} if arguments.probe else {}
        answer = await peer.call("channels.status", params, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_shown(answer, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


def _shown(answer: dict[str, Any], now_ms: float) -> str:
    rows: list[tuple[object, ...]] = []
    for name in answer["channelOrder"]:
        accounts = answer["channelAccounts"].get(name) or []
        if not accounts:
            running = answer["channels"][name].get("running")
            rows.append((name, None, "running" if running else "stopped", None, None, None))
        for each in accounts:
            heard, error = each.get("lastInboundAt"), each.get("lastError")
            probe = each.get("probe")
            if probe is not None:
                error = None if probe["ok"] else probe["error"]
            who = (each.get("bot") or {}).get("username")
            rows.append((name, each["accountId"], each["state"], who, ago(heard, now_ms), error))
    head = ("channel", "account", "state", "who", "last message", "last error")
    return table(head, rows)


def _test_arguments(parser: Parser) -> None:
    parser.add_argument("channel", help="the channel")
    parser.add_argument("target", help="the chat or person that gets a test message")
    parser.add_argument("--account", metavar="ID", help="which account, where there are several")
    gateway_options(parser)


def _test(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"channel": arguments.channel, "to": arguments.target, "message": TEST_WORDS}
        params |= {"accountId": arguments.account} if arguments.account else {}
        await peer.call("send", params | {"idempotencyKey": str(uuid4())})
        out(
            "It is on its way; crossclaw channels status and crossclaw deliveries list say if it failed."
        )
        return Exit.OK

    return ask(arguments, WRITE, work=work, embed=False)


COMMANDS = {
    "status": CommandSpec(_arguments, _status),
    "list": CommandSpec(_arguments, _status),
    "test": CommandSpec(_test_arguments, _test),
}
