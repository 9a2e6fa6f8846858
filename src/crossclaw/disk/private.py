"""Private files and folders: made with an explicit mode, whatever the umask says.

`Path.mkdir(mode=…, parents=True)` gives its mode to the last folder only; the ones above it follow the
umask, and under umask 000 everybody could write into the state folder. So nobody but this module
makes a folder or a file of the gateway's own.
"""

import io
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

FOLDER_MODE, FILE_MODE = 0o700, 0o600

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(path: Path, mode: int = FOLDER_MODE) -> None:
    """Makes the folder, and each missing one above it, all with this mode."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        try:
            os.mkdir(each, mode)
        except FileExistsError:
            continue  # somebody was faster, with a folder of theirs; opening it will tell
        os.chmod(each, mode)  # a umask can also take the owner's own rights
    if not missing and not path.is_dir():
        raise NotADirectoryError(20, "this is no folder", str(path))


def make_file(path: Path) -> None:
    """Makes an empty file that only its owner may read, unless it exists. A link is not
    followed."""
    make_folder(path.parent)
    with suppress(FileExistsError):
        descriptor = os.open(path, _NEW, FILE_MODE)
        os.fchmod(descriptor, FILE_MODE)
        os.close(descriptor)


class NotReplaced(OSError):
    """Raised if what is in the file's place must not be replaced; the text says what it is."""


@contextmanager
def new_file(path: Path, *, replace: bool = True) -> Generator[IO[str]]:
    """A new text file that appears when it is complete, and is durable then. It is written under a
    name that nobody can guess, in the folder as it was when the writing began. `replace=False`
    fails if something is there already, also if it came meanwhile."""
    with new_binary_file(path, replace=replace) as file:
        text = io.TextIOWrapper(file, encoding="utf-8")
        yield text
        text.flush()
        text.detach()


@contextmanager
def new_binary_file(path: Path, *, replace: bool = True) -> Generator[IO[bytes]]:
    """A new file for bytes; otherwise like `new_file`."""
    folder = os.open(path.parent, _FOLDER)
    own = _name_beside(path)
    try:
        _refuse_others(folder, path, replace=replace)
        with open(os.open(own, _NEW, FILE_MODE, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), FILE_MODE)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _put(folder, own, path, replace=replace)
        os.fsync(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(own, dir_fd=folder)
        os.close(folder)


def write_file(path: Path, text: str, *, replace: bool = True) -> None:
    with new_file(path, replace=replace) as file:
        file.write(text)


@contextmanager
def draft_of(path: Path, text: str) -> Generator[Path]:
    """A draft beside its file, to be checked before `put_in_place`; it is removed afterwards."""
    draft = path.with_name(_name_beside(path))
    try:
        write_file(draft, text, replace=False)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def put_in_place(draft: Path, path: Path) -> None:
    folder = os.open(path.parent, _FOLDER)
    try:
        _put(folder, draft.name, path, replace=True)
        os.fsync(folder)
    finally:
        os.close(folder)


def _name_beside(path: Path) -> str:
    return f".{path.name[:100]}.{secrets.token_hex(8)}.draft"


def _put(folder: int, own: str, path: Path, *, replace: bool) -> None:
    if replace:
        _refuse_others(folder, path, replace=True)
        os.rename(own, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:  # unlike a rename, a link never takes the place of anything
        os.link(own, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def _refuse_others(folder: int, path: Path, *, replace: bool) -> None:
    """Refuses to replace a pipe, a device or a link, which others may use."""
    try:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not replace:
        raise FileExistsError(17, "it is there already", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise NotReplaced(22, f"it is {_kind(found.st_mode)}, not a regular file", str(path))


def _kind(mode: int) -> str:
    for is_kind, name in (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_kind(mode):
            return name
    return "a device"
