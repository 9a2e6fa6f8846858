"""make crash: random kill -9 of a whole gateway under load. 0 lost, 0 doubled, 0 torn, or it fails.

Three kills in four are of one with chats and tools that the rig has furnished, the fourth is of
the real program, `crossclaw gateway`, with clients at its WebSocket. Kills come in chapters, each
with a state folder of its own. At the end builds that break a promise are tried in the same way;
one that is not caught means that the rig is blind.
"""

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.chapter import Chapter, Scene, in_process_scene
from tests.crash.finding import KINDS, Finding, Kind
from tests.crash.life import Nest, build_nest
from tests.crash.record import Record
from tests.crash.starting import rig_parser, run_rig
from tests.crash.store import Store
from tests.crash.verdict import judge
from tests.crash.victim import Build
from tests.crash.wire import wire_scene

CHAPTER_KILLS = 25  # a transcript that only grows would make the later kills slower, not better
CONTROL_KILLS, CONTROL_CHAPTERS_MAX = 5, 10
CONTROLS: dict[Build, Kind] = {
    "hasty": "lost",
    "forgetful": "doubled",
    "careless": "doubled",
    "pushing": "doubled",
    "torn": "torn",
    "gossiping": "doubled",
    "eager": "lost",
}
PARTS: dict[Build, str] = {"honest": "in process", "gateway": "gateway"}
GATEWAY_SHARE = 4  # one kill in so many: the program starts slower than a fork
SHOWN_MAX = 20


@dataclass
class Score:
    """What all chapters of a build have come to."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    start_s: float = 0.0
    stop_s: float = 0.0
    drain_s: float = 0.0
    took_s: float = 0.0

    def add(self, record: Record, store: Store, findings: list[Finding]) -> None:
        self.findings += findings
        self.start_s = max(self.start_s, record.ready_s)
        self.stop_s = max([self.stop_s, *record.stops_s])
        self.drain_s = max(self.drain_s, record.drain_s or 0.0)
        self.counts.update(
            chapters=1,
            kills=record.kills,
            stops=len(record.stops_s),
            poisoned=record.falls,
            tears=record.tears,
            acknowledged=record.acknowledged,
            questions=sum(letter.asks is not None for letter in record.letters),
            children=len(store.spawns),
            deleted=len(store.deleted),
            outcomes=len(record.outcomes),
            runs=len(store.runs),
            given_up=len(record.given_up),
            entries=sum(map(len, store.entries.values())),
            stamps=len(store.stamps),
            interrupted=sum(
                result.is_error for run_id in store.runs for result in store.results(run_id)
            ),
            delivered=sum(row.state == "delivered" for row in store.deliveries),
            uncertain=sum(row.state == "uncertain" for row in store.deliveries),
            resent=len(record.sendings) - len({sending.key for sending in record.sendings}),
        )

    def found(self, kind: Kind) -> int:
        return sum(finding.kind == kind for finding in self.findings)


class Rig:
    def __init__(self, root: Path, seed: int, nest: Nest) -> None:
        self._root = root
        self._seed = seed
        self._nest = nest

    async def crash(self, build: Build, kills: int, until: float) -> Score:
        score, began = Score(PARTS[build]), time.monotonic()
        while (left := kills - score.counts["kills"]) > 0 and time.monotonic() < until:
            if score.findings:
                break  # one chapter is enough to look at
            await self._add_chapter(score, build, min(left, CHAPTER_KILLS), until)
            score.took_s = time.monotonic() - began
            _show_progress(score, kills)
        return score

    async def try_control(self, build: Build) -> bool:
        """Whether its broken promise was noticed."""
        score = Score(build)
        for _ in range(CONTROL_CHAPTERS_MAX):
            await self._add_chapter(score, build, CONTROL_KILLS, float("inf"))
            if caught := score.found(CONTROLS[build]):
                kills = score.counts["kills"]
                print(f"control {build}: caught after {kills} kills, {caught} {CONTROLS[build]}")
                return True
        print(f"control {build}: NOT CAUGHT after {score.counts['kills']} kills: the rig is blind")
        return False

    async def _add_chapter(self, score: Score, build: Build, kills: int, until: float) -> None:
        name = f"{build}-{score.counts['chapters']}"
        seed = f"{self._seed}/{name}"
        chapter = Chapter(self._root / name, seed, build, self._scene(build, seed))
        record = await chapter.play(kills, until)
        with Store.read(chapter.folder, record.tokens) as store:
            findings = judge(store, record)
        score.add(record, store, findings)
        if not findings or build not in PARTS:
            shutil.rmtree(chapter.folder)

    def _scene(self, build: Build, seed: str) -> Scene:
        if build in ("gateway", "eager"):
            return wire_scene(Random(f"{seed}/wire"))
        return in_process_scene(self._nest, build)


def _show_progress(score: Score, kills: int) -> None:
    counts = score.counts
    verdict = ", ".join(f"{score.found(kind)} {kind}" for kind in KINDS)
    print(
        f"{score.name}: {counts['kills']}/{kills} kills in {score.took_s:.0f} s, "
        f"{counts['acknowledged']} acknowledged: {verdict}",
        flush=True,
    )


def _show_scores(scores: list[Score]) -> None:
    print()
    _show_row("", [score.name for score in scores])
    for name in dict.fromkeys(name for score in scores for name in score.counts):
        _show_row(name.replace("_", " "), [score.counts[name] for score in scores])
    for kind in KINDS:
        _show_row(kind, [score.found(kind) for score in scores])
    for name in ("took", "slowest start", "slowest stop", "slowest drain"):
        times_s = [getattr(score, f"{name.split()[-1]}_s") for score in scores]
        _show_row(name, [f"{time_s:.2f}s" for time_s in times_s])
    print()
    for score in scores:
        for finding in score.findings[:SHOWN_MAX]:
            print(f"{score.name}: {finding.kind}: {finding.text}")


def _show_row(name: str, cells: Sequence[object]) -> None:
    print(f"  {name:<14}" + "".join(f"{cell!s:>10}" for cell in cells))


async def _crash_all(rig: Rig, arguments: argparse.Namespace, until: float) -> bool:
    parts = [build for build in PARTS if arguments.only in (None, PARTS[build])]
    share = arguments.kills // GATEWAY_SHARE
    kills = {"honest": arguments.kills - share, "gateway": share} if len(parts) > 1 else {}
    scores = [await rig.crash(build, kills.get(build, arguments.kills), until) for build in parts]
    _show_scores(scores)
    return not any(score.findings for score in scores)


async def run(arguments: argparse.Namespace, root: Path) -> bool:
    until = time.monotonic() + (arguments.seconds or float("inf"))
    good = True
    with (root / "stderr.log").open("ab") as complaints:
        async with build_nest(complaints) as nest:
            rig = Rig(root, arguments.seed, nest)
            if not arguments.control:
                good = await _crash_all(rig, arguments, until)
            for build in CONTROLS if arguments.controls else ():
                if arguments.control in (None, "all", build):
                    good = await rig.try_control(build) and good
    return good


def main() -> int:
    parser = rig_parser("tests.crash", __doc__)
    parser.add_argument("--seconds", type=float, help="begin no further kill after so long")
    parser.add_argument("--only", choices=PARTS.values(), help="one part gets all the kills")
    parser.add_argument(
        "--control", nargs="?", const="all", choices=("all", *CONTROLS), help="nothing but controls"
    )
    parser.add_argument("--no-control", dest="controls", action="store_false")
    return run_rig(run, parser.parse_args(), "crash")


if __name__ == "__main__":
    sys.exit(main())
