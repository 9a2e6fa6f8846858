"""`gateway run`: serves until it is stopped."""

import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping

import anyio
from anyio.abc import TaskStatus

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, port, secret_options
from crossclaw.cli.log import Log
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.running import run_async
from crossclaw.cli.say import note
from crossclaw.client.finding import PASSWORD_VARIABLE, named_port
from crossclaw.config.token import TOKEN_VARIABLE
from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import StoreLocked

GARBAGE_THRESHOLD = 10_000  # new objects before a look at the youngest; a few megabytes at most
SWITCH_S = 0.0005  # Python's own is ten times as long, made for threads that compute
_HOSTS = {"loopback": "127.0.0.1", "lan": "0.0.0.0"}


def run_options(parser: Parser) -> None:
    parser.add_argument("--port", type=port, help="in place of gateway.port (18789)")
    parser.add_argument("--bind", metavar="WHERE", help="loopback, lan, or an address")
    secret_options(parser, "the token in place of the configured one: a file that holds it")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.add_argument("--log-json", action="store_true", help="log as JSON, an object a line")
    for name in ("--allow-unconfigured", "--force", "--dev"):
        parser.add_argument(name, action="store_true", help="accepted, not needed here")


def _run(arguments: Arguments) -> int:
    from crossclaw.app import Leaving, run_gateway  # noqa: PLC0415  brings the whole gateway

    place, leaving = find_place(environment(arguments), to_serve=True), Leaving()
    log = Log(place.paths, verbose=arguments.verbose, as_json=arguments.log_json)
    log.take(place.config)
    warn(place)

    return serve_until_stopped(
        lambda: run_gateway(
            place.loaded,
            place.paths,
            place.environ,
            host=host_of(arguments.bind),
            port=named_port(place) if arguments.port is None else arguments.port,
            on_ready=lambda url, _token: note(f"the gateway is at {url}; Ctrl-C stops it"),
            on_config=log.take,
            leaving=leaving,
        ),
        leaving.drain_soon if place.config.ledger.shared else None,
    )


def serve_until_stopped(serve: Callable[[], Awaitable[None]], drain: Callback | None = None) -> int:
    """Serves until Ctrl-C or SIGTERM, which are how a gateway ends. With `drain`, the first SIGTERM lets runs
    under way end."""

    async def whole() -> int:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_stop_on_signal, tasks.cancel_scope, drain)
            _spare_the_collector()
            _share_the_interpreter()
            await serve()
            tasks.cancel_scope.cancel()
        return Exit.OK

    try:
        return run_async(whole)
    except StoreLocked as error:
        raise CommandFailed(str(error), hint="crossclaw status shows the one that runs.") from None
    except OSError as error:
        raise CommandFailed(
            f"the gateway cannot listen: {error.strerror or error}",
            hint="crossclaw doctor looks who has the port; --port takes another.",
        ) from None


def _spare_the_collector() -> None:
    """Excludes imported objects from garbage collection. They live as long as the process: looking through
    them again and again took a tenth of every turn, and once a tenth of the start."""
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)


def _share_the_interpreter() -> None:
    """Shortens the interpreter's switch interval. The ledger's writer releases the interpreter at every
    statement, and under load waited for the event loop's whole turn to get it back; some thirty times for one
    batch."""
    sys.setswitchinterval(SWITCH_S)


async def _stop_on_signal(
    scope: anyio.CancelScope,
    drain: Callback | None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGTERM and drain is not None:
                drain()
                drain = None
                continue
            scope.cancel()
            return


def environment(arguments: Arguments) -> Mapping[str, str]:
    """The environment with variables from the options; it stays in this process."""
    given = {TOKEN_VARIABLE: arguments.token, PASSWORD_VARIABLE: arguments.password}
    return dict(os.environ) | {name: value for name, value in given.items() if value}


def host_of(bind: str | None) -> str | None:
    return None if bind is None else _HOSTS.get(bind, bind)


def warn(place: StateLocation) -> None:
    for text in place.loaded.all_warnings:
        note(f"{place.loaded.path.name}: {text}")


COMMANDS = {"run": CommandSpec(run_options, _run)}
