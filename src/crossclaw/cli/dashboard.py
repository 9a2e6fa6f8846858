"""`dashboard`: the link to the page of the running gateway."""

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options
from crossclaw.cli.place import find_served_place
from crossclaw.cli.run import link
from crossclaw.cli.running import ask
from crossclaw.cli.say import note, out
from crossclaw.client.finding import TOKEN_HINT, ConnectOptions, find_gateway
from crossclaw.client.peer import READ, GatewayPeer


def _arguments(parser: Parser) -> None:
    parser.add_argument("--no-open", action="store_true", help="accepted: it is only printed here")
    gateway_options(parser)


def _dashboard(arguments: Arguments) -> int:
    """Shows the link of a gateway, once it has answered to the very token in it."""

    async def work(peer: GatewayPeer) -> int:
        wanted = ConnectOptions(arguments.url, arguments.token, arguments.password)
        address = find_gateway(wanted, find_served_place())
        page = address.url.replace("ws", "http", 1)
        if address.token is None:
            out(page)
            note(TOKEN_HINT)
        else:
            out(link(page, address.token.reveal()))
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


COMMANDS = {"dashboard": CommandSpec(_arguments, _dashboard)}
