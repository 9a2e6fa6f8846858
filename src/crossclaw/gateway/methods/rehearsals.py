"""rehearsals.list and rehearsals.play: scenes that need no key. Ours: OpenClaw has none.

A scene is played on a gateway of its own, with a folder and a port of its own, by `crossclaw rehearse`; this gateway only
starts that program and answers its link. It ends by itself.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from crossclaw.config.rehearsals import (
    SHIPPED,
    START_S_MAX,
    VARIABLES_KEPT,
    RehearsalFile,
    Staged,
    read_shipped,
    staged_path,
)
from crossclaw.domain.errors import CrossclawError, Forbidden, NotFound
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person

AT_ONCE = 3  # one more ends the first
LINE_BYTES_MAX = 4_096


class RehearsalListed(Result, frozen=True):
    name: str
    title: str
    about: str


class RehearsalsResult(Result, frozen=True):
    rehearsals: list[RehearsalListed]
    playing: Staged | None = None
    """The progress of a gateway that plays a scene."""


class PlayParams(Params, frozen=True):
    name: Annotated[str, msgspec.Meta(max_length=100)]


class PlayResult(Result, frozen=True):
    url: str
    """The address of the scene's page, with its token; it waits for a visitor for a minute."""


class RehearsalMethods:
    def __init__(self, resolver: Resolver, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._resolver = resolver
        self._state_dir = state_dir
        self._environ = environ
        self._stages: list[anyio.abc.Process] = []

    @method(
        "rehearsals.list",
        "operator.read",
        "read",
        "Ours: the scenes that can be played without a key, and how far this one is.",
    )
    async def list(self, caller: Caller, params: NoParams) -> RehearsalsResult:
        require_person(self._resolver, caller)
        listed = [
            RehearsalListed(name=name, title=each.title, about=each.about)
            for name, each in await anyio.to_thread.run_sync(_all_shipped)
        ]
        staged = await anyio.to_thread.run_sync(_read_staged, staged_path(self._state_dir))
        return RehearsalsResult(rehearsals=listed, playing=staged)

    @method(
        "rehearsals.play",
        "operator.admin",
        "run",
        "Ours: play a scene on a throwaway gateway. It starts a program, so only clients on this machine may.",
    )
    async def play(self, caller: Caller, params: PlayParams) -> PlayResult:
        require_person(self._resolver, caller)
        if not caller.local:
            raise Forbidden(
                "a rehearsal starts a program, so it can only be begun on the gateway's own machine: "
                f"crossclaw rehearse {params.name if params.name in SHIPPED else 'two-agents'}"
            )
        if params.name not in SHIPPED:
            raise NotFound(f"there is no rehearsal {params.name}; there are {', '.join(SHIPPED)}")
        self._stages = [each for each in self._stages if each.returncode is None]
        if len(self._stages) >= AT_ONCE:
            self._stages.pop(0).terminate()  # its gateway ends with it
        return PlayResult(url=await self._start(params.name))

    async def _start(self, name: str) -> str:
        words = [sys.executable, "-m", "crossclaw", "rehearse", name, "--watch", "--json"]
        kept = {each: self._environ[each] for each in VARIABLES_KEPT if each in self._environ}
        process = await anyio.open_process(words, stdin=DEVNULL, stderr=DEVNULL, env=kept)
        self._stages.append(process)
        assert process.stdout is not None
        try:
            with anyio.fail_after(START_S_MAX):
                lines = BufferedByteReceiveStream(process.stdout)
                line = await lines.receive_until(b"\n", LINE_BYTES_MAX)
        except (TimeoutError, anyio.IncompleteRead, anyio.DelimiterNotFound) as error:
            if process.returncode is None:
                process.kill()
            raise CrossclawError(
                f"the rehearsal did not start; try crossclaw rehearse {name}"
            ) from error
        return msgspec.json.decode(line, type=PlayResult).url


def _all_shipped() -> list[tuple[str, RehearsalFile]]:
    return [(name, read_shipped(name)) for name in SHIPPED]


def _read_staged(path: Path) -> Staged | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Staged)
    except (OSError, msgspec.MsgspecError):
        return None
