"""Files of a place: every path is walked from the place's folder, and none leads out of it.

Each step opens one name relative to a folder that is already open and follows no link; a link is
read and walked like the path itself. So looking and opening are one act, and whoever swaps a folder
for a link meanwhile gains nothing. Everything that the gateway reads or writes where an agent can
write goes through here, and in a thread: a test looks through the source for any other way.
"""

import errno
import logging
import os
import secrets
import stat
from collections import deque
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from crossclaw.disk.private import make_folder
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, NotFound
from crossclaw.sandbox import keeper
from crossclaw.sandbox.contract import PROMPT_FILES, ReadFolder, WorkPlace

log = logging.getLogger(__name__)

LINKS_MAX = 40  # as many as Linux follows itself
PATH_CHARS_MAX = 4_096  # likewise
NEARBY_MAX = 20  # names in a hint

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LeadsOut(Forbidden):
    """Raised if a path, or a link on its way, does not stay in the folder."""


Root = WorkPlace | ReadFolder
FileIdentity = tuple[int, int]
"""Device and number of a file."""


@contextmanager
def open_file(place: Root, path: str) -> Generator[BinaryIO]:
    """Opens a regular file for reading. For anything else the error says what is there instead."""
    with _walk(place, path) as (folder, name, _at_root):
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, path, _nearby(folder)) from None
        with _regular(descriptor, place, path) as file:
            yield file


@contextmanager
def find_file(folder: Path, path: str) -> Generator[BinaryIO | None]:
    """Opens a regular file in a folder, for the gateway itself; None if it does not exist."""
    root = ReadFolder(folder)
    descriptor = _find(root, path)
    if descriptor is None:
        yield None
        return
    with _regular(descriptor, root, path) as file:
        yield file


def names_there(folder: Path, names: Collection[str]) -> set[str]:
    """Which of the names exist in a folder, whatever they are: one look, which spares the walk to
    each that does not. All of them if the folder cannot be read: the walk says why."""
    try:
        opened = _open_root(ReadFolder(folder))
    except NotFound:
        return set()
    except (CrossclawError, OSError):
        return set(names)
    try:
        return {name for name in names if _may_be_there(opened, name)}
    finally:
        os.close(opened)


def _may_be_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _find(root: ReadFolder, path: str) -> int | None:
    try:
        with _walk(root, path) as (folder, name, _at_root):
            return os.open(name, _READ, dir_fd=folder)
    except (NotFound, FileNotFoundError):
        return None
    except OSError as error:
        raise _refusal(error, path) from None


def read_file(folder: Path, path: str, bytes_max: int) -> bytes | None:
    """A whole file of at most so many bytes; None if it does not exist."""
    with find_file(folder, path) as file:
        if file is None:
            return None
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise Invalid(f"{path} has more than {bytes_max:,} bytes")
    return data


def list_folder(folder: Path, path: str, names_max: int) -> list[str]:
    """The first names in a folder, sorted; none if there is no such folder."""
    try:
        with _walk(ReadFolder(folder), path) as (outer, name, _at_root):
            opened = os.open(name, _FOLDER, dir_fd=outer)
    except (CrossclawError, OSError):
        return []
    try:
        return sorted(os.listdir(opened))[:names_max]
    finally:
        os.close(opened)


def replace_file(place: WorkPlace, path: str, data: bytes) -> bool:
    """Replaces a whole file at once; folders on the way are made. True if it did not exist."""
    if not place.writable:
        raise Forbidden("your workspace is read-only here (sandbox.workspaceAccess)")
    make_folder(place.folder)
    refuse_full_disk(place, len(data))
    with _walk(place, path, create=True) as (folder, name, at_root):
        if place.keeps_prompt:
            check_prompt_files(place.folder)
            if at_root and _is_prompt_file(name):
                raise Forbidden(
                    f"{name} holds the owner's words and can only be read in a sandbox; keep notes of "
                    "your own in MEMORY.md or memory/"
                )
        mode = _mode_of(folder, name, place, path)
        if mode is not None and at_root and _is_prompt_file(name):
            _write_in_place(folder, name, data, path)
            return False
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


def _write_in_place(folder: int, name: str, data: bytes, path: str) -> None:
    """Writes into the existing file. A new one would not be protected: a running sandbox has a
    mount over the old file, and only as long as it exists."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(descriptor, "wb") as file:
            file.truncate()
            file.write(data)
    except OSError as error:
        raise _refusal(error, path) from None


def refuse_full_disk(place: WorkPlace, size: int) -> None:
    if place.free_bytes and keeper.free_bytes(str(place.folder)) < place.free_bytes:
        raise Forbidden(
            f"less than {place.free_bytes // 2**20} MB of the disk are left, which the gateway needs "
            "(sandbox.limits.keepFreeMb); remove something first, or tell your owner"
        )
    if place.room is not None:
        place.room.refuse_more(size)


def check_folder(place: WorkPlace, path: str) -> str:
    """The path of a folder relative to the place's own; raises if it does not exist."""
    with _walk(place, path) as (folder, name, _at_root):
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, path, _nearby(folder)) from None
        try:
            _refuse_closed(os.fstat(descriptor), _closed(place), path)
        finally:
            os.close(descriptor)
    return "/".join(_inside(place, path)) or "."


# ── the owner's words ──────────────────────────────────────────────────────────────────────────

PLACEHOLDER = (
    "<!-- Put your own words in place of this line. The file is here so that no sandboxed session can make "
    "it; as long as it says only this, it counts as missing. -->\n"
)


def keep_prompt_files(folder: Path) -> None:
    """Makes each of `PROMPT_FILES` exist, so that a sandbox can mount it read-only: a missing one
    could not be protected against being made."""
    make_folder(folder)
    check_prompt_files(folder)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in PROMPT_FILES:
            if not os.path.lexists(folder / name):
                _put_placeholder(root, name)
    finally:
        os.close(root)


def _put_placeholder(root: int, name: str) -> None:
    """Makes a placeholder, whole or not at all: an empty HEARTBEAT.md would say that there is
    nothing to do."""
    own = f".{secrets.token_hex(8)}.tmp"
    try:
        with open(os.open(own, _NEW, 0o644, dir_fd=root), "w", encoding="utf-8") as file:
            file.write(PLACEHOLDER)
        with suppress(FileExistsError):
            os.link(own, name, src_dir_fd=root, dst_dir_fd=root, follow_symlinks=False)
    finally:
        _forget(own, root)


def note_prompt_files(folder: Path) -> dict[str, FileIdentity]:
    """Which files they are now, before a command runs in the sandbox."""
    return {name: found for name in PROMPT_FILES if (found := _identity(folder / name))}


def set_replaced_aside(folder: Path, noted: Mapping[str, FileIdentity]) -> None:
    """A file that somebody outside has replaced while a command ran was not protected against that command
    any more: the kernel takes a mount away with the file that it covers. It is kept under another name
    until the owner has looked at it."""
    for name, before in noted.items():
        path = folder / name
        if _identity(path) in (None, before) or _is_placeholder(folder, name):
            continue
        aside = f"{name}.replaced-{secrets.token_hex(4)}"
        with suppress(OSError):
            os.rename(path, folder / aside)
            log.warning(
                "%s was replaced while a sandboxed command ran, which could have written it too; it is now "
                "%s beside it: look at it, then give it its name again",
                path,
                aside,
            )


def _identity(path: Path) -> FileIdentity | None:
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _is_placeholder(folder: Path, name: str) -> bool:
    with suppress(CrossclawError, OSError):
        return read_file(folder, name, len(PLACEHOLDER)) == PLACEHOLDER.encode()
    return False


def check_prompt_files(folder: Path) -> None:
    """Raises if a prompt file is not a regular file: a link could lead to something that a
    sandboxed session can write."""
    for name in PROMPT_FILES:
        try:
            mode = os.stat(folder / name, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise Forbidden(
                f"{name} in your workspace is not a regular file, so it cannot be kept from being "
                "changed here; your owner has to put the file itself in its place"
            )


def _is_prompt_file(name: str) -> bool:
    """Whether this is the name of a prompt file, also on a disk that ignores case."""
    return name.casefold() in {each.casefold() for each in PROMPT_FILES}


# ── walking ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _walk(place: Root, path: str, *, create: bool = False) -> Generator[tuple[int, str, bool]]:
    """The open folder in which `path` ends, the last name in it, which is no link, and whether that
    folder is the place's own."""
    steps = deque(_inside(place, path))
    open_folders = [_open_root(place)]
    closed = _closed(place)
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
                yield open_folders[-1], step, len(open_folders) == 1
                return
            else:
                open_folders.append(_enter(open_folders[-1], step, path, create=create))
                _refuse_closed(os.fstat(open_folders[-1]), closed, path)
        yield open_folders[-1], ".", False
    finally:
        for folder in open_folders:
            os.close(folder)


def _closed(place: Root) -> Collection[FileIdentity]:
    found = set()
    for path in place.closed:
        with suppress(OSError):
            about = os.stat(path)
            found.add((about.st_dev, about.st_ino))
    return found


def _refuse_closed(about: os.stat_result, closed: Collection[FileIdentity], path: str) -> None:
    if (about.st_dev, about.st_ino) in closed:
        raise Forbidden(f"{path} belongs to the gateway; no agent reads or writes it")


def _inside(place: Root, path: str, named: str | None = None) -> list[str]:
    """The steps of a path from the place's folder. An absolute path must begin with that folder."""
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


def _open_root(place: Root) -> int:
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


@contextmanager
def _regular(descriptor: int, place: Root, path: str) -> Generator[BinaryIO]:
    """The opened file, if it is a regular one. It is closed afterwards, also if it is not."""
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise NotFound(f"{path} is a folder{_nearby(descriptor)}")
        if not stat.S_ISREG(about.st_mode):
            raise Invalid(f"{path} is not a regular file")
        _refuse_closed(about, _closed(place), path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _mode_of(folder: int, name: str, place: WorkPlace, path: str) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(error, path) from None
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{path} is there and is not a regular file")
    _refuse_closed(found, _closed(place), path)
    return stat.S_IMODE(found.st_mode) & 0o777


def _forget(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _outside(path: str) -> LeadsOut:
    return LeadsOut(f"{path} is outside of your workspace")


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
