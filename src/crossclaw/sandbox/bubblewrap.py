"""Bubblewrap: programs in namespaces of their own, with a small file tree around the workspace.

Inside there are the system's programs (read-only), the workspace at /workspace, an own /tmp and
/proc, no other process, and no network unless it is allowed. Tests try each way out.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from crossclaw.domain.errors import SandboxMissing
from crossclaw.sandbox.contract import PROMPT_FILES, CommandLimits, WorkPlace, Wrapped
from crossclaw.sandbox.environment import PATH, sandbox_environment
from crossclaw.sandbox.files import keep_prompt_files
from crossclaw.sandbox.host import shell
from crossclaw.sandbox.seccomp import seccomp_program, with_filter

WORKSPACE = "/workspace"
HOME = "/home/agent"
MEMORY_FILES_BYTES = 256 * 1024 * 1024  # /tmp and its like lie in memory, which others need too
PROBE_S = 10.0  # it takes 20 ms; a machine under load may need more

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32", "nix/store")
_SETTINGS = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf"),
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs", "pki/ca-trust"),
)
_SETTINGS_OF_NETWORK = ("resolv.conf", "hosts")
_OWN_ETC = Path(__file__).parent / "etc"


class Bubblewrap:
    name = "bubblewrap"

    def __init__(
        self,
        program: str | None,
        environ: Mapping[str, str],
        pass_env: tuple[str, ...] = (),
        limits: CommandLimits | None = None,
    ) -> None:
        self._program = program
        self._limits = limits
        self._environ = sandbox_environment(environ, pass_env, HOME)

    def check(self) -> None:
        """Raises `SandboxMissing` unless a program can really be run in the sandbox here."""
        argv = (self._found(), *_walls(network=False), "--", "/bin/true")
        try:
            with with_filter(argv, seccomp_program()) as (whole, files):
                done = subprocess.run(
                    whole,
                    env={"PATH": PATH},
                    capture_output=True,
                    text=True,
                    timeout=PROBE_S,
                    pass_fds=files,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxMissing(f"bubblewrap cannot be started: {error}") from None
        if done.returncode != 0:
            raise SandboxMissing(
                "bubblewrap does not work on this machine, so nothing runs: "
                f"{done.stderr.strip()[-300:]}. It needs version 0.8 or newer and user namespaces "
                "(kernel settings user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
            )

    def wrap(self, place: WorkPlace, command: str, folder: str) -> Wrapped:
        binding = "--bind" if place.writable else "--ro-bind"
        argv = (
            self._found(),
            *_walls(network=place.network),
            *(binding, str(place.folder), WORKSPACE),
            *_owners_words(place),
            *("--remount-ro", "/"),
            *("--chdir", os.path.normpath(f"{WORKSPACE}/{folder}")),
            *("--", shell(), "-c", command),
        )
        limits, note = self._limits, ""
        if limits is not None and place.room is not None:
            limits, note = place.room.fit(limits)
        # What bubblewrap itself is given can be read inside, in /proc/1/environ: so it gets no more.
        return Wrapped(
            argv, self._environ, Path("/"), limits, seccomp_program(), disk=place.folder, note=note
        )

    def _found(self) -> str:
        if self._program is None:
            raise SandboxMissing(
                "this session is sandboxed and bubblewrap is not installed, so nothing runs; "
                "install it (apt install bubblewrap, dnf install bubblewrap), or set "
                "agents.defaults.sandbox.mode to off"
            )
        return self._program


def _owners_words(place: WorkPlace) -> list[str]:
    """Arguments that mount each of the owner's prompt files read-only: inside it can be neither
    written, removed nor renamed, and because it exists it cannot be made."""
    words: list[str] = []
    if place.keeps_prompt:
        keep_prompt_files(place.folder)
        for name in PROMPT_FILES:
            words += ["--ro-bind", str(place.folder / name), f"{WORKSPACE}/{name}"]
    return words


def _walls(*, network: bool) -> Sequence[str]:
    """Bubblewrap's arguments for all but the workspace: namespaces, capabilities, user, and the system's folders."""
    return (
        *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *(("--share-net",) if network else ()),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox"),
        *("--uid", "1000", "--gid", "1000"),
        *_system(),
        *_settings(network),
        *("--dev", "/dev", *_memory("/dev/shm"), "--remount-ro", "/dev"),
        # As root outside one would still be the owner of kernel settings, and could write them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *_memory("/tmp"),
        *_memory(HOME),
    )


def _memory(path: str) -> tuple[str, ...]:
    return ("--size", str(MEMORY_FILES_BYTES), "--perms", "0700", "--tmpfs", path)


def _system() -> list[str]:
    words: list[str] = []
    for path in (Path("/") / name for name in _SYSTEM):
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _settings(network: bool) -> list[str]:
    """Arguments for a few files of /etc; users and groups are our own, so that nobody is named
    inside."""
    words: list[str] = []
    for name in _SETTINGS + (_SETTINGS_OF_NETWORK if network else ()):
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for file in ("passwd", "group"):
        words += ["--ro-bind", str(_OWN_ETC / file), f"/etc/{file}"]
    return words
