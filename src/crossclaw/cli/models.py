"""`models list`: what the agents may think with."""

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, Command, Parser, gateway_options, json_option
from crossclaw.cli.peer import READ, Peer
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import table


def _arguments(parser: Parser) -> None:
    json_option(parser)
    gateway_options(parser)


def _list(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        answer = await peer.call("models.list", {}, timeout_s=arguments.timeout)
        rows = [
            (f"{model['provider']}/{model['id']}", model.get("name"), model.get("contextWindow"))
            for model in answer["models"]
        ]
        out_json(answer) if arguments.json else out(table(("model", "name", "context"), rows))
        return Exit.OK

    return ask(arguments, READ, work=work)


COMMANDS = {"list": Command(_arguments, _list)}
