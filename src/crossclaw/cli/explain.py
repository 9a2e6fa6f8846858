"""`sessions explain`: why one session may or may not do something to another."""

import shutil
from textwrap import fill
from typing import Any

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
)
from crossclaw.cli.naming import mean_session
from crossclaw.cli.running import ask
from crossclaw.cli.say import cleaned, out, out_json
from crossclaw.client.peer import READ, GatewayPeer
from crossclaw.display.columns import padded, width

VERBS = ("see", "read", "send", "spawn", "deliver")


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "source", metavar="from", help="the session that acts: key, session id, name or label"
    )
    parser.add_argument("verb", choices=VERBS, help="what it wants to do")
    parser.add_argument("to", help="the other session; for spawn, an agent")
    asking_options(parser)


def _explain(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        is_agent = arguments.verb == "spawn"
        params = {
            "from": await mean_session(peer, arguments.source),
            "verb": arguments.verb,
            "to": arguments.to if is_agent else await mean_session(peer, arguments.to),
        }
        answer = await peer.call("sessions.explain", params, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_shown(answer))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _shown(answer: dict[str, Any]) -> str:
    word = "allowed" if answer["allowed"] else "not allowed"
    boxed = " (sandboxed)" if answer["sandboxed"] else ""
    head = f"{word}: {answer['from']}{boxed} {answer['verb']} {answer['to']}"
    wide = max((width(each["about"]) for each in answer["reasons"]), default=0)
    return "\n".join([head, "", *(_reason(each, wide) for each in answer["reasons"])])


def _reason(each: dict[str, Any], wide: int) -> str:
    """A reason as a wrapped sentence: a column of them would be wider than any terminal."""
    begin = f"{'yes' if each['allowed'] else 'no':<3}  {padded(each['about'], wide)}  "
    setting = f" [{each['setting']}]" if each.get("setting") else ""
    return fill(
        cleaned(each["reason"] + setting),
        shutil.get_terminal_size().columns,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
        break_long_words=False,
    )


COMMANDS = {"explain": CommandSpec(_arguments, _explain)}
