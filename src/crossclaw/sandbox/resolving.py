"""Resolving: which program a command's first word is, and whether agents could replace it. It reads
the disk: not for the event loop."""

import os
import stat
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from crossclaw.domain.errors import CrossclawError
from crossclaw.sandbox.contract import ReadFolder
from crossclaw.sandbox.files import open_file

DIGEST_BYTES_MAX = 256 * 1024 * 1024  # larger programs are scripts' libraries or mistakes

PIECE_BYTES = 1024 * 1024

IsOpen = Callable[[Path], bool]
"""Whether agents can write there: their workspaces and the folders of sandboxes."""


class FoundProgram(msgspec.Struct, frozen=True):
    path: str
    """The path where it was found, which is run."""
    real: str
    """The path without links."""
    digest: str | None
    """The digest of its content, if the gateway's own user could change it."""


class NoFixedProgram(ValueError):
    """Raised if the word is no program that stays the same; the text says why."""


def find_program(word: str, search: str, is_open: IsOpen) -> FoundProgram:
    """The program of a command's first word. `search` is the PATH that the command will have."""
    path = Path(word) if "/" in word else _on_path(word, search)
    if not path.is_absolute():
        raise NoFixedProgram("a program in a folder that agents can write")
    if path != Path(os.path.normpath(path)):
        raise NoFixedProgram("a program whose path has .. or // in it")
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except (OSError, RuntimeError):
        raise NoFixedProgram("no program that can be found") from None
    if not stat.S_ISREG(status.st_mode) or not os.access(real, os.X_OK):
        raise NoFixedProgram("no program that can be run")
    if is_open(path) or is_open(real):
        raise NoFixedProgram("a program in a folder that agents can write")
    try:
        return FoundProgram(str(path), str(real), _digest(path, real, status.st_size))
    except (CrossclawError, OSError):
        raise NoFixedProgram("a program that cannot be read") from None


def names_open_file(words: Sequence[str], folder: Path, is_open: IsOpen) -> bool:
    """Whether one of these arguments names something that exists and that agents can write.
    `folder` is where the command runs, as a path of this machine."""
    for word in words:
        for name in {word, word.partition("=")[2]} - {""}:
            path = folder / name[:4096]
            try:
                if is_open(path) and path.exists():
                    return True
            except (OSError, ValueError):
                return True
    return False


def _on_path(word: str, search: str) -> Path:
    for folder in search.split(":"):
        if not folder.startswith("/"):
            raise NoFixedProgram("a program that is looked for where the command runs (PATH)")
        path = Path(folder) / word
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise NoFixedProgram("no program of that name")


def _digest(path: Path, real: Path, size: int) -> str | None:
    """The digest of a program. None for one that only the system's administration changes: it is
    updated now and then."""
    if not any(os.access(each, os.W_OK) for each in (real, real.parent, path.parent)):
        return None
    if size > DIGEST_BYTES_MAX:
        raise NoFixedProgram("a program that is too large to be compared")
    with open_file(ReadFolder(real.parent), real.name) as file:
        digest = sha256()
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
        return digest.hexdigest()
