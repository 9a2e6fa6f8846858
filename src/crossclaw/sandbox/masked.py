"""Masked: programs outside of a sandbox, which see the whole machine except the gateway's own
files.

An agent that is not sandboxed works with its owner's rights; but whoever may only *write* to it
would be the owner too, if a command could read the gateway's token. So commands, and MCP servers,
run in bubblewrap with the state folder, the config and the gateway's process hidden. It changes as
little else as it can.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import crossclaw
from crossclaw.disk.private import make_folder, write_file
from crossclaw.domain.errors import SandboxMissing
from crossclaw.sandbox.contract import WorkPlace, Wrapped
from crossclaw.sandbox.environment import PATH, host_environment
from crossclaw.sandbox.host import shell

PROBE_S = 10.0  # it takes 20 ms; a machine under load may need more
SEEN = 3  # what the probe ends with when it sees what should be hidden

_ROOTS_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE")  # fmt: skip
"""The capabilities of commands if the gateway runs as root: what installing programs needs, and
nothing that could remove a mount, read a disk or look into other processes."""
_HELPERS = ("run/docker.sock", "run/podman/podman.sock", "run/containerd/containerd.sock", "run/crio/crio.sock")  # fmt: skip
"""Sockets that are hidden: whoever can talk to these can start a program without the mask."""
_HELPERS_OF_ROOT = ("run/dbus", "run/systemd")


class HiddenPaths(msgspec.Struct, frozen=True):
    """The paths that are hidden, and which of them stay visible."""

    state_dir: Path
    config_files: tuple[Path, ...] = ()
    workspaces: tuple[Path, ...] = ()

    def prepare(self) -> None:
        """Makes sure that the config exists: a missing file cannot be covered, and could be
        made."""
        make_folder(self.state_dir)
        for file in self.config_files:
            if not os.path.lexists(file) and file.parent.is_dir() and not self._covers(file):
                with suppress(OSError):  # where we cannot make it, no program of ours can
                    write_file(file, "{}\n", replace=False)

    def make_workspaces(self) -> None:
        for workspace in self.workspaces:
            if self._covers(workspace):
                make_folder(workspace)

    def arguments(self) -> Iterator[str]:
        """Bubblewrap's arguments that hide the paths. Folders above are mounts of their own:
        otherwise one could be renamed, and another put in its place."""
        outside = [file for file in self.config_files if not self._covers(file)]
        above = {each for path in (self.state_dir, *outside) for each in _real(path).parents}
        for folder in sorted(above - {Path("/")}):
            yield from ("--bind", str(folder), str(folder))
        for program in _own_programs():
            yield from ("--ro-bind", str(program), str(program))
        state = str(_real(self.state_dir))
        yield from ("--perms", "0700", "--tmpfs", state)
        for workspace in map(_real, self.workspaces):
            if workspace.is_relative_to(state):
                yield from ("--bind-try", str(workspace), str(workspace))
        yield from ("--remount-ro", state)
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        for path in filter(os.path.lexists, other_ways(_real(self.state_dir), mounts)):
            yield from ("--tmpfs", str(path))
        for file in (_real(file) for file in outside if file.is_file()):
            for path in (file, *filter(os.path.lexists, other_ways(file, mounts))):
                yield from ("--ro-bind", "/dev/null", str(path))

    def _covers(self, file: Path) -> bool:
        return _real(file).is_relative_to(_real(self.state_dir))


class MaskedHost:
    name = "host"

    def __init__(
        self,
        program: str,
        environ: Mapping[str, str],
        hidden: HiddenPaths,
        pass_env: tuple[str, ...] = (),
    ) -> None:
        self._program = program
        self._environ = host_environment(environ, pass_env)
        self._hidden = hidden

    def check(self) -> None:
        """Raises `SandboxMissing` unless the mask works here, and hides what it should."""
        self._hidden.prepare()
        lock = self._hidden.state_dir / "crossclaw.lock"  # the gateway's own, there while it serves
        look = ("/bin/sh", "-c", f'test ! -e "$1" || exit {SEEN}', "sh", str(lock))
        try:
            done = subprocess.run(
                self.shield(look),
                env={"PATH": PATH},
                capture_output=True,
                text=True,
                timeout=PROBE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxMissing(f"bubblewrap cannot be started: {error}") from None
        if done.returncode != 0:
            why = done.stderr.strip()[-300:] or f"it ended with {done.returncode}"
            raise SandboxMissing(f"bubblewrap does not work here: {why}")

    def shield(self, command: Sequence[str]) -> list[str]:
        """The command with the gateway's own files and processes hidden. It may run for long: what
        it needs to see later must exist when it begins."""
        self._hidden.make_workspaces()
        return [self._program, *self._walls(), "--", *command]

    def wrap(self, place: WorkPlace, command: str, folder: str) -> Wrapped:
        where = os.path.normpath(place.folder / folder)
        argv = [self._program, *self._walls(), *_helpers(), "--chdir", where]
        return Wrapped([*argv, "--", shell(), "-c", command], self._environ, Path(where))

    def _walls(self) -> Iterator[str]:
        yield from ("--unshare-pid", "--die-with-parent", "--cap-drop", "ALL", "--bind", "/", "/")
        if os.geteuid() == 0:
            for right in _ROOTS_RIGHTS:
                yield from ("--cap-add", f"CAP_{right}")
            yield from ("--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
            yield from ("--ro-bind-try", "/sys", "/sys")
        else:
            yield from ("--dev-bind", "/dev", "/dev", "--proc", "/proc")
        yield from _session_bus()
        yield from self._hidden.arguments()


def _session_bus() -> Iterator[str]:
    """Arguments that hide the user's own service manager, which starts programs for whoever asks
    it."""
    own = Path(f"/run/user/{os.geteuid()}")
    if (own / "bus").exists():
        yield from ("--ro-bind", "/dev/null", str(own / "bus"))
    if (own / "systemd").is_dir():
        yield from ("--tmpfs", str(own / "systemd"))


def _helpers() -> Iterator[str]:
    root = Path("/")
    for path in (root / name for name in _HELPERS):
        if path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))
    for path in (root / name for name in _HELPERS_OF_ROOT if os.geteuid() == 0):
        if path.is_dir():
            yield from ("--tmpfs", str(path))


def _own_programs() -> Iterator[Path]:
    """The programs that the next start of the gateway would run."""
    yield Path(crossclaw.__file__).resolve().parent
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix).resolve()


def other_ways(path: Path, mounts: str) -> Iterator[Path]:
    """Other paths of the same file or folder: a disk, or a part of it, can be mounted in several
    places. `mounts` is the kernel's list of them (`/proc/self/mountinfo`)."""
    known = [line.split() for line in mounts.splitlines() if line]
    seen = [(words[2], Path(_plain(words[3])), Path(_plain(words[4]))) for words in known]
    around = [mount for mount in seen if path.is_relative_to(mount[2])]
    if not around:
        return
    disk, part, point = max(around, key=lambda mount: len(mount[2].parts))
    on_disk = part / path.relative_to(point)
    for other_disk, other_part, other_point in seen:
        if other_disk == disk and on_disk.is_relative_to(other_part):
            way = other_point / on_disk.relative_to(other_part)
            if way != path:
                yield way


def _plain(word: str) -> str:
    r"""A path of that list without its escapes: a blank is written as \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
