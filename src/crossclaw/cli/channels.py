"""`channels status`: the chats that are set up in the gateway that runs."""

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options, json_option
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import table
from crossclaw.client.peer import READ, GatewayPeer


def _arguments(parser: Parser) -> None:
    json_option(parser)
    gateway_options(parser)


def _status(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("channels.status", {}, timeout_s=arguments.timeout)
        rows = [
            (name, "runs" if answer["channels"][name].get("running") else "does not run")
            for name in answer["channelOrder"]
        ]
        out_json(answer) if arguments.json else out(table(("channel", "state"), rows))
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


COMMANDS = {"status": CommandSpec(_arguments, _status), "list": CommandSpec(_arguments, _status)}
