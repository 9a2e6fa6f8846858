"""`mcp held` and `mcp agree`: tools of MCP servers that changed, or came, after the server was first seen."""

import shlex
from typing import Any

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json
from crossclaw.client.peer import ADMIN, READ, GatewayPeer

_DIGEST_CHARS = 12  # of 64: enough to tell what was looked at from what it may have become since


def _held(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("mcp.held", {}, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
        else:
            out("\n\n".join(map(_shown, answer["tools"])) or "no tool is held")
        return Exit.OK

    return ask(arguments, READ, work=work)


def _shown(tool: dict[str, Any]) -> str:
    server, name, digest = tool["server"], tool["tool"], tool["digest"][:_DIGEST_CHARS]
    agree = shlex.join(["crossclaw", "mcp", "agree", server, name, "--digest", digest])
    return f"{_words(tool)}\n  agree:  {agree}"


def _words(tool: dict[str, Any]) -> str:
    """The tool's change in words; one that is not in the description is one of its parameters."""
    before, now = (_indented(tool[each]) for each in ("before", "now"))
    if tool.get("isNew"):
        before = "(not there: the tool came after the server was first seen)"
    elif tool["before"] == tool["now"]:
        now += " (the same words; its parameters have changed)"
    return f"{tool['tool']} of {tool['server']}\n  before: {before}\n  now:    {now}"


def _indented(words: str) -> str:
    return words.replace("\n", "\n          ")


def _agree_arguments(parser: Parser) -> None:
    parser.add_argument("server", help="the MCP server, as `mcp held` shows it")
    parser.add_argument("tool", help="its tool, as `mcp held` shows it")
    parser.add_argument(
        "--digest", default="", help="agree only to what `mcp held` has shown with this digest"
    )
    gateway_options(parser)


def _agree(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("mcp.held", {}, timeout_s=arguments.timeout)
        tool = _meant(answer["tools"], arguments)
        params = {"tool": tool["tool"], "digest": tool["digest"]}
        await peer.call("mcp.agree", params, timeout_s=arguments.timeout)
        out(f"agreed; agents have it from their next run on\n{_words(tool)}")
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _meant(held: list[dict[str, Any]], arguments: Arguments) -> dict[str, Any]:
    names = (arguments.tool, f"{arguments.server}__{arguments.tool}")
    found = [t for t in held if t["server"] == arguments.server and t["tool"] in names]
    if not found:
        raise CommandFailed(
            f"no tool {arguments.tool} of {arguments.server} is held",
            hint="crossclaw mcp held lists them.",
        )
    if not found[0]["digest"].startswith(arguments.digest):
        raise CommandFailed(
            f"{found[0]['tool']} has changed since you looked", hint="crossclaw mcp held shows it."
        )
    return found[0]


COMMANDS = {
    "held": CommandSpec(asking_options, _held),
    "agree": CommandSpec(
        _agree_arguments, _agree, "example\n  crossclaw mcp agree files files__read"
    ),
}
