"""`read`: the text of a file in the agent's workspace, and nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import msgspec

from crossclaw.domain.errors import Forbidden, Invalid, NotFound
from crossclaw.tools.contract import Tool, ToolContext

LINES_DEFAULT = 2_000  # a long source file; more is asked for with offset
NEARBY_MAX = 20  # names in a hint
BYTES_MAX = 256 * 1024  # what is read of a file at once


class ReadParams(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    offset: int = 1
    limit: int = LINES_DEFAULT


class Read(Tool[ReadParams]):
    """`workspace_of` answers the folder of an agent. Links that lead out of it are not followed."""

    name = "read"
    description = "Read a text file of your workspace. offset: first line (from 1), limit: lines."
    effect = "pure"
    params = ReadParams

    def __init__(self, workspace_of: Callable[[str], Path]) -> None:
        self._workspace_of = workspace_of

    async def call(self, context: ToolContext, params: ReadParams) -> str:
        if params.offset < 1 or params.limit < 1:
            raise Invalid("offset and limit begin at 1")
        workspace = self._workspace_of(context.key.agent_id)
        return await anyio.to_thread.run_sync(_read, workspace, params)


def _read(workspace: Path, params: ReadParams) -> str:
    if "\0" in params.path:
        raise Invalid("a path has no NUL characters")
    root = workspace.resolve()
    path = (root / params.path).resolve()
    if not path.is_relative_to(root):
        raise Forbidden(f"{params.path} is outside of your workspace")
    if not path.is_file():
        raise NotFound(f"there is no file {params.path} in your workspace{_nearby(root, path)}")
    lines = _text(path, params.path).splitlines()
    shown = lines[params.offset - 1 : params.offset - 1 + params.limit]
    left = len(lines) - (params.offset - 1 + len(shown))
    note = (
        f"\n[{left} more lines; go on with offset={params.offset + len(shown)}]" if left > 0 else ""
    )
    return "\n".join(shown) + note


def _text(path: Path, name: str) -> str:
    # The path was resolved; should a link take its place meanwhile, it is not followed.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        data = file.read(BYTES_MAX + 1)
    if b"\0" in data:
        raise Invalid(f"{name} is not a text file")
    text = data[:BYTES_MAX].decode("utf-8", "replace")
    return text + (f"\n[the file goes on after {BYTES_MAX} bytes]" if len(data) > BYTES_MAX else "")


def _nearby(root: Path, path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    if not folder.is_relative_to(root) or not folder.is_dir():
        return ""
    names = sorted(entry.name for entry in folder.iterdir())[:NEARBY_MAX]
    return f"; that folder has {', '.join(names) or 'nothing'}"
