"""make crash, the troubles beside kill -9: requesters that wait, a disk that fills, a clock that jumps, a
model that is away, and a storm of suspects. Each with a build that must be caught in it.

    requesters  nearly every run waits for a slow one: nobody who only waited is given up
    disk        the disk fills and is freed while victims live (needs the right to mount)
    clock       every life has another wall clock, up to twenty minutes wrong
    outage      the model cannot be reached at the beginning of most lives
    storm       300 runs at two crashes: all under way within fifteen seconds, nobody else waits
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import anyio
import msgspec

from tests.crash.chapter import Chapter, Scene, in_process_scene
from tests.crash.clients import IN_PROCESS_LOAD, ask_somebody_slow
from tests.crash.finding import Finding, Kind
from tests.crash.life import Life, Nest, build_nest
from tests.crash.starting import rig_parser, run_rig
from tests.crash.store import HELD, Store, find_runs
from tests.crash.verdict import judge
from tests.crash.victim import TROUBLE, Build, Trouble

KILLS_MIN, CHAPTER_KILLS = 5, 25
CONTROL_KILLS, CONTROL_CHAPTERS_MAX = 10, 8
CLOCK_MS_MAX = (
    20 * 60 * 1000
)  # children are archived after an hour, which is not what is tried here
AWAY_S_MAX = 0.3
DISK_SIZE = "64m"

STORM_RUNS = 300
STORM_TURN_S = 4.0
STORM_BAR_S = 15.0
STORM_END_S = 120.0
NEW_BAR_S = 5.0  # for a message of somebody who is no suspect; a busy machine needs some of it


@dataclass(frozen=True)
class Mode:
    scene: Callable[[Scene], Scene]
    control: Build
    caught_as: Kind


def _write_trouble(folder: Path, trouble: Trouble) -> None:
    (folder / TROUBLE).write_bytes(msgspec.json.encode(trouble))


def _wrong_clock(folder: Path, dice: Random, last: bool) -> None:
    """The last life is the latest, so that everything comes due."""
    by_ms = CLOCK_MS_MAX if last else dice.randint(-CLOCK_MS_MAX, CLOCK_MS_MAX)
    _write_trouble(folder, Trouble(clock_ms=by_ms))


def _model_away(folder: Path, dice: Random, last: bool) -> None:
    _write_trouble(folder, Trouble(away_s=0.0 if last else dice.uniform(0, AWAY_S_MAX)))


def _own_disk(folder: Path, dice: Random, last: bool) -> None:
    state = folder / "state"
    if not state.exists():
        state.mkdir(mode=0o700)
        options = f"size={DISK_SIZE},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(state)], check=True)
    (state / "fill").unlink(missing_ok=True)


def _take_disk_away(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder / "state")], check=False)


async def _fill_and_free(folder: Path, dice: Random) -> None:
    fill = folder / "state" / "fill"
    while True:
        await anyio.sleep(dice.uniform(0.05, 0.3))
        with fill.open("ab", buffering=0) as file:
            for size in (2**20, 4096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
        await anyio.sleep(dice.uniform(0.01, 0.15))
        fill.unlink(missing_ok=True)


MODES: dict[str, Mode] = {
    "requesters": Mode(
        lambda scene: replace(
            scene, load=replace(IN_PROCESS_LOAD, question=ask_somebody_slow, questions=0.7)
        ),
        "impatient",
        "lost",
    ),
    "disk": Mode(
        lambda scene: replace(
            scene,
            tears=False,
            prepare=_own_disk,
            disturb=_fill_and_free,
            # A stop on a full disk cannot give its runs back; the next start takes them over.
            excuses=("the disk is full", "No space left", "a graceful stop left"),
        ),
        "hasty",
        "lost",
    ),
    "clock": Mode(lambda scene: replace(scene, prepare=_wrong_clock), "forgetful", "doubled"),
    "outage": Mode(lambda scene: replace(scene, prepare=_model_away), "careless", "doubled"),
}


class ModeRig:
    def __init__(self, root: Path, seed: int, nest: Nest) -> None:
        self._root, self._seed, self._nest = root, seed, nest

    async def play(self, name: str, kills: int) -> bool:
        began, done, acknowledged = time.monotonic(), 0, 0
        while done < kills:
            size = min(CHAPTER_KILLS, kills - done)
            record, findings = await self._chapter(name, "honest", f"{name}-{done}", size)
            done, acknowledged = done + size, acknowledged + record
            if findings:
                for finding in findings[:20]:
                    print(f"{name}: {finding.kind}: {finding.text}", flush=True)
                return False
        took_s = time.monotonic() - began
        print(
            f"{name}: {done} kills in {took_s:.0f} s, {acknowledged} acknowledged: clean",
            flush=True,
        )
        return await self._try_control(name)

    async def _try_control(self, name: str) -> bool:
        mode, kills = MODES[name], 0
        for number in range(CONTROL_CHAPTERS_MAX):
            kills += CONTROL_KILLS
            _, findings = await self._chapter(
                name, mode.control, f"{name}-control-{number}", CONTROL_KILLS
            )
            if caught := sum(finding.kind == mode.caught_as for finding in findings):
                print(
                    f"{name}: control {mode.control}: caught after {kills} kills, {caught} {mode.caught_as}"
                )
                return True
        print(f"{name}: control {mode.control}: NOT CAUGHT after {kills} kills: the rig is blind")
        return False

    async def _chapter(
        self, name: str, build: Build, folder: str, kills: int
    ) -> tuple[int, list[Finding]]:
        scene = MODES[name].scene(in_process_scene(self._nest, build))
        chapter = Chapter(self._root / folder, f"{self._seed}/{folder}", build, scene)
        try:
            record = await chapter.play(kills, float("inf"))
            with Store.read(chapter.folder, record.tokens) as store:
                findings = judge(store, record)
        finally:
            if name == "disk":
                _take_disk_away(chapter.folder)
        if not findings or build != "honest":
            shutil.rmtree(chapter.folder)
        return record.acknowledged, findings

    # ── the storm ──────────────────────────────────────────────────────────────────────────────

    async def storm(self) -> bool:
        under_way_s, findings = await self._storm("honest")
        print(f"storm: {STORM_RUNS} suspects under way after {under_way_s:.1f} s", flush=True)
        for text in findings:
            print(f"storm: {text}")
        _, caught = await self._storm("serial")
        print(f"storm: control serial: {'caught' if caught else 'NOT CAUGHT: the rig is blind'}")
        return not findings and bool(caught)

    async def _storm(self, build: Build) -> tuple[float, list[str]]:
        folder = self._root / f"storm-{build}"
        folder.mkdir()
        _write_trouble(folder, Trouble(runs_at_once=2 * STORM_RUNS))
        for life_number in range(2):
            async with _Life(self._nest, folder, build) as life:
                for number in range(STORM_RUNS if not life_number else 0):
                    await _submit(life, f"t{number}", STORM_TURN_S)
                await _until_under_way(folder, STORM_RUNS, STORM_END_S)
        async with _Life(self._nest, folder, build) as life:
            began = time.monotonic()
            new = await _submit(life, "new", 0.0)
            answered = await life.ask({"ask": "wait", "run": new})
            new_s = time.monotonic() - began
            in_time = await _until_under_way(folder, STORM_RUNS, STORM_BAR_S - new_s)
            under_way_s = time.monotonic() - began
            findings = [] if in_time else [f"not all under way after {STORM_BAR_S:.0f} s"]
            if answered["status"] != "ok" or new_s > NEW_BAR_S:
                findings.append(f"somebody who is no suspect waited {new_s:.1f} s")
            if not findings:
                await _until_ended(folder, STORM_RUNS + 1, STORM_END_S)
        if not findings and find_runs(folder, "status != 'ok'"):
            findings.append("not everybody was answered")
        shutil.rmtree(folder)
        return under_way_s, findings


class _Life:
    """Ready on entry, killed on exit."""

    def __init__(self, nest: Nest, folder: Path, build: Build) -> None:
        self._nest, self._folder, self._build = nest, folder, build
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> Life:
        self._life = await self._nest.bear(self._folder, self._build)
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._life.listen, lambda line: None)
        await self._life.ready.wait()
        return self._life

    async def __aexit__(self, *error: object) -> None:
        self._life.kill()
        await self._life.over.wait()
        await self._tasks.__aexit__(None, None, None)


async def _submit(life: Life, token: str, wait_s: float) -> str:
    place = {"channel": "direct", "chat": token}
    text = f"wait: {wait_s}\nsay: re {token}"
    answer = await life.ask({"ask": "submit", "token": token, "place": place, "text": text})
    run: str = answer["run"]
    return run


async def _until_under_way(folder: Path, count: int, limit_s: float) -> bool:
    return await _until_found(folder, f"{HELD} OR ended_at IS NOT NULL", count, limit_s)


async def _until_ended(folder: Path, count: int, limit_s: float) -> bool:
    return await _until_found(folder, "ended_at IS NOT NULL", count, limit_s)


async def _until_found(folder: Path, where: str, count: int, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if len(find_runs(folder, where)) >= count:
            return True
        await anyio.sleep(0.05)
    return False


async def run(arguments: argparse.Namespace, root: Path) -> bool:
    good, kills = True, max(KILLS_MIN, arguments.kills // 5)
    with (root / "stderr.log").open("ab") as complaints:
        async with build_nest(complaints) as nest:
            rig = ModeRig(root, arguments.seed, nest)
            for name in MODES:
                if arguments.only in (None, name) and _can_be_tried(name):
                    good = await rig.play(name, kills) and good
            if arguments.only in (None, "storm"):
                good = await rig.storm() and good
    return good


def _can_be_tried(name: str) -> bool:
    if name != "disk":
        return True
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        mounted = not subprocess.run(mount, capture_output=True, check=False).returncode
        if mounted:
            subprocess.run(["umount", folder], check=False)
        else:
            print("disk: not tried: needs the right to mount a small disk")
    return mounted


def main() -> int:
    parser = rig_parser("tests.crash.modes", __doc__)
    parser.add_argument("--only", choices=(*MODES, "storm"))
    return run_rig(run, parser.parse_args(), "modes")


if __name__ == "__main__":
    sys.exit(main())
