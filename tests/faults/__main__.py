"""make cluster-faults: three gateways in networks of their own, PostgreSQL in another, and what can befall them.

Each fault comes 20 times, under load. What was acknowledged must be answered once and in order, and whatever is done in the
world is done once (judge.py). Then builds that break one promise each are tried: one that is not caught means that the rig
is blind. `--fault kill --trials 3` for a sample, `--control unguarded` for one build, `--at-once 1` on a small machine.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import anyio

from tests.cluster.server import NoServer
from tests.faults.faults import FAULTS
from tests.faults.judge import Evidence, FaultRecord, judge
from tests.faults.network import NoNetwork, network
from tests.faults.process import GatewayProcess, find_clock
from tests.faults.rig import STILL_S, Rig
from tests.faults.servers import servers

GATEWAYS = 3
AT_ONCE = 3  # they mostly wait
STILL_CONTROL_S = 20.0
TRIES = (2, 5, 20)
"""Trials of a control, until it is caught."""


class Control(NamedTuple):
    fault: str
    measure: str
    """What it switches off."""
    synchronous: bool = True


CONTROLS = {
    "forgetful": Control("kill", "a message has a key by which it is known again"),
    "unguarded": Control("stop", "each transaction looks at the gateway's own row"),
    "heedless": Control("stop", "a gateway whose lease is over drops everything and begins anew"),
    "grabbing": Control("kill", "a role is taken only from nobody, or from one that is gone"),
    "hopeful": Control("unsent", "a commit that was cut off is not taken for stored"),
    "doubting": Control("unanswered", "a commit that was cut off is not taken for lost"),
    "hurried": Control("limbo", "its fate is asked when its connection has ended"),
    "unending": Control("asleep", "the server ends a transaction that stands still"),
    "hasty": Control("crash", "an acknowledgement waits for the server's disk"),
    "lagging": Control("promote", "and for the standby's", synchronous=False),
    "unlooking": Control("unheard", "whoever hears nothing looks each second"),
}


class Life(NamedTuple):
    fault: str
    build: str
    trials: int
    seed: str
    synchronous: bool = True
    still_s: float = STILL_S


class Lived(NamedTuple):
    life: Life
    record: FaultRecord
    found: list[str]
    took_s: float
    world: Path

    @property
    def kinds(self) -> str:
        kinds = Counter(each.partition(":")[0] for each in self.found)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"


def live(life: Life) -> Lived:
    fault, name = FAULTS[life.fault], f"{life.fault}_{secrets.token_hex(3)}"
    world = Path(tempfile.mkdtemp(prefix=f"crossclaw-faults-{name}-"))
    clock = find_clock() if fault.skews else None
    if fault.skews and clock is None:
        raise NoServer("clocks are set by libfaketime: install it (apt: faketime), and try again")
    began, count = time.monotonic(), 1 if fault.servers == "one" else 2
    with network(GATEWAYS, count) as net:
        for link in (*net.gateways, *net.servers) if fault.little_buffers else ():
            link.buffer_little()
        with servers(net, name, fault.servers, synchronous=life.synchronous) as serving:
            gateways = [
                GatewayProcess(world, link, f"g{number}", serving.url, life.build, clock)
                for number, link in enumerate(net.gateways)
            ]
            rig = Rig(world, serving, gateways, Random(life.seed), life.still_s)
            anyio.run(rig.play, life.fault, life.trials)
            evidence = Evidence(serving.own_url, world, serving.logs, fault.stops)
            found = judge(rig.record, evidence)
            for number, log in enumerate(serving.logs if found else ()):
                shutil.copy(log, world / f"postgresql-{number}.log")
    return Lived(life, rig.record, found, time.monotonic() - began, world)


def try_fault(arguments: argparse.Namespace, fault: str) -> Lived:
    seed = f"{arguments.seed}/{fault}"
    lived = live(Life(fault, FAULTS[fault].build, arguments.trials, seed))
    print(
        f"{fault}: {lived.record.trials} trials in {lived.took_s:.0f} s: {lived.kinds}", flush=True
    )
    for each in lived.found[:20]:
        print(f"  {each}", flush=True)
    if lived.found:
        print(f"  see {lived.world}", flush=True)
    else:
        shutil.rmtree(lived.world, ignore_errors=True)
    return lived


def try_control(arguments: argparse.Namespace, build: str) -> Lived:
    """With more trials each time, until it is caught."""
    control = CONTROLS[build]
    for tries in TRIES:
        seed = f"{arguments.seed}/{build}/{tries}"
        life = Life(control.fault, build, tries, seed, control.synchronous, STILL_CONTROL_S)
        lived = live(life)
        if not arguments.keep:
            shutil.rmtree(lived.world, ignore_errors=True)
        if lived.found:
            break
    said = f"caught, {lived.kinds}" if lived.found else "NOT CAUGHT: the rig is blind"
    print(f"control {build}: {lived.record.trials} trials: {said}", flush=True)
    return lived


T = TypeVar("T")


def side_by_side(work: Callable[[str], T], names: Iterable[str], at_once: int) -> Iterator[T]:
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, names)


def show(faults: list[Lived], controls: list[Lived]) -> None:
    print("\n| fault | trials | acknowledged | given up, uncertain | found | seconds |")
    print("|---|---|---|---|---|---|")
    for each in faults:
        record = each.record
        print(
            f"| {each.life.fault} | {record.trials} | {record.acknowledged} | "
            f"{record.given_up}, {record.uncertain} | {each.kinds} | {each.took_s:.0f} |"
        )
    print("\n| switched off | build, fault | caught after | as | seconds |\n|---|---|---|---|---|")
    for each in controls:
        life, measure = each.life, CONTROLS[each.life.build].measure
        after = f"{each.record.trials} trials" if each.found else "NOT CAUGHT"
        print(
            f"| {measure} | {life.build}, {life.fault} | {after} | {each.kinds} | {each.took_s:.0f} |"
        )


def run(arguments: argparse.Namespace) -> bool:
    one = arguments.fault or arguments.control
    faults = arguments.fault or ([] if one else list(FAULTS))
    controls = arguments.control or ([] if one or not arguments.controls else list(CONTROLS))
    tried = list(side_by_side(lambda name: try_fault(arguments, name), faults, arguments.at_once))
    broken = list(
        side_by_side(lambda name: try_control(arguments, name), controls, arguments.at_once)
    )
    show(tried, broken)
    return not any(each.found for each in tried) and all(each.found for each in broken)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--fault", choices=tuple(FAULTS), action="append")
    parser.add_argument("--control", choices=tuple(CONTROLS), action="append")
    parser.add_argument("--no-control", dest="controls", action="store_false")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--keep", action="store_true", help="what controls have left")
    arguments = parser.parse_args()
    began = time.monotonic()
    print(f"seed {arguments.seed}", flush=True)
    try:
        good = run(arguments)
    except (NoServer, NoNetwork) as missing:
        print(missing)
        return 1
    print(f"\n{'passed' if good else 'FAILED'} in {(time.monotonic() - began) / 60:.0f} min")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
