"""`stop`: stops the running gateway, at once or (`--drain`) when what is under way has ended."""

import anyio

from crossclaw.cli.bars import at_work
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options, seconds
from crossclaw.cli.place import find_unread_place
from crossclaw.cli.running import ask
from crossclaw.cli.say import out
from crossclaw.client.finding import served_port
from crossclaw.client.peer import ADMIN, GatewayPeer
from crossclaw.display.languages import tr
from crossclaw.domain.counts import count_of

LIMIT_S = 60.0
LEAVES_S = 30.0  # after its last run: replies go out and files are closed
LOOK_S = 0.1


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--drain", action="store_true", help="begin nothing new, and let what is under way end"
    )
    parser.add_argument(
        "--limit", type=seconds, default=LIMIT_S, metavar="S", help="how long that may take (60)"
    )
    gateway_options(parser)


def _stop(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        limit_s = arguments.limit if arguments.drain else 0.0
        params = {"drain": arguments.drain, "timeoutMs": int(limit_s * 1000)}
        answer = await peer.call("gateway.stop", params, timeout_s=arguments.timeout)
        if arguments.url:
            out("the gateway has been asked to leave")
            return Exit.OK
        with at_work(f"waiting for {count_of(answer['runsUnderWay'], 'run')} under way"):
            await _until_gone(limit_s + LEAVES_S)
        out(tr("The gateway has stopped. Everything is kept; the next start goes on from here."))
        return Exit.OK

    return ask(arguments, ADMIN, work=work, embed=False)


async def _until_gone(within_s: float) -> None:
    place = find_unread_place()
    with anyio.move_on_after(within_s):
        while served_port(place):  # noqa: ASYNC110  another process
            await anyio.sleep(LOOK_S)
        return
    raise CommandFailed("the gateway is still there", hint="crossclaw logs tells what it does.")


COMMANDS = {
    "stop": CommandSpec(
        _arguments,
        _stop,
        more="A service that was stopped so stays stopped until it is started again (systemctl --user start\n"
        "crossclaw-gateway, or with the machine).",
    )
}
