"""`pairing`: people who ask to talk to an assistant on a chat platform."""

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
from crossclaw.client.peer import ADMIN, GatewayPeer
from crossclaw.domain.clock import SystemClock


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("channel", nargs="?", help="only of this channel")
    parser.add_argument("--channel", dest="named_channel", help="the same")
    asking_options(parser)


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        channel = arguments.channel or arguments.named_channel
        params = {"channel": channel} if channel else {}
        answer = await peer.call("chat.pairing.list", params, timeout_s=arguments.timeout)
        if arguments.json:
            out_json({**({"channel": channel} if channel else {}), **answer})
        else:
            out(_shown(answer, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _shown(answer: dict[str, Any], now_ms: float) -> str:
    parts = []
    if answer["requests"]:
        rows = [
            (each["code"], *_about(each), ago(each["createdAt"], now_ms))
            for each in answer["requests"]
        ]
        parts.append(table(("code", "channel", "account", "id", "name", "asked"), rows))
    if answer["paired"]:
        rows = [(*_about(each), ago(each["approvedAt"], now_ms)) for each in answer["paired"]]
        parts.append(table(("may talk: channel", "account", "id", "name", "approved"), rows))
    return "\n\n".join(parts) or "nobody asks to talk, and nobody was approved by a code"


def _about(each: dict[str, Any]) -> tuple[object, ...]:
    return each["channel"], each["accountId"], each["sender"], each["senderName"]


def _code_arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="+", metavar="channel code", help="the channel and the code")
    parser.add_argument("--channel", dest="named_channel", help="the channel, before the code")
    parser.add_argument("--account", help="only of this account")
    gateway_options(parser)


def _decide(method: str, said: str) -> Any:
    def run(arguments: Arguments) -> int:
        words = [*filter(None, [arguments.named_channel]), *arguments.words]
        if len(words) != 2:
            out("say the channel and the code: crossclaw pairing approve telegram ABCD2345")
            return Exit.USAGE
        params = {"channel": words[0], "code": words[1]}
        if arguments.account:
            params["accountId"] = arguments.account

        async def work(peer: GatewayPeer) -> int:
            answer = await peer.call(method, params, timeout_s=arguments.timeout)
            request = answer["request"]
            name = f" ({in_one_line(request['senderName'])})" if request["senderName"] else ""
            out(f"{request['sender']}{name} {said} {request['channel']}.")
            return Exit.OK

        return ask(arguments, ADMIN, work=work)

    return run


def _remove_arguments(parser: Parser) -> None:
    parser.add_argument("channel", help="the channel")
    parser.add_argument("id", help="whose permission ends, as `pairing list` shows it")
    parser.add_argument("--account", help="of this account; else of the default one")
    gateway_options(parser)


def _remove(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"channel": arguments.channel, "sender": arguments.id}
        if arguments.account:
            params["accountId"] = arguments.account
        answer = await peer.call("chat.pairing.remove", params, timeout_s=arguments.timeout)
        if not answer["removed"]:
            out(f"{arguments.id} was not approved on {arguments.channel}")
            return Exit.FAILED
        out(f"{arguments.id} may not talk on {arguments.channel} any more.")
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


COMMANDS = {
    "list": CommandSpec(_list_arguments, _list),
    "approve": CommandSpec(_code_arguments, _decide("chat.pairing.approve", "may talk now on")),
    "deny": CommandSpec(_code_arguments, _decide("chat.pairing.deny", "may not talk on")),
    "remove": CommandSpec(_remove_arguments, _remove),
}
