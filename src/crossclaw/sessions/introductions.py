"""Introductions: one line about each agent, for the other agents' prompts and for `agents_list`.

The owner's line in the config comes first (`agents.list[].description`). Where there is none, the first line that
says something in the agent's own IDENTITY.md or AGENTS.md does, which is the agent's word and is shown as such;
then a theme or a name of the config.
"""

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import anyio

from crossclaw.config import Config
from crossclaw.disk.threads import Disk
from crossclaw.domain.errors import CrossclawError
from crossclaw.sandbox.files import PLACEHOLDER, find_file

log = logging.getLogger(__name__)

CHARS_MAX = 200  # a line; every prompt of every agent that may reach it carries it
FILES = ("IDENTITY.md", "AGENTS.md")
BYTES_READ = 8 * 1024  # of a file's beginning: its first line is there, or it has none
LOOK_AGAIN_S = 10.0  # between two looks at an agent's files; runs begin far more often
THREADS = 4

_MARKS = re.compile(r"^[\s#>*+-]+|[*_`]+")
_COMMENT = re.compile(r"<!--.*?(-->|$)", re.S)
_TEMPLATE = frozenset({"This folder is home. Treat it that way."})
"""How OpenClaw's own AGENTS.md begins: it says nothing about an agent."""


class Introduction(NamedTuple):
    text: str
    own: bool = False
    """Whether it comes from the agent's own files, not from the owner's config."""


class _Seen(NamedTuple):
    at: float
    line: str


class Introductions:
    def __init__(self, config: Config, workspace_of: Callable[[str], Path], disk: Disk) -> None:
        self._config = config
        self._workspace_of = workspace_of
        self._disk = disk
        self._seen: dict[str, _Seen] = {}

    async def of(self, agent_ids: Iterable[str]) -> dict[str, Introduction]:
        """The introductions of the configured agents; a text is empty where nothing is known."""
        known = [each for each in agent_ids if self._config.agents.find(each) is not None]
        undescribed = [each for each in known if not self._config.agents.get(each).description]
        await self._look(undescribed)
        return {each: self._introduction(each) for each in known}

    def _introduction(self, agent_id: str) -> Introduction:
        agent = self._config.agents.get(agent_id)
        if agent.description:
            return Introduction(_bounded(agent.description))
        if agent_id in self._seen and (line := self._seen[agent_id].line):
            return Introduction(line, own=True)
        written = agent.identity.theme or agent.name or agent.identity.name or ""
        return Introduction(_bounded(written))

    async def _look(self, agent_ids: list[str]) -> None:
        now = anyio.current_time()
        due = [
            each
            for each in agent_ids
            if each not in self._seen or now - self._seen[each].at >= LOOK_AGAIN_S
        ]
        if not due:
            return
        places = self._own_places(due)
        found = await self._disk.run(
            lambda: {each: first_line(folder) for each, folder in places.items()}
        )
        self._seen |= {each: _Seen(now, found.get(each, "")) for each in due}

    def _own_places(self, agent_ids: list[str]) -> dict[str, Path]:
        """The workspaces by agent. One that several agents share introduces none of them, and is left out."""
        places = {each: self._workspace_of(each) for each in self._config.agents.ids()}
        folders = list(places.values())
        return {each: places[each] for each in agent_ids if folders.count(places[each]) == 1}


def first_line(workspace: Path) -> str:
    """The first line that says something about the agent; empty where there is none, or it cannot be read."""
    for name in FILES:
        try:
            with find_file(workspace, name) as file:
                data = file.read(BYTES_READ) if file is not None else b""
        except (CrossclawError, OSError) as error:
            log.debug("an agent is not described by %s of workspace %s, which cannot be read: %s", name, workspace, error)  # fmt: skip
            continue
        if line := _telling(data.decode("utf-8", "replace"), name):
            return line
    return ""


def _telling(text: str, name: str) -> str:
    for line in _COMMENT.sub("", text.replace(PLACEHOLDER, "")).splitlines():
        plain = _bounded(_MARKS.sub("", line))
        is_hint = line.strip().startswith("_") and line.strip().endswith("_")
        is_heading = plain.startswith(name) or plain == "---"
        if plain and not (is_hint or is_heading or plain.endswith(":") or plain in _TEMPLATE):
            return plain
    return ""


def _bounded(text: str) -> str:
    return " ".join(text.split())[:CHARS_MAX]
