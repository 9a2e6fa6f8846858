"""Workspace files: what the owner has written for an agent, as it goes into the system prompt.

They are instructions, so only files of the workspace itself count: a link that leads out of it is
left out and said so. Long ones lose their middle, visibly.
"""

import logging
import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

# In the order of the prompt: what to do, who one is, what there is, for whom.
FILES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md")
SUBAGENT_FILES = ("AGENTS.md", "TOOLS.md")  # a child works; it needs no character

BYTES_MAX = 1024 * 1024  # of a file that is read at all; prompts take far less
HELD_MAX = 500  # files of a hundred agents; one that was forgotten is read again
WORTH_CHARS = 200  # with less room than this a file is named and left out
HEAD_SHARE, TAIL_SHARE = 0.7, 0.2  # of a long file; its beginning says most, its end was added last

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Held(NamedTuple):
    identity: tuple[int, ...]
    text: str


class WorkspaceFiles:
    """Looked at for every request and read when they have changed: some microseconds each."""

    def __init__(self, file_chars_max: int, total_chars_max: int) -> None:
        self._file_chars_max = file_chars_max
        self._total_chars_max = total_chars_max
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def read(self, workspace: Path, *, subagent: bool = False) -> list[tuple[str, str]]:
        """Names and texts, in their order, within the limits. Empty and missing files are left out."""
        room, shown = self._total_chars_max, []
        for name in SUBAGENT_FILES if subagent else FILES:
            text = self._text(workspace, name)
            if text:
                text = shortened(text, name, min(self._file_chars_max, room))
                room -= len(text)
                shown.append((name, text))
        return shown

    def _text(self, workspace: Path, name: str) -> str:
        """Where a path leads is asked only when what it leads to has changed."""
        place = f"{workspace}/{name}"
        try:
            identity = _identity(os.stat(place))
        except FileNotFoundError:
            return ""
        except OSError:
            return self._find_text(workspace, name)
        held = self._held.get(place)
        if held is None or held.identity != identity:
            held = self._held[place] = _Held(identity, self._find_text(workspace, name))
            if len(self._held) > HELD_MAX:
                self._held.popitem(last=False)
        return held.text

    def _find_text(self, workspace: Path, name: str) -> str:
        try:
            root = workspace.resolve()
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                return f"[{name} is a link that leads out of the workspace; it was not read.]"
            with open(os.open(path, _FLAGS), "rb") as file:
                return _read(name, file.fileno())
        except FileNotFoundError:
            return ""
        except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
            log.warning("%s of workspace %s cannot be read: %s", name, workspace, error)
            return f"[{name} cannot be read.]"


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size


def _read(name: str, fd: int) -> str:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        return f"[{name} is no file.]"
    text = os.read(fd, BYTES_MAX).decode("utf-8", "replace").strip()
    more = info.st_size - BYTES_MAX
    return f"{text}\n[{more} more bytes]" if more > 0 else text


def shortened(text: str, name: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    if chars_max < WORTH_CHARS:
        return f"[{name} was left out: the files before it have used the room.]"
    head, tail = int(chars_max * HEAD_SHARE), int(chars_max * TAIL_SHARE)
    left_out = len(text) - head - tail
    marker = f"[{left_out} characters of {name} are left out here; read the file for the whole.]"
    return f"{text[:head]}\n{marker}\n{text[-tail:]}"
