"""Workspace files: what the owner has written for an agent, and the agent's own notes, for the
system prompt.

The owner's files are instructions: no sandboxed session can write them. MEMORY.md is the agent's
own, which any session of the agent could have written, so it is kept apart. Only regular files of
the workspace count: a link that leads out of it is left out, with a note. Long files lose their
middle, visibly. All are read through the one opener, in a thread.
"""

import logging
import os
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.sandbox.contract import PROMPT_FILES
from crossclaw.sandbox.files import PLACEHOLDER, LeadsOut, find_file, list_folder, names_there

log = logging.getLogger(__name__)

HEARTBEAT = "HEARTBEAT.md"  # the message of a heartbeat; no prompt shows it
FILES = tuple(name for name in PROMPT_FILES if name != HEARTBEAT)
SUBAGENT_FILES = ("AGENTS.md", "TOOLS.md")  # a child works; it needs no character
NOTES_FILES = ("MEMORY.md", "memory.md")  # the first that is there

SKILLS_FOLDER = "skills"
SKILLS_MAX = 50  # named in the prompt; more would be read by nobody
SKILL_CHARS = 300  # of what one says of itself
SKILL_FOLDERS_MAX = 200  # looked into

BYTES_MAX = 1024 * 1024  # of a file that is read at all; prompts take far less
HELD_MAX = 500  # files of a hundred agents; one that was forgotten is read again
WORTH_CHARS = 200  # with less room than this a file is named and left out
HEAD_SHARE, TAIL_SHARE = 0.7, 0.2  # of a long file; its beginning says most, its end was added last


class _Held(NamedTuple):
    identity: tuple[int, ...]
    text: str


class WorkspaceTexts(NamedTuple):
    """Names and texts, in their order, within the limits. Empty and missing files are left out."""

    owners: list[tuple[str, str]]
    notes: list[tuple[str, str]]
    skills: list[str]
    """A line each: `name: what it is for (path)`."""


class WorkspaceFiles:
    """Reads a workspace's files. They are checked for every run and read when they have changed."""

    def __init__(self, file_chars_max: int = 20_000, total_chars_max: int = 60_000) -> None:
        self._file_chars_max = file_chars_max
        self._total_chars_max = total_chars_max
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def read(self, workspace: Path, *, subagent: bool = False) -> WorkspaceTexts:
        room = _Room(self._file_chars_max, self._total_chars_max)
        wanted = SUBAGENT_FILES if subagent else (*FILES, *NOTES_FILES, SKILLS_FOLDER)
        there = names_there(workspace, wanted)
        for name in SUBAGENT_FILES if subagent else FILES:
            if name in there:
                room.put(name, self._text(workspace, name))
        owners, room.shown = room.shown, []
        for name in NOTES_FILES:
            if name in there and room.put(name, self._text(workspace, name)):
                break
        return WorkspaceTexts(
            owners, room.shown, self._skills(workspace) if SKILLS_FOLDER in there else []
        )

    def _skills(self, workspace: Path) -> list[str]:
        """A line for each `skills/<name>/SKILL.md`, from its head, as OpenClaw's skills have it."""
        names = list_folder(workspace, SKILLS_FOLDER, SKILL_FOLDERS_MAX)
        found = [
            skill_line(name, self._text(workspace, f"{SKILLS_FOLDER}/{name}/SKILL.md"))
            for name in names
        ]
        return [line for line in found if line][:SKILLS_MAX]

    def _text(self, workspace: Path, name: str) -> str:
        try:
            with find_file(workspace, name) as file:
                return "" if file is None else self._held_text(f"{workspace}/{name}", file.fileno())
        except LeadsOut:
            return f"[{name} is a link that leads out of the workspace; it was not read.]"
        except Invalid:
            return f"[{name} cannot be read: it is no file, or a circle of links.]"
        except (CrossclawError, OSError) as error:
            log.warning("%s of workspace %s cannot be read: %s", name, workspace, error)
            return f"[{name} cannot be read.]"

    def _held_text(self, place: str, descriptor: int) -> str:
        info = os.fstat(descriptor)
        identity = info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size
        held = self._held.get(place)
        if held is None or held.identity != identity:
            held = self._held[place] = _Held(identity, _read(descriptor, info.st_size))
            if len(self._held) > HELD_MAX:
                self._held.popitem(last=False)
        return held.text


def skill_line(folder: str, text: str) -> str:
    """One line from a skill's front matter; empty where it has none."""
    head, fence, _ = text.removeprefix("---\n").partition("\n---")
    if not text.startswith("---\n") or not fence:
        return ""
    fields = dict(line.partition(":")[::2] for line in head.splitlines() if ":" in line)
    about = " ".join(fields.get("description", "").strip(" \"'").split())[:SKILL_CHARS]
    name = " ".join(fields.get("name", folder).strip(" \"'").split())[:60]
    return f"{name}: {about} (skills/{folder}/SKILL.md)" if about else ""


class _Room:
    def __init__(self, file_chars_max: int, total_chars_max: int) -> None:
        self._file_chars_max, self._left = file_chars_max, total_chars_max
        self.shown: list[tuple[str, str]] = []

    def put(self, name: str, text: str) -> bool:
        if text:
            text = shortened(text, name, min(self._file_chars_max, self._left))
            self._left -= len(text)
            self.shown.append((name, text))
        return bool(text)


def _read(descriptor: int, size: int) -> str:
    text = os.read(descriptor, BYTES_MAX).decode("utf-8", "replace").strip()
    if text == PLACEHOLDER.strip():
        return ""
    more = size - BYTES_MAX
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
