"""`sessions explain`: why one session may or may not do something to another."""

from typing import Any

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, Command, Parser, gateway_options, json_option
from crossclaw.cli.peer import READ, Peer
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json

VERBS = ("see", "read", "send", "spawn", "deliver")


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "source", metavar="from", help="the session that acts: key, session id or name"
    )
    parser.add_argument("verb", choices=VERBS, help="what it wants to do")
    parser.add_argument("to", help="the other session; for spawn, an agent")
    json_option(parser)
    gateway_options(parser)


def _explain(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        params = {"from": arguments.source, "verb": arguments.verb, "to": arguments.to}
        answer = await peer.call("sessions.explain", params, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_shown(answer))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _shown(answer: dict[str, Any]) -> str:
    word = "allowed" if answer["allowed"] else "not allowed"
    boxed = " (sandboxed)" if answer["sandboxed"] else ""
    head = f"{word}: {answer['from']}{boxed} {answer['verb']} {answer['to']}"
    return "\n".join([head, "", *map(_reason, answer["reasons"])])


def _reason(each: dict[str, Any]) -> str:
    """Two lines where the reason does not name its setting: nothing of it may be cut."""
    word, setting = "yes" if each["allowed"] else "no", each.get("setting")
    line = f"{word:<3}  {each['about']}: {each['reason']}"
    return line if not setting or setting in line else f"{line}\n     (setting: {setting})"


COMMANDS = {"explain": Command(_arguments, _explain)}
