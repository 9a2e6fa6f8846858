"""`mcp`: the session tools on standard input and output, for agents that start their MCP servers
themselves. It passes every call on to the gateway, and keeps nothing: the gateway may restart."""

from typing import TYPE_CHECKING

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options
from crossclaw.cli.place import find_place
from crossclaw.cli.running import run_async
from crossclaw.client.errors import GatewayDown
from crossclaw.client.finding import TOKEN_HINT, ConnectOptions, GatewayAddress, find_serving
from crossclaw.client.trust import checked_context
from crossclaw.disk.extras import how_to_install, how_to_install_there

if TYPE_CHECKING:
    from crossclaw.cli.mcp_bridge import Bridge


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--name", help="what the others call you (default: what your MCP client says of itself)"
    )
    gateway_options(parser, timeout=False)


def _serve(arguments: Arguments) -> int:
    place = find_place()
    address = find_serving(
        ConnectOptions(arguments.url, arguments.token, arguments.password), place
    )
    bridge = _bridge(address, arguments.name)

    async def whole() -> int:
        await _greet(bridge, address)
        await bridge.serve()
        return Exit.OK

    return run_async(whole)


def _bridge(address: GatewayAddress, name: str | None) -> "Bridge":
    try:
        from crossclaw.cli.mcp_bridge import Bridge  # noqa: PLC0415  an extra, and slow to import
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"MCP needs an extra that is not installed ({error.name})",
            hint=how_to_install("mcp"),
        ) from None
    secret = address.token or address.password
    base = address.url.replace("ws", "http", 1).rstrip("/")
    trusted = checked_context(address)
    return Bridge(f"{base}/mcp", secret.reveal() if secret else "", name, trusted)


async def _greet(bridge: "Bridge", address: GatewayAddress) -> None:
    """Checks the gateway at the start: a message now is better than a client that shows no tools for an
    unknown reason."""
    match await bridge.look():
        case None:
            raise GatewayDown(
                f"no gateway answers at {address.url}", hint="Start one: crossclaw gateway run"
            )
        case 401 | 403:
            raise CommandFailed(
                f"{address.url} refused the token",
                Exit.UNAUTHORIZED,
                hint=TOKEN_HINT,
            )
        case 501:
            raise CommandFailed(
                "the gateway has no MCP extra",
                hint=f"Where it runs: {how_to_install_there('mcp')}; then start it anew.",
            )
        case _:
            pass


COMMANDS = {
    "serve": CommandSpec(
        _arguments,
        _serve,
        "examples\n"
        "  claude mcp add crossclaw -- crossclaw mcp --name claude\n"
        "  codex mcp add crossclaw -- crossclaw mcp --name codex",
    )
}
