"""Files of a place: every path is walked from the place's folder, and none leads out of it.

Each step opens one name relative to a folder that is already open and follows no link; a link is
read and walked like the path itself. So looking and opening are one act, and whoever swaps a folder
for a link meanwhile gains nothing.
"""

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import BinaryIO

from crossclaw.disk.private import make_folder
from crossclaw.domain.errors import Forbidden, Invalid, NotFound
from crossclaw.sandbox.contract import Place

LINKS_MAX = 40  # as many as Linux follows itself
PATH_CHARS_MAX = 4_096  # likewise
NEARBY_MAX = 20  # names in a hint

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_file(place: Place, path: str) -> Generator[BinaryIO]:
    """A regular file, to be read. What is none is answered with what is there instead."""
    with _walk(place, path) as (folder, name):
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, path, _nearby(folder)) from None
        try:
            _refuse_irregular(descriptor, path)
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)


def replace_file(place: Place, path: str, data: bytes) -> bool:
    """Put a whole file in place at once; folders on the way are made. True: it was not there."""
    if not place.writable:
        raise Forbidden("your workspace is read-only here (sandbox.workspaceAccess)")
    make_folder(place.folder)
    with _walk(place, path, create=True) as (folder, name):
        mode = _mode_of(folder, name, path)
        own = f".{secrets.token_hex(8)}.tmp"
        try:
            with open(os.open(own, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), 0o644 if mode is None else mode)
            os.rename(own, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            _forget(own, folder)
            raise _refusal(error, path) from None
        return mode is None


def check_folder(place: Place, path: str) -> str:
    """The path of a folder relative to the place's own, when there is one."""
    with _walk(place, path) as (folder, name):
        try:
            os.close(os.open(name, _FOLDER, dir_fd=folder))
        except OSError as error:
            raise _refusal(error, path, _nearby(folder)) from None
    return "/".join(_inside(place, path)) or "."


# ── walking ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _walk(place: Place, path: str, *, create: bool = False) -> Generator[tuple[int, str]]:
    """The open folder in which `path` ends, and the last name in it, which is no link."""
    steps = deque(_inside(place, path))
    open_folders = [_open_root(place)]
    links = 0
    try:
        while steps:
            step = steps.popleft()
            if step == "..":
                _leave(open_folders, path)
                continue
            target = _link(open_folders[-1], step)
            if target is not None:
                links += 1
                if links > LINKS_MAX:
                    raise Invalid(f"{path} goes through more than {LINKS_MAX} links")
                if target.startswith("/"):
                    while len(open_folders) > 1:
                        os.close(open_folders.pop())
                steps.extendleft(reversed(_inside(place, target, named=path)))
            elif not steps:
                yield open_folders[-1], step
                return
            else:
                open_folders.append(_enter(open_folders[-1], step, path, create=create))
        yield open_folders[-1], "."
    finally:
        for folder in open_folders:
            os.close(folder)


def _inside(place: Place, path: str, named: str | None = None) -> list[str]:
    """The steps of a path from the place's folder. An absolute one must begin with that folder."""
    if "\0" in path:
        raise Invalid("a path has no NUL characters")
    if not path or len(path) > PATH_CHARS_MAX:
        raise Invalid(f"a path has 1 to {PATH_CHARS_MAX} characters")
    pure = PurePosixPath(path)
    if pure.is_absolute():
        roots = {place.seen_as} | (set() if place.sandboxed else {str(place.folder.resolve())})
        root = next((root for root in roots if pure.is_relative_to(root)), None)
        if root is None:
            raise _outside(named or path)
        pure = pure.relative_to(root)
    return list(pure.parts)


def _open_root(place: Place) -> int:
    try:
        return os.open(place.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise NotFound("your workspace is empty: there is no file in it yet") from None


def _leave(open_folders: list[int], path: str) -> None:
    if len(open_folders) == 1:
        raise _outside(path)
    os.close(open_folders.pop())


def _link(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None  # no link, or nothing at all: opening it will tell


def _enter(folder: int, name: str, path: str, *, create: bool) -> int:
    try:
        if create:
            _make(folder, name)
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise _refusal(error, path, _nearby(folder)) from None


def _make(folder: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)


# ── telling ────────────────────────────────────────────────────────────────────────────────────


def _refuse_irregular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise NotFound(f"{path} is a folder{_nearby(descriptor)}")
    if not stat.S_ISREG(mode):
        raise Invalid(f"{path} is not a regular file")


def _mode_of(folder: int, name: str, path: str) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(error, path) from None
    if not stat.S_ISREG(found):
        raise Invalid(f"{path} is there and is not a regular file")
    return stat.S_IMODE(found) & 0o777


def _forget(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _outside(path: str) -> Forbidden:
    return Forbidden(f"{path} is outside of your workspace")


def _refusal(error: OSError, path: str, hint: str = "") -> Exception:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return NotFound(f"there is no {path} in your workspace{hint}")
        case errno.ENAMETOOLONG:
            return Invalid(f"a name in {path[:100]}… is too long; use at most 255 bytes")
        case errno.ELOOP:
            return Forbidden(f"{path} changed into a link while it was opened")
        case _:
            return Forbidden(f"{path}: {os.strerror(error.errno or 0)}")


def _nearby(folder: int) -> str:
    names = sorted(os.listdir(folder))[:NEARBY_MAX]
    return f"; that folder has {', '.join(names) or 'nothing'}"
