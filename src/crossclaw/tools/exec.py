"""`exec`: runs a shell command in the session's workspace. Nothing that it started outlives the call."""

import os
import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio.to_thread
import msgspec

from crossclaw.config.tools import ExecTool
from crossclaw.disk.private import make_folder
from crossclaw.domain.approvals import SHOWN_CHARS_MAX, ProposedCall, visible
from crossclaw.domain.errors import Forbidden, Invalid, ToolFailed
from crossclaw.domain.tools import built_in
from crossclaw.policy.approvals import runs_others
from crossclaw.policy.shell_words import NotPlain, plain_words
from crossclaw.sandbox.contract import WorkPlace, Wrapped
from crossclaw.sandbox.files import check_folder, note_prompt_files, set_replaced_aside
from crossclaw.sandbox.places import Places
from crossclaw.sandbox.programs import Finished, run_program
from crossclaw.sandbox.resolving import NoFixedProgram, find_program, names_open_file
from crossclaw.tools.contract import Tool, ToolContext

TIMEOUT_S = 1_800.0  # OpenClaw's; the run's own limit comes first nearly always
COMMAND_BYTES_MAX = 100_000  # one argument of a Linux program has at most 128 KiB


class ExecParams(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    workdir: str = "."
    timeout: float | None = None


class Exec(Tool[ExecParams]):
    declared = built_in("exec")
    description = (
        "Run a shell command in your workspace and get its output and exit code. Nothing can be typed into "
        "it, and programs left in the background end with it. For files use read, write and edit."
    )
    about: ClassVar = {
        "command": "as for sh -c",
        "workdir": "a folder of the workspace to run it in; default the workspace itself",
        "timeout": "seconds after which it is stopped",
    }
    params = ExecParams

    def __init__(self, places: Places, settings_of: Callable[[str], ExecTool]) -> None:
        self._places = places
        self._settings_of = settings_of

    async def propose(self, context: ToolContext, params: ExecParams) -> ProposedCall:
        place = await self._places.of(context.key, context.authority)
        return await anyio.to_thread.run_sync(_proposed, self._places, place, params)

    def as_approved(self, params: ExecParams, wish: ProposedCall) -> ExecParams:
        """The parameters of an approved command: one program with fixed arguments is run as that, whatever a
        shell would make of it."""
        if wish.program is None:
            return params
        words = shlex.join((wish.program, *wish.arguments))
        return msgspec.structs.replace(params, command=words)

    async def call(self, context: ToolContext, params: ExecParams) -> str:
        settings = self._settings_of(context.key.agent_id)
        place = await self._places.of(context.key, context.authority)
        if settings.host == "sandbox" and not place.sandboxed:
            raise Forbidden(
                "commands run only in a sandbox here (tools.exec.host), and this session has none"
            )
        wrapped = await anyio.to_thread.run_sync(_wrap, place, params)
        longest = float(settings.timeout_seconds or settings.timeout_sec or TIMEOUT_S)
        async with _owners_words_kept(place):
            finished = await run_program(
                wrapped, min(params.timeout or longest, longest), context.tell
            )
        return _result_text(finished, wrapped.note)


def _proposed(places: Places, place: WorkPlace, params: ExecParams) -> ProposedCall:
    shown = visible(params.command)
    if len(shown) > SHOWN_CHARS_MAX:
        raise Invalid(
            "the command is too long to be shown to the person who has to allow it; write it into a file and "
            "run that"
        )
    wrapped = _wrap(place, params)
    wish = ProposedCall(
        tool="exec",
        shown=shown,
        folder=os.path.normpath(f"{place.seen_as}/{params.workdir}"),
        sandboxed=place.sandboxed,
    )
    try:
        word, *arguments = plain_words(params.command)
        found = find_program(word, wrapped.environ.get("PATH", ""), places.is_open)
    except (NotPlain, NoFixedProgram) as error:
        return msgspec.structs.replace(wish, why_unlisted=str(error))
    more: dict[str, Any] = {}
    if runs_others(found.path) or runs_others(found.real):
        more["warning"] = f"{word} runs what its arguments or files say"
        if names_open_file(arguments, place.folder / params.workdir, places.is_open):
            more["why_unlisted"] = f"a file that agents can change, which {word} runs"
    return msgspec.structs.replace(
        wish, program=found.path, arguments=tuple(arguments), digest=found.digest, **more
    )


@asynccontextmanager
async def _owners_words_kept(place: WorkPlace) -> AsyncGenerator[None]:
    """Restores the owner's prompt files after a command, even if the run is stopped."""
    if not place.keeps_prompt:
        yield
        return
    noted = await anyio.to_thread.run_sync(note_prompt_files, place.folder)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(set_replaced_aside, place.folder, noted)


def _wrap(place: WorkPlace, params: ExecParams) -> Wrapped:
    if "\0" in params.command or not params.command.strip():
        raise Invalid("command is empty, or has NUL characters")
    if len(params.command.encode("utf-8", "replace")) > COMMAND_BYTES_MAX:
        raise Invalid("the command is too long; write it into a file and run that")
    if params.timeout is not None and params.timeout <= 0:
        raise Invalid("timeout is in seconds, and more than 0")
    make_folder(place.folder)
    return place.sandbox.wrap(place, params.command, check_folder(place, params.workdir))


def _result_text(finished: Finished, note: str) -> str:
    output = finished.output.rstrip("\n") or "(no output)"
    output += f"\n[{note}]" if note else ""
    if finished.exit_code is None:
        raise ToolFailed(f"{output}\n[no exit code: {finished.ended_because}]")
    return f"{output}\n[exit code {finished.exit_code}]"
