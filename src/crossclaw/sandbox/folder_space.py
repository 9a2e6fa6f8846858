"""Folder space: the space limit of a sandboxed workspace.

A quota of the kernel is enforced by itself (`quota.py`). Elsewhere the folder is measured: before a
command starts, and while it runs by its keeper. A full folder takes nothing more, and can be
emptied: a command that runs there can write no byte into any file, but remove files.
"""

import threading
import time
from pathlib import Path

import msgspec

from crossclaw.domain.errors import Forbidden
from crossclaw.sandbox import keeper
from crossclaw.sandbox.contract import CommandLimits
from crossclaw.sandbox.quota import Quota, hold_quota

CHEAP_S = 0.1  # of the processor: a folder that takes less is measured anew after every command
SHARE = 20  # a larger one after so many times what it takes, so that measuring stays a twentieth of the time
MB = 2**20


class FolderSize(msgspec.Struct, frozen=True):
    bytes: int
    files: int


class LimitedFolder:
    """The space limit of one folder; 0 means no limit."""

    def __init__(self, folder: Path, bytes_max: int, files_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._lock = threading.Lock()
        """Protects the measurements: several tools of one folder may ask at once, each in a
        thread."""
        self._size: FolderSize | None = None
        self._free = (0, 0)
        self._measured_at = self._took_s = 0.0
        self._has_run = False
        """Whether a command may have changed the folder since it was measured."""
        self._quota: Quota | None = None

    def refuse_more(self, size: int) -> None:
        with self._lock:
            now = self._look()
            if self._quota is not None and keeper.free_room(str(self._folder))[0] < size:
                raise Forbidden(self._full_text())
            more = FolderSize(now.bytes + size, now.files + 1)
            if self._is_over(more):
                raise Forbidden(self._full_text())
            self._size = more

    def fit(self, limits: CommandLimits) -> tuple[CommandLimits, str]:
        with self._lock:
            now = self._look()
            is_full = self._is_over(now)
            self._has_run = True
            bounded = msgspec.structs.replace(
                limits,
                # Nothing can be written where no file may have a byte; what is there can be removed.
                file_bytes=0 if is_full else limits.file_bytes,
                folder_bytes=max(self._bytes_max, now.bytes if is_full else 0)
                if self._watches_bytes
                else 0,
                folder_files=max(self._files_max, now.files if is_full else 0)
                if self._watches_files
                else 0,
            )
            return bounded, self._full_text() if is_full else ""

    @property
    def _watches_bytes(self) -> bool:
        return bool(self._bytes_max) and not (self._quota and self._quota.bytes)

    @property
    def _watches_files(self) -> bool:
        return bool(self._files_max) and not (self._quota and self._quota.files)

    def _is_over(self, size: FolderSize) -> bool:
        too_large = self._watches_bytes and size.bytes > self._bytes_max
        return too_large or (self._watches_files and size.files > self._files_max)

    def _look(self) -> FolderSize:
        """The measured size, measured again if it may have changed: because a command has run,
        because that is long ago, or because half of the disk's free space is gone."""
        if self._size is None or self._is_stale(self._size):
            began = time.thread_time()
            self._quota = hold_quota(self._folder, self._bytes_max, self._files_max)
            self._free, self._measured_at = keeper.free_room(str(self._folder)), time.monotonic()
            watched = self._watches_bytes or self._watches_files
            self._size = measured(self._folder) if watched else FolderSize(0, 0)
            self._took_s, self._has_run = time.thread_time() - began, False
        return self._size

    def _is_stale(self, size: FolderSize) -> bool:
        if self._is_over(size) or (self._has_run and self._took_s < CHEAP_S):
            return True
        if time.monotonic() - self._measured_at > SHARE * max(self._took_s, CHEAP_S):
            return True
        now = keeper.free_room(str(self._folder))
        room = (self._bytes_max - size.bytes, self._files_max - size.files)
        pairs = zip(self._free, now, room, (self._watches_bytes, self._watches_files), strict=True)
        return any(watched and then - free > left // 2 for then, free, left, watched in pairs)

    def _full_text(self) -> str:
        limits = (
            [f"{self._bytes_max // MB} MB (sandbox.limits.workspaceMb)"] if self._bytes_max else []
        )
        limits += (
            [f"{self._files_max} files (sandbox.limits.workspaceFiles)"] if self._files_max else []
        )
        return (
            f"the workspace is full: it may hold {' and '.join(limits)}. Nothing can be written until something "
            "is removed"
        )


def measured(folder: Path) -> FolderSize:
    walk = keeper.measure(str(folder))
    while True:
        try:
            next(walk)
        except StopIteration as done:
            return FolderSize(*done.value)
