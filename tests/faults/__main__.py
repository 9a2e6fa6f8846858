"""make cluster-faults: three gateways in networks of their own on one PostgreSQL, and what can befall them.

    kill       kill -9, and a new start
    stop       stopped past its lease, and on again
    cut        its link is cut both ways, and mended
    deaf       nothing arrives, and then again
    mute       nothing leaves, and then again
    restart    the server is killed and comes back
    unheard    no hint is ever heard, with kills

Each runs under load. What was acknowledged must be answered once and in order, and no tool is carried out twice. At the
end builds that break a promise are tried: one that is not caught means that the rig is blind.
"""

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.abc
import msgspec

from tests.cluster.server import NoServer, Server, serving
from tests.crash.patience import see_through
from tests.faults.judge import FaultLetter, FaultRecord, judge
from tests.faults.network import NETWORK, SERVER_IP, Link, NoNetwork, network

GATEWAYS, CLIENTS, SESSIONS = 3, 5, 6
FAULTS = ("kill", "stop", "cut", "deaf", "mute", "restart", "unheard")
CONTROLS = {"forgetful": "kill", "unfenced": "stop"}
AWAY_S = 5.0  # past the lease of three seconds
BETWEEN_S = (0.4, 1.5)
ASK_S = 3.0
STILL_S = 40.0
CHANCE_LOST = 0.1  # of an answer that is lost on its way: the client asks again, somewhere
SCRIPTS = (
    "say: re $",
    "wait: 0.2\nsay: re $",
    'tool: stamp {"token": "x"}\nthen:\nsay: re $',
    'wait: 0.5\ntool: stamp {"token": "x"}\nthen:\nwait: 0.2\nsay: re $',
)
ROOT = Path(__file__).parents[2]


class Unanswered(Exception):
    pass


class Node:
    """A gateway's process, and the pipe to it."""

    def __init__(self, world: Path, link: Link, name: str, url: str, build: str) -> None:
        program = (sys.executable, "-m", "tests.faults.gateway", str(world), name, url, build)
        self.link, self.name = link, name
        self._command = link.command(*program)
        self._log = world / f"{name}.stderr"
        self._process: anyio.abc.Process | None = None
        self._answers: dict[int, tuple[anyio.Event, list[Any]]] = {}
        self._count = 0
        self.ready = anyio.Event()

    async def serve(self) -> None:
        """One life."""
        with self._log.open("ab") as log:
            process = await anyio.open_process(self._command, stderr=log, cwd=ROOT)
        self._process = process
        try:
            await self._listen(process)
        finally:
            self._process, self.ready = None, anyio.Event()
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await process.aclose()

    async def _listen(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        rest = b""
        async for chunk in process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hear(msgspec.json.decode(line))

    def _hear(self, line: dict[str, Any]) -> None:
        if line.get("told") == "ready":
            self.ready.set()
        if known := self._answers.pop(line.get("number", 0), None):
            known[1].append(line)
            known[0].set()

    async def ask(self, **request: Any) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or not self.ready.is_set():
            raise Unanswered
        self._count += 1
        event, answer = self._answers[self._count] = (anyio.Event(), [])
        line = msgspec.json.encode({**request, "number": self._count}) + b"\n"
        with anyio.move_on_after(ASK_S):
            try:
                await process.stdin.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise Unanswered from None
            await event.wait()
        if not answer:
            raise Unanswered
        return dict(answer[0])

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


class Rig:
    def __init__(self, world: Path, server: Server, nodes: list[Node], dice: Random) -> None:
        self._world, self._server, self._nodes, self._dice = world, server, nodes, dice
        self.record = FaultRecord()
        self._closing = False
        self._loads = 0

    async def play(self, fault: str, trials: int) -> bool:
        """Whether all came to its end."""
        async with anyio.create_task_group() as tasks:
            for node in self._nodes:
                tasks.start_soon(self._keep, node)
            for node in self._nodes:
                with anyio.fail_after(90):
                    await node.ready.wait()
            for number in range(CLIENTS):
                tasks.start_soon(self._client, f"c{number}")
            for _ in range(trials):
                await anyio.sleep(self._dice.uniform(*BETWEEN_S))
                await self._befall(fault)
                self.record.trials += 1
            self._closing = True
            done = await see_through(self._settle, self._progress, STILL_S)
            tasks.cancel_scope.cancel()
        return done

    async def _keep(self, node: Node) -> None:
        while True:
            await node.serve()

    async def _settle(self) -> None:
        while self._loads:  # noqa: ASYNC110  clients of several tasks
            await anyio.sleep(0.1)

    def _progress(self) -> tuple[int, int]:
        ended = sum(letter.ended is not None for letter in self.record.letters)
        return self.record.acknowledged, ended

    # ── what befalls them ──────────────────────────────────────────────────────────────────────

    async def _befall(self, fault: str) -> None:
        node = self._dice.choice(self._nodes)
        if fault in ("kill", "unheard"):
            node.signal(signal.SIGKILL)
            await anyio.sleep(1)
            with anyio.move_on_after(60):
                await node.ready.wait()
        elif fault == "stop":
            node.signal(signal.SIGSTOP)
            await anyio.sleep(AWAY_S)
            node.signal(signal.SIGCONT)
        elif fault == "restart":
            await anyio.to_thread.run_sync(self._server.stop, signal.SIGKILL)
            await anyio.to_thread.run_sync(self._server.start)
            await anyio.sleep(1)
        else:
            node.link.cut(fault)
            try:
                await anyio.sleep(AWAY_S)
            finally:
                node.link.heal()

    # ── clients ────────────────────────────────────────────────────────────────────────────────

    async def _client(self, name: str) -> None:
        self._loads += 1
        dice, count = Random(f"{name}/{self._dice.random()}"), 0
        while not self._closing:
            count += 1
            letter = FaultLetter(f"{name}x{count}", name, f"s{dice.randrange(SESSIONS)}")
            self.record.letters.append(letter)
            text = f"{dice.choice(SCRIPTS).replace('$', letter.token)}"
            await self._post(letter, text, dice)
            await self._hear_of(letter, dice)
        self._loads -= 1

    async def _post(self, letter: FaultLetter, text: str, dice: Random) -> None:
        """To whichever gateway, until one has acknowledged it."""
        while not letter.acknowledged:
            try:
                answer = await dice.choice(self._nodes).ask(
                    ask="submit", token=letter.token, session=letter.session, text=text
                )
            except Unanswered:
                answer = {}
            if "run" in answer:
                letter.acknowledged = dice.random() > CHANCE_LOST
                letter.runs.add(answer["run"])
            else:
                await anyio.sleep(0.1)

    async def _hear_of(self, letter: FaultLetter, dice: Random) -> None:
        run_id = min(letter.runs)
        while letter.ended is None:
            try:
                answer = await dice.choice(self._nodes).ask(ask="wait", run=run_id)
            except Unanswered:
                answer = {}
            if answer.get("status") not in (None, "open", "unknown"):
                letter.ended = answer["status"]
            else:
                await anyio.sleep(0.05)


def trial(server: Server, fault: str, build: str, trials: int, seed: str) -> list[str]:
    """What was found; empty: all is well."""
    name = f"{fault}_{build}_{secrets.token_hex(2)}"
    server.make_database(name)
    world = Path(tempfile.mkdtemp(prefix=f"crossclaw-faults-{name}-"))
    began = time.monotonic()
    with network(GATEWAYS) as links:
        url = f"postgresql://crossclaw@{SERVER_IP}:{server.port}/{name}"
        nodes = [Node(world, link, f"g{number}", url, build) for number, link in enumerate(links)]
        rig = Rig(world, server, nodes, Random(seed))
        done = anyio.run(rig.play, fault, trials)
    found = [] if done else [f"stuck: nothing went on for {STILL_S:.0f} s"]
    found += judge(f"{server.url}/{name}", world / "stamps.txt", rig.record)
    kinds = Counter(each.partition(":")[0] for each in found)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing found"
    print(
        f"{fault}, {build}: {rig.record.trials} trials in {time.monotonic() - began:.0f} s, "
        f"{rig.record.acknowledged} acknowledged: {told}",
        flush=True,
    )
    if not found or build != "honest":
        shutil.rmtree(world, ignore_errors=True)
    return found


def run(arguments: argparse.Namespace, server: Server) -> bool:
    good = True
    for fault in FAULTS if arguments.only is None else {arguments.only} - {"controls"}:
        build = "unheard" if fault == "unheard" else "honest"
        found = trial(server, fault, build, arguments.trials, f"{arguments.seed}/{fault}")
        for each in found[:20]:
            print(f"  {each}")
        good = good and not found
    for build, fault in CONTROLS.items() if arguments.controls else ():
        found = trial(server, fault, build, arguments.trials, f"{arguments.seed}/{build}")
        print(f"control {build}: {'caught' if found else 'NOT CAUGHT: the rig is blind'}")
        good = good and bool(found)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--only", choices=(*FAULTS, "controls"))
    parser.add_argument("--no-control", dest="controls", action="store_false")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    try:
        settings = {"fsync": "on", "full_page_writes": "on", "listen_addresses": "*"}
        with serving(settings, trusted=NETWORK) as server:
            good = run(arguments, server)
    except (NoServer, NoNetwork) as missing:
        print(missing)
        return 1
    print("passed" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
