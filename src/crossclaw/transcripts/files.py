"""Files of transcripts: `<sessions>/<agent>/<session id>.jsonl`, opened so that nothing else can
be.

A name is made here from an agent id and a session id that the gateway itself has given; no path
comes from outside. Folders are opened below a descriptor of the sessions folder and links are never
followed, so that a name cannot lead elsewhere. Only the owner may read. Everything here blocks on
the disk and is called by one caller at a time.
"""

import errno
import logging
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from crossclaw.disk.private import make_folder
from crossclaw.domain.agents import is_agent_id
from crossclaw.domain.errors import Invalid
from crossclaw.transcripts.jsonl import Damage, read_lines

log = logging.getLogger(__name__)

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
# Few enough to leave most of the usual 1,024 descriptors to connections, enough for the busy ones.
FILES_OPEN_MAX = 128
FOLDERS_OPEN_MAX = 32  # an agent each; opening one anew costs three system calls
LINE_BYTES_MAX = 64 * 1024 * 1024  # a foreign file without line ends must not fill the memory
DAMAGED_AT_ONCE_MAX = 100  # kept in the same second; more would be a fight, not damage

_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER_FLAGS = _ROOT_FLAGS | os.O_NOFOLLOW
# Not blocking: a pipe that lies there is to be refused, not waited for.
_FILE_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

K = TypeVar("K")


class CopyName(NamedTuple):
    """The name of a file. One that is not ours is refused where it would become a path."""

    agent_id: str
    session_id: str
    ending: str = ".jsonl"

    @property
    def compressed(self) -> "CopyName":
        return self._replace(ending=".jsonl.zst")

    @property
    def folder(self) -> str:
        if not is_agent_id(self.agent_id):
            raise Invalid("a transcript's folder is named by an agent id, and this is none")
        return self.agent_id

    @property
    def file(self) -> str:
        if not _SESSION_ID.fullmatch(self.session_id):
            raise Invalid("a transcript is named by a session id that the gateway made")
        return f"{self.session_id}{self.ending}"


class CopyPiece(NamedTuple):
    """Lines to be appended to a file of the size `at` that ends with `ending`."""

    name: CopyName
    at: int
    data: bytes
    ending: bytes = b""


class Differs(Exception):
    """Raised if a file is not as it was left: somebody wrote, cut or replaced it, or a crash
    did."""


class Files:
    def __init__(self, sessions_dir: Path) -> None:
        self._root_path = sessions_dir
        self._root: int | None = None
        self._folders: _OpenFileCache[str] = _OpenFileCache(FOLDERS_OPEN_MAX)
        self._files: _OpenFileCache[CopyName] = _OpenFileCache(FILES_OPEN_MAX)
        self.looks = 0
        self.opens = 0
        """How often files were read and opened: shows that a start leaves clean ones alone."""

    def path_of(self, name: CopyName) -> Path:
        """The path of a file, for people to read. No file is ever opened by it."""
        return self._root_path / name.folder / name.file

    # ── what is done to a file ─────────────────────────────────────────────────────────────────

    def append(self, piece: CopyPiece) -> None:
        fd, size = self._open(piece.name)
        if size != piece.at or not _ends_with(fd, size, piece.ending):
            raise Differs
        try:
            _write_all(fd, piece.data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise

    def append_all(self, pieces: Sequence[CopyPiece]) -> list[Exception | None]:
        """Appends to each file; returns None for each, or why it was not appended. A failure does
        not affect the others."""
        return [self._try_append(piece) for piece in pieces]

    def sizes(self, names: Sequence[CopyName]) -> list[int | Exception | None]:
        """The size of each file; None if it does not exist. Permissions that are too open are
        corrected."""
        return [self._try_size(name) for name in names]

    def read(self, name: CopyName, at: int, length: int) -> bytes:
        """Reads part of a file: less if the file ends, nothing if it does not exist."""
        try:
            fd, _ = self._open(name, create=False)
        except FileNotFoundError:
            return b""
        return os.pread(fd, length, at)

    def cut(self, name: CopyName, size: int) -> None:
        fd, _ = self._open(name)
        os.ftruncate(fd, size)

    def find_damage(self, name: CopyName) -> Damage | None:
        """The first fault in a file, as far as the file alone shows."""
        fd, _ = self._open(name)
        with open(os.dup(fd), "rb") as file:
            file.seek(0)
            lines = iter(lambda: file.readline(LINE_BYTES_MAX), b"")
            return next((line for line in read_lines(lines) if isinstance(line, Damage)), None)

    def set_aside(self, name: CopyName, ending: str) -> Path | None:
        """Renames a file; None if it does not exist."""
        if self._look(name) is None:
            return None
        if self._files.find(name) is not None:
            self._files.drop(name)
        folder, other = self._folder(name.folder), f"{name.file}.{ending}"
        os.rename(name.file, other, src_dir_fd=folder, dst_dir_fd=folder)
        return self._root_path / name.folder / other

    def remove(self, name: CopyName) -> None:
        if self._files.find(name) is not None:
            self._files.drop(name)
        folder = self._folder(name.folder)
        with suppress(FileNotFoundError):
            os.unlink(name.file, dir_fd=folder)
            os.fsync(folder)

    def draft(self, name: CopyName) -> "Draft":
        return Draft(self._folder(name.folder), name.file)

    def close(self) -> None:
        self._files.clear()
        self._folders.clear()
        if self._root is not None:
            os.close(self._root)
            self._root = None

    # ── opening ────────────────────────────────────────────────────────────────────────────────

    def _try_append(self, piece: CopyPiece) -> Exception | None:
        try:
            self.append(piece)
        except (OSError, Invalid, Differs) as error:
            return error
        return None

    def _try_size(self, name: CopyName) -> int | Exception | None:
        try:
            info = self._look(name)
            if info is None:
                return None
            if info.st_mode & OTHERS or not stat.S_ISREG(info.st_mode):
                return self._open(name)[1]
            return info.st_size
        except (OSError, Invalid) as error:
            return error

    def _look(self, name: CopyName) -> os.stat_result | None:
        self.looks += 1
        try:
            return os.stat(name.file, dir_fd=self._folder(name.folder), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _open(self, name: CopyName, *, create: bool = True) -> tuple[int, int]:
        """The file and its size. An open one is used again if the name still means it."""
        opened = self._files.find(name)
        if opened is not None:
            info = self._look(name)
            if info is not None and opened.is_same(info) and not info.st_mode & OTHERS:
                return opened.fd, info.st_size
            self._files.drop(name)
        self.opens += 1
        fd = self._open_anew(name, _FILE_FLAGS | (os.O_CREAT if create else 0))
        info = _accept(fd, FILE_MODE, name.file)
        self._files.put(name, fd, info)
        return fd, info.st_size

    def _open_anew(self, name: CopyName, flags: int) -> int:
        try:
            return os.open(name.file, flags, FILE_MODE, dir_fd=self._folder(name.folder))
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            self.close()  # the folder that we hold was removed: begin at the root
            return os.open(name.file, flags, FILE_MODE, dir_fd=self._folder(name.folder))

    def _folder(self, agent_id: str) -> int:
        opened = self._folders.find(agent_id)
        if opened is not None:
            return opened.fd
        root = self._open_root()
        with suppress(FileExistsError):
            os.mkdir(agent_id, FOLDER_MODE, dir_fd=root)
        fd = os.open(agent_id, _FOLDER_FLAGS, dir_fd=root)
        self._folders.put(agent_id, fd, _accept(fd, FOLDER_MODE, agent_id))
        return fd

    def _open_root(self) -> int:
        if self._root is None:
            make_folder(self._root_path)
            # Here a link is the owner's own doing: the sessions may live on another disk.
            fd = os.open(self._root_path, _ROOT_FLAGS)
            _accept(fd, FOLDER_MODE, self._root_path.name)
            self._root = fd
        return self._root


class _Opened(NamedTuple):
    fd: int
    device: int
    inode: int

    def is_same(self, info: os.stat_result) -> bool:
        return (info.st_dev, info.st_ino) == (self.device, self.inode)


class _OpenFileCache(Generic[K]):
    """Open descriptors; the least recently used is closed first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[K, _Opened] = OrderedDict()

    def find(self, key: K) -> _Opened | None:
        if key in self._open:
            self._open.move_to_end(key)
        return self._open.get(key)

    def put(self, key: K, fd: int, info: os.stat_result) -> None:
        self._open[key] = _Opened(fd, info.st_dev, info.st_ino)
        if len(self._open) > self._limit:
            os.close(self._open.popitem(last=False)[1].fd)

    def drop(self, key: K) -> None:
        os.close(self._open.pop(key).fd)

    def clear(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1].fd)


class Draft:
    """A file written beside the one that it will replace, so that nobody ever sees half of it."""

    def __init__(self, folder: int, file: str) -> None:
        self._folder, self._file, self._draft = folder, file, f".{file}.draft"
        with suppress(FileNotFoundError):
            os.unlink(self._draft, dir_fd=folder)
        self._fd = os.open(self._draft, _DRAFT_FLAGS, FILE_MODE, dir_fd=folder)

    def write(self, data: bytes) -> None:
        _write_all(self._fd, data)

    def put(self, stamp: str) -> str:
        """Replaces the file, which is kept beside it; returns its new name."""
        os.fsync(self._fd)
        kept = self._free_name(stamp)
        self._rename(self._file, kept)
        self._take_place()
        return kept

    def replace(self) -> None:
        """Replaces the file, if there is one, and keeps nothing of it."""
        os.fsync(self._fd)
        self._take_place()

    def _take_place(self) -> None:
        self._rename(self._draft, self._file)
        os.fsync(self._folder)
        os.close(self._fd)

    def drop(self) -> None:
        os.close(self._fd)
        with suppress(FileNotFoundError):
            os.unlink(self._draft, dir_fd=self._folder)

    def _rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _free_name(self, stamp: str) -> str:
        first = f"{self._file}.damaged-{stamp}"
        for name in (first, *(f"{first}-{n}" for n in range(2, DAMAGED_AT_ONCE_MAX + 1))):
            try:
                os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            except FileNotFoundError:
                return name
        raise FileExistsError(errno.EEXIST, "too many damaged copies", first)


def _ends_with(fd: int, size: int, ending: bytes) -> bool:
    return not ending or os.pread(fd, len(ending), size - len(ending)) == ending


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _accept(fd: int, mode: int, what: str) -> os.stat_result:
    """Checks what was opened: closes it to other users; refuses what is no file where one should
    be."""
    try:
        info = os.fstat(fd)
        if mode == FILE_MODE and not stat.S_ISREG(info.st_mode):
            raise FileExistsError(errno.EEXIST, "something that is no file lies in its place", what)
        if info.st_mode & OTHERS:
            os.fchmod(fd, mode)
            log.warning("%s was open to others; only the owner can read it now", what)
    except OSError:
        os.close(fd)
        raise
    return info
