"""`service`: the gateway as a service of this user, so that it starts with the machine and is started again.

On Linux a systemd user unit, on macOS a launchd agent. Both run `python -m crossclaw gateway run` with this
state folder; what the unit says can be looked at first (`--print`).
"""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, no_arguments, port
from crossclaw.cli.place import find_place
from crossclaw.cli.say import note, out
from crossclaw.disk.private import make_folder, write_file

UNIT_NAME = "crossclaw-gateway.service"
LABEL = "org.crossclaw.gateway"
STOP_S = 30  # a gateway that is stopped finishes what it is writing; seconds are enough
STDERR_CHARS_MAX = 400  # characters of what the service manager said


class SystemService(NamedTuple):
    """What runs: the command, the variables it needs, and the folder it starts in."""

    command: tuple[str, ...]
    environ: dict[str, str]
    folder: Path


class Manager(NamedTuple):
    """A service manager: where its file lies, what it holds, and the commands that take it over."""

    path: Path
    text: bytes
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]


def _install_arguments(parser: Parser) -> None:
    parser.add_argument("--port", type=port, help="in place of gateway.port (18789)")
    parser.add_argument("--print", action="store_true", help="show the file and do nothing")
    parser.add_argument("--no-start", action="store_true", help="write the file, start nothing")
    parser.add_argument("--force", action="store_true", help="replace a file that differs")


def _install(arguments: Arguments) -> int:
    manager = _manager(arguments.port)
    if arguments.print:
        out(manager.text.decode(), end="")
        return Exit.OK
    if arguments.no_start:
        _write(manager, replace=arguments.force)
        out(f"wrote {manager.path}")
        out("To start it: " + " && ".join(map(" ".join, manager.start)))
        return Exit.OK
    out(f"wrote {install(arguments.port, replace=arguments.force)}")
    out("The gateway runs as a service of yours. crossclaw status looks at it.")
    if sys.platform != "darwin":
        note("So that it runs while you are not logged in: loginctl enable-linger")
    return Exit.OK


def install(number: int | None = None, *, replace: bool = False) -> Path:
    """Writes the service's file and starts it; returns the file's path."""
    manager = _manager(number)
    _write(manager, replace=replace)
    for command in manager.start:
        _call(command)
    return manager.path


def installed() -> Path | None:
    """The service's file, if there is one."""
    path = _manager(None).path
    return path if path.exists() else None


def _write(manager: Manager, *, replace: bool) -> None:
    if manager.path.exists() and manager.path.read_bytes() != manager.text and not replace:
        raise CommandFailed(
            f"{manager.path} is there already and says something else",
            hint="crossclaw service install --print shows the new one; --force replaces it.",
        )
    make_folder(manager.path.parent)
    write_file(manager.path, manager.text.decode())


def _status(_arguments: Arguments) -> int:
    manager = _manager(None)
    if not manager.path.exists():
        out("not installed; crossclaw service install does it")
        return Exit.FAILED
    out(f"installed: {manager.path}")
    done = _run(manager.status)
    out(
        done.stdout.strip()
        or done.stderr.strip()[:STDERR_CHARS_MAX]
        or "the service manager said nothing"
    )
    return Exit.OK if done.returncode == 0 else Exit.FAILED


def _uninstall(_arguments: Arguments) -> int:
    manager = _manager(None)
    if not manager.path.exists():
        out("not installed; there is nothing to remove")
        return Exit.OK
    for command in manager.stop:
        done = _run(command)
        if done.returncode != 0:
            note(f"{' '.join(command)}: {done.stderr.strip()[:STDERR_CHARS_MAX]}")
    manager.path.unlink()
    out(f"removed {manager.path}. Sessions, config and keys stay where they are.")
    return Exit.OK


def _call(command: Sequence[str]) -> None:
    done = _run(command)
    if done.returncode != 0:
        raise CommandFailed(
            f"{' '.join(command)} failed: {done.stderr.strip()[:STDERR_CHARS_MAX]}",
            hint="The file is written. Where no service manager runs for you (a container, `su`), "
            "crossclaw gateway run does the same in the foreground.",
        )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        raise CommandFailed(
            f"there is no {command[0]} here",
            hint="crossclaw gateway run serves in the foreground; any service manager can keep it up.",
        )
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _manager(number: int | None) -> Manager:
    place = find_place()
    command = (sys.executable, "-m", "crossclaw", "gateway", "run")
    service = SystemService(
        command + (("--port", str(number)) if number is not None else ()),
        _environ(
            place.environ.get("OPENCLAW_STATE_DIR"), place.environ.get("OPENCLAW_CONFIG_PATH")
        ),
        place.paths.home,
    )
    return _launchd(service) if sys.platform == "darwin" else _systemd(service)


def _environ(state: str | None, config: str | None) -> dict[str, str]:
    """The service's variables: the two folders that a person may have named, in full; and the path on which
    programs are found. Keys are not copied: a unit file is no place for a secret."""
    named = {"OPENCLAW_STATE_DIR": state, "OPENCLAW_CONFIG_PATH": config}
    given = {name: str(Path(text).expanduser().absolute()) for name, text in named.items() if text}
    return given | {"PATH": os.environ.get("PATH", os.defpath)}


def _systemd(service: SystemService) -> Manager:
    text = systemd_unit(service)
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or service.folder / ".config")
    user = ("systemctl", "--user")
    return Manager(
        folder / "systemd" / "user" / UNIT_NAME,
        text.encode(),
        ((*user, "daemon-reload"), (*user, "enable", "--now", UNIT_NAME)),
        ((*user, "disable", "--now", UNIT_NAME),),
        (*user, "is-active", UNIT_NAME),
    )


def systemd_unit(service: SystemService) -> str:
    # A $ begins a variable in a command, and is itself in an assignment.
    command = " ".join(_systemd_word(word).replace("$", "$$") for word in service.command)
    environ = "\n".join(
        f"Environment={_systemd_word(f'{name}={value}')}" for name, value in service.environ.items()
    )
    return f"""[Unit]
Description=Crossclaw gateway
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
WorkingDirectory={str(service.folder).replace("%", "%%")}
{environ}
# Keys of model services, one NAME=value a line; the file may be missing.
EnvironmentFile=-%h/.config/crossclaw/environment
Restart=on-failure
RestartSec=2
TimeoutStopSec={STOP_S}
UMask=0077

[Install]
WantedBy=default.target
"""


def _systemd_word(text: str) -> str:
    """The text quoted for systemd, where % begins a specifier."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain}"'


def _launchd(service: SystemService) -> Manager:
    path = service.folder / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    return Manager(
        path,
        launchd_plist(service),
        (("launchctl", "bootstrap", domain, str(path)),),
        (("launchctl", "bootout", f"{domain}/{LABEL}"),),
        ("launchctl", "print", f"{domain}/{LABEL}"),
    )


def launchd_plist(service: SystemService) -> bytes:
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(service.command),
            "EnvironmentVariables": service.environ,
            "WorkingDirectory": str(service.folder),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": STOP_S,
            "Umask": 0o077,
        }
    )


COMMANDS = {
    "install": CommandSpec(
        _install_arguments,
        _install,
        more="Keys of model services go into ~/.config/crossclaw/environment (Linux), one NAME=value a line, "
        "or into the config.",
    ),
    "status": CommandSpec(no_arguments, _status),
    "uninstall": CommandSpec(no_arguments, _uninstall),
}
