"""The sandbox contract: a place to work in, and a way to run a program there.

Files of a place are reached through `files.py`, programs through `programs.py`; both the same with
and without a sandbox. A sandbox only says how a command is wrapped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec


class CommandLimits(msgspec.Struct, frozen=True):
    """Limits of one command and everything it starts."""

    memory_bytes: int
    processes: int
    file_bytes: int
    """The largest file that it can write."""
    free_bytes: int = 0
    """The space that must stay free on the disk, for the ledger."""
    ledger: Path = Path("/")
    """The path of the ledger."""
    folder_bytes: int = 0
    """The most bytes of the folder; 0: no limit."""
    folder_files: int = 0

    def as_text(self, folder: Path) -> str:
        """The limits as text for the keeper, which is a program of its own."""
        numbers = {
            "memory": self.memory_bytes,
            "processes": self.processes,
            "file": self.file_bytes,
            "free": self.free_bytes,
            "folder_bytes": self.folder_bytes,
            "folder_files": self.folder_files,
        }
        paths = [bytes(each).hex() for each in (folder, self.ledger)]
        return ",".join([*(f"{k}={v}" for k, v in numbers.items()), *paths])


class Wrapped(msgspec.Struct, frozen=True):
    """A command ready to be started on this machine."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    limits: CommandLimits | None = None
    seccomp: bytes = b""
    """The filter of system calls, for bubblewrap."""
    disk: Path = Path("/")
    """The folder it writes in: the limits count what is there, and what is free."""
    note: str = ""
    """A note for whoever runs it."""


class Sandbox(Protocol):
    name: str

    def wrap(self, place: "WorkPlace", command: str, folder: str) -> Wrapped:
        """The program and arguments that run a shell command in the sandbox. `folder` is its working directory,
        relative to the workspace."""
        ...


class FolderSpace(Protocol):
    """The space limit of a folder. It reads the disk: not for the event loop."""

    def refuse_more(self, size: int) -> None:
        """Raises unless so many bytes more, in a new file, still fit."""
        ...

    def fit(self, limits: CommandLimits) -> tuple[CommandLimits, str]:
        """The limits of a command that runs there now, and a note for it."""
        ...


PROMPT_FILES = (
    *("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md"),
)
"""What the owner says to an agent, in the order of the prompt: what to do, who one is, what there is, for whom. A system prompt shows them as the owner's words, so no sandboxed
session writes them. MEMORY.md and memory/ are the agent's own notes and are shown as such."""


class WorkPlace(msgspec.Struct, frozen=True):
    """The place where the tools of one session work."""

    folder: Path
    seen_as: str
    """The folder's path as the session knows it."""
    writable: bool
    network: bool
    sandboxed: bool
    sandbox: Sandbox
    closed: tuple[Path, ...] = ()
    """Files and folders of the gateway's own, which no path reaches even if they are inside."""
    free_bytes: int = 0
    """The space that `write` and `edit` leave free on the disk."""
    room: "FolderSpace | None" = None
    """The space limit of the folder; None: only the disk's."""
    keeps_prompt: bool = False
    """Whether the owner's `PROMPT_FILES` are in this folder and can only be read here."""


class ReadFolder(msgspec.Struct, frozen=True):
    """A folder from which the gateway itself reads, and nothing outside of it."""

    folder: Path
    sandboxed: bool = False
    closed: tuple[Path, ...] = ()

    @property
    def seen_as(self) -> str:
        return str(self.folder)
