"""`rehearse`: plays a rehearsal on a gateway of its own, and says whether the result was as expected."""

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.cli.demo import free_port, remove_earlier
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.running import run_async
from crossclaw.cli.say import cleaned, coloured, dimmed, out
from crossclaw.client.errors import ClientError
from crossclaw.client.finding import ConnectOptions
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer
from crossclaw.config.rehearsals import (
    SHIPPED,
    START_S_MAX,
    VARIABLES_KEPT,
    RehearsalAct,
    RehearsalFile,
    Staged,
    StagedAct,
    config_for,
    parse_rehearsal,
    read_shipped,
    staged_path,
)
from crossclaw.config.source import Source
from crossclaw.config.token import gateway_token
from crossclaw.disk.private import write_file
from crossclaw.display.conversation import message_text
from crossclaw.domain.exchanges import CONTROL_TOKENS

LIFE_S_MAX = 600.0  # a stage that somebody watches ends by itself after that
VISIT_S = 60.0  # how long somebody has to open the page
LEFT_S = 10.0  # nobody has looked for so long: it is over
PAUSE_S = 1.5  # between two acts, where somebody watches
LOOK_AGAIN_S = 0.2
_PREFIX = "crossclaw-rehearsal-"
_MORE = """  crossclaw rehearse                   what there is to play
  crossclaw rehearse kill-me           one that comes along
  crossclaw rehearse mine.json5        your own, as a test of your agents' set-up
  crossclaw rehearse team --watch      with a link to the page: the map is live
Each is played by the rehearsal model on a gateway with a folder and a port of its
own, which is gone at the end. The exit code is 1 when something else came of it
than the file expects."""


class ActFailed(Exception):
    """The result of an act is not as expected."""


class Stage:
    """A gateway of its own: a folder, a port, a token, and a process that can be killed and started again."""

    def __init__(self, folder: Path, config: dict[str, object]) -> None:
        self.port = free_port()
        write_file(folder / "openclaw.json", json.dumps(config))
        kept = {name: os.environ[name] for name in VARIABLES_KEPT if name in os.environ}
        self.place: StateLocation = find_place(kept | {"OPENCLAW_STATE_DIR": str(folder)})
        self.folder = folder
        place = self.place
        self._token = gateway_token(place.config, place.paths, place.environ).reveal()
        self._process: anyio.abc.Process | None = None

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?rehearsal#token={self._token}"

    @property
    def wanted(self) -> ConnectOptions:
        return ConnectOptions(f"ws://127.0.0.1:{self.port}", self._token)

    async def start(self) -> None:
        words = [sys.executable, "-m", "crossclaw.cli.stage_gateway", str(os.getpid())]
        words += ["gateway", "--port", str(self.port)]
        self._process = await anyio.open_process(
            words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=dict(self.place.environ)
        )

    async def kill(self) -> None:
        """Kills the gateway as a crash or a lack of memory does: without notice."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None


class Play:
    """A rehearsal under way."""

    def __init__(self, name: str, rehearsal: RehearsalFile, stage: Stage, *, quiet: bool) -> None:
        self._stage = stage
        self._acts = rehearsal.acts
        self._quiet = quiet
        acts = [StagedAct(act.tell) for act in rehearsal.acts]
        self.staged = Staged(name, rehearsal.title, rehearsal.about, acts)
        self._write()

    async def act(self, number: int) -> None:
        """Plays one act and checks it; raises if the result is not as expected."""
        act = self._acts[number]
        self._mark(number, StagedAct(act.tell, "now"))
        if not self._quiet:
            out(f"{dimmed(f'{number + 1}.')} {cleaned(act.tell)}")
        try:
            await self._perform(act)
            said = await self._check(act)
        except ActFailed as failure:
            self._mark(number, StagedAct(act.tell, "failed", str(failure)))
            raise
        self._mark(number, StagedAct(act.tell, "ok"))
        if said and not self._quiet:
            out(dimmed(f"   {act.to}: {cleaned(said).strip().partition(chr(10))[0]}"))

    def end(self) -> None:
        self.staged = msgspec.structs.replace(self.staged, over=True)
        self._write()

    async def _perform(self, act: RehearsalAct) -> None:
        if act.say is not None:
            async with connected(self._stage) as peer:
                params = {"sessionKey": key_of(act.to), "message": act.say}
                await peer.call("chat.send", {**params, "idempotencyKey": secrets.token_hex(8)})
        if act.kill is not None:
            await anyio.sleep(act.kill)
            await self._stage.kill()
            await self._stage.start()
        try:
            with anyio.fail_after(act.within):
                await self._rest()
        except TimeoutError:
            raise ActFailed(f"what it caused has not ended within {act.within:g} s") from None

    async def _rest(self) -> None:
        """Waits until nothing is under way any more, twice in a row: what follows from an end begins at once."""
        quiet = 0
        while quiet < 2:
            async with connected(self._stage) as peer:
                quiet = 0 if (await peer.call("map.get", {}))["open"] else quiet + 1
            await anyio.sleep(LOOK_AGAIN_S)

    async def _check(self, act: RehearsalAct) -> str:
        key = key_of(act.to)
        async with connected(self._stage) as peer:
            rows = (await peer.call("sessions.table", {"key": key}))["rows"]
            history = await peer.call("chat.history", {"sessionKey": key, "limit": 50})
        answers = (each for each in history["messages"] if _is_agents(each))
        said = [words for each in answers if (words := message_text(each)) not in CONTROL_TOKENS]
        last = said[-1] if said else ""
        if act.expect is not None and not any(act.expect in words for words in said[-3:]):
            raise ActFailed(
                f"{act.to} should have said or heard “{act.expect}”; the last words there are “{last}”"
            )
        ended = rows[0]["standing"] if rows else {"name": "not there"}
        how = "ok" if ended["name"] == "idle" else ended["name"]
        if act.ends is not None and how != act.ends:
            why = f" ({ended['why']})" if ended.get("why") else ""
            raise ActFailed(f"{act.to} should have ended {act.ends}, and is {how}{why}")
        return last

    def _mark(self, number: int, act: StagedAct) -> None:
        acts = [*self.staged.acts[:number], act, *self.staged.acts[number + 1 :]]
        self.staged = msgspec.structs.replace(self.staged, acts=acts)
        self._write()

    def _write(self) -> None:
        write_file(staged_path(self._stage.folder), msgspec.json.encode(self.staged).decode())


@asynccontextmanager
async def connected(stage: Stage) -> AsyncGenerator[GatewayPeer]:
    """A connection to the stage, which may just be starting."""
    deadline = anyio.current_time() + START_S_MAX
    async with AsyncExitStack() as stack:
        while True:
            try:
                opened = connect_peer(
                    stage.wanted, lambda: stage.place, READ, WRITE, ADMIN, embed=False
                )
                peer = await stack.enter_async_context(opened)
                break
            except (ClientError, CommandFailed):
                if anyio.current_time() > deadline:
                    raise
                await anyio.sleep(LOOK_AGAIN_S)
        yield peer


def _is_agents(message: dict[str, Any]) -> bool:
    """Whether a message is an agent's: its own answers, and what other agents have said to it."""
    source = (message.get("provenance") or {}).get("sourceSessionKey")
    return message["role"] == "assistant" or (message["role"] == "user" and bool(source))


def key_of(name: str) -> str:
    return name if ":" in name else f"agent:{name}:main"


# ── the command ───────────────────────────────────────────────────────────────────────────────


def _arguments(parser: Parser) -> None:
    parser.add_argument("rehearsal", nargs="*", help="a name that comes along, or a file of yours")
    parser.add_argument(
        "--watch", action="store_true", help="print a link to its page, and wait until it is opened"
    )
    parser.add_argument("--json", action="store_true", help="with --watch: the link as JSON")


def _rehearse(arguments: Arguments) -> int:
    if not arguments.rehearsal:
        for name in SHIPPED:
            found = read_shipped(name)
            out(f"{name:<12}  {found.title}: {found.about}")
        return Exit.OK
    failed = 0
    for name in arguments.rehearsal:
        failed += not _play(name, arguments)
    return Exit.FAILED if failed else Exit.OK


def _read(name: str) -> RehearsalFile:
    if name in SHIPPED:
        return read_shipped(name)
    try:
        return parse_rehearsal(Path(name).read_text("utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(SHIPPED)
        raise CommandFailed(
            f"there is no rehearsal {name!r}, and no such file can be read: {getattr(error, 'strerror', None) or error}",
            hint=f"Those that come along: {known}",
        ) from error


def _own_config() -> dict[str, Any]:
    path = find_place(os.environ).paths.config_path
    return Source(path).value if path.exists() else {}


def _play(name: str, arguments: Arguments) -> bool:
    rehearsal = _read(name)
    mine = _own_config() if rehearsal.config == "mine" else {}
    remove_earlier(Path(tempfile.gettempdir()), _PREFIX, LIFE_S_MAX)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        stage = Stage(folder, config_for(rehearsal, mine))
        if not arguments.json:
            out(f"{rehearsal.title}. {rehearsal.about}\n")

        async def whole() -> bool:
            try:
                with anyio.move_on_after(LIFE_S_MAX):
                    return await _whole(name, rehearsal, stage, arguments)
                return False
            finally:
                with anyio.CancelScope(shield=True):
                    await stage.kill()

        return bool(run_async(whole))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _whole(name: str, rehearsal: RehearsalFile, stage: Stage, arguments: Arguments) -> bool:
    play = Play(name, rehearsal, stage, quiet=arguments.json)
    await stage.start()
    async with connected(stage):
        pass
    if arguments.watch:
        out(json.dumps({"url": stage.link}) if arguments.json else f"Open {stage.link}\n")
        if not await _pages(stage, VISIT_S, wanted=True):
            return True  # nobody came
    good = await _acts(play, rehearsal, watched=arguments.watch)
    if arguments.watch:
        await _pages(stage, LIFE_S_MAX, wanted=False)
    return good


async def _acts(play: Play, rehearsal: RehearsalFile, *, watched: bool) -> bool:
    good = True
    for number in range(len(rehearsal.acts)):
        if watched:
            await anyio.sleep(PAUSE_S)
        try:
            await play.act(number)
        except ActFailed as failure:
            out(coloured(f"   failed: {cleaned(str(failure))}", "31"))
            good = False
            break
    play.end()
    out("\n" + ("passed" if good else "failed"))
    return good


async def _pages(stage: Stage, within_s: float, *, wanted: bool) -> bool:
    """Waits until somebody looks at the page, or nobody has for a while; false when the time is over. A stage
    whose starter is gone ends too."""
    parent, missed_s = os.getppid(), 0.0
    with anyio.move_on_after(within_s):
        while os.getppid() == parent:
            async with connected(stage) as peer:
                there = await peer.call("system-presence", {})
            looks = any("webchat" in str(each.get("mode", "")) for each in there)
            missed_s = 0.0 if looks else missed_s + 1
            if (looks and wanted) or (missed_s >= LEFT_S and not wanted):
                return True
            await anyio.sleep(1)
    return False


COMMANDS = {"rehearse": CommandSpec(_arguments, _rehearse, _MORE)}
