"""`demo`: a gateway in a folder of its own, two agents, and one asks the other while you watch."""

import json
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import anyio
from anyio.abc import TaskStatus

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, no_arguments
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.running import run_async
from crossclaw.cli.say import cleaned, dimmed, out
from crossclaw.client.finding import ConnectOptions
from crossclaw.client.peer import ADMIN, READ, WRITE, Event, GatewayPeer
from crossclaw.config.file import ConfigFile
from crossclaw.display.conversation import message_text
from crossclaw.display.languages import tr
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.exchanges import ANNOUNCE_STEP, CONTROL_TOKENS

DEMO_S_MAX = 20.0
_PREFIX = "crossclaw-demo-"
QUIET_S = 1.5  # nothing more was said for so long: the conversation is over
_MAIN, _OTHER = "agent:main:main", "agent:librarian:main"
_CONFIG = {
    "agents": {
        "list": [
            {"id": "main", "default": True, "name": "Main"},
            {"id": "librarian", "name": "The librarian"},
        ]
    }
}


def _script() -> str:
    """The demo's message as directives for the rehearsal model; a person would ask in words."""
    question = tr("Which shelf holds the book on tides?")
    answer = tr("Shelf nine, beside the atlas.")
    inner = {"agentId": "librarian", "message": f"{question}\nsay: {answer}"}
    return "\n".join(
        [
            "say: " + tr("I will ask the librarian."),
            f"tool: sessions_send {json.dumps(inner)}",
            "then:",
            "say: " + tr("The librarian says: {answer}").format(answer=answer),
        ]
    )


def _demo(arguments: Arguments) -> int:
    remove_earlier(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    place = _prepare(folder)

    async def whole() -> int:
        with anyio.fail_after(DEMO_S_MAX):
            async with anyio.create_task_group() as tasks:
                url, token = await tasks.start(_serve, place)
                await _watch(place, ConnectOptions(url, token))
                tasks.cancel_scope.cancel()
        return Exit.OK

    # What the gateway logs (a slow start on a busy machine) is not what is to be seen here.
    logging.getLogger("crossclaw").addHandler(logging.NullHandler())
    out(
        tr("Two agents, main and the librarian, on a gateway of their own. No key, no network.")
        + "\n"
    )
    try:
        code = run_async(whole)
    except TimeoutError:
        raise CommandFailed(f"the demo did not end within {DEMO_S_MAX:g} s") from None
    out(
        "\n"
        + tr("Their transcripts, which stay until the next demo:")
        + "\n"
        + _transcripts(folder)
    )
    out("\n" + tr("Next, a gateway of your own: {command}").format(command=_how_to_run()))
    return code


def _how_to_run() -> str:
    """The command to start a gateway: `make` in a clone, where `crossclaw` may not be on the path yet."""
    in_clone = (Path(sys.prefix).parent / "Makefile").exists() and not shutil.which("crossclaw")
    return "make run" if in_clone else "crossclaw run"


def remove_earlier(temporary: Path, prefix: str = _PREFIX, life_s: float = DEMO_S_MAX) -> None:
    """Removes the folders of this person's earlier demos; one that may still be running is left alone."""
    for folder in temporary.glob(f"{prefix}*"):
        with suppress(OSError):
            about = folder.lstat()
            is_own = S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            if is_own and SystemClock().now_ms() - about.st_mtime * 1000 > life_s * 2_000:
                shutil.rmtree(folder)


def _prepare(folder: Path) -> StateLocation:
    """Prepares a folder and a port of its own, without the person's config or keys."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    place = find_place(kept | {"OPENCLAW_STATE_DIR": str(folder)})
    file = ConfigFile(place.paths.config_path, place.environ)
    for key, value in _CONFIG.items():
        file.put((key,), value)
    file.put(("gateway", "port"), free_port())
    file.save()
    return find_place(place.environ)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _serve(place: StateLocation, *, task_status: TaskStatus[tuple[str, str]]) -> None:
    from crossclaw.app import run_gateway  # noqa: PLC0415  brings the whole gateway

    await run_gateway(
        place.loaded,
        place.paths,
        place.environ,
        on_ready=lambda url, token: task_status.started((url, token)),
    )


async def _watch(place: StateLocation, wanted: ConnectOptions) -> None:
    async with connect_peer(wanted, lambda: place, READ, WRITE, ADMIN, embed=False) as peer:
        for key in (_MAIN, _OTHER):
            await peer.call("sessions.messages.subscribe", {"key": key})
        with peer.listen() as events:
            await _ask(peer)
            await _show(events)


async def _ask(peer: GatewayPeer) -> None:
    asked = tr("ask the librarian which shelf holds the book on tides")
    out(f"{dimmed(tr('you →'))} main: {asked}\n")
    params = {"sessionKey": _MAIN, "message": _script(), "idempotencyKey": os.urandom(8).hex()}
    await peer.call("chat.send", params)


async def _show(events: Any) -> None:
    while True:
        with anyio.move_on_after(QUIET_S) as quiet:
            event = await anext(events)
        if quiet.cancelled_caught:
            return
        for line in lines_of(event):
            out(line)


def lines_of(event: Event) -> list[str]:
    """The lines that show a stored message or a tool call to somebody who watches."""
    key = event.payload.get("sessionKey")
    who = {_MAIN: "main", _OTHER: "librarian"}.get(str(key))
    if who is None or event.name != "session.message":
        return []
    message = event.payload.get("message") or {}
    shown: Callable[[str, dict[str, Any]], list[str]] | None = {
        "user": _question_lines,
        "assistant": _said,
        "toolResult": _answered,
    }.get(str(message.get("role")))
    return shown(who, message) if shown else []


def _question_lines(who: str, message: dict[str, Any]) -> list[str]:
    """The lines of a message from another agent; the person's own words were shown before."""
    if who == "main":
        return []
    if message_text(message).endswith(ANNOUNCE_STEP):
        return [dimmed("  " + tr("{agent} may now tell its own chat about it").format(agent=who))]
    return [f"{dimmed('main → ' + who + ':')} {_first_line(message)}"]


def _said(who: str, message: dict[str, Any]) -> list[str]:
    calls = [b for b in message.get("content") or [] if b.get("type") in ("toolCall", "tool_use")]
    words = cleaned(message_text(message)).strip()
    if words in CONTROL_TOKENS:
        return [dimmed("  " + tr("{agent} has nothing to add").format(agent=who))]
    lines = [f"{dimmed(tr('{agent} says:').format(agent=who))} {words}"] if words else []
    waits = tr("{agent} calls {tool} and waits")
    return lines + [dimmed("  " + waits.format(agent=who, tool=call.get("name"))) for call in calls]


def _answered(who: str, message: dict[str, Any]) -> list[str]:
    return [dimmed("  " + tr("the answer is back with {agent}").format(agent=who))]


def _first_line(message: dict[str, Any]) -> str:
    return cleaned(message_text(message)).strip().partition("\n")[0]


def _transcripts(folder: Path) -> str:
    return "\n".join(f"  {path}" for path in sorted(folder.rglob("*.jsonl")))


COMMANDS = {"demo": CommandSpec(no_arguments, _demo)}
