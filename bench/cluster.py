"""`make cluster-bench`: what a PostgreSQL costs, what a second gateway brings, and how late one gateway learns
of another.

Everything is measured on servers and gateways of its own, each a process; the server syncs to its disk. Only
ratios and distances are held against bars, each in the same run. A machine that does something else, or has two
cores for three processes, makes them worse: run it alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from tests.cluster.server import NoServer, Server, serving

from bench.cluster_distances import Distances, measure_distances
from bench.guests import PLAIN

SESSIONS = 64
ONE_WAY_S = 0.00025


class Bar(NamedTuple):
    name: str
    found: float
    unit: str
    bar: float
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.found >= self.bar if self.at_least else self.found <= self.bar


class Worker:
    def __init__(self, folder: Path, url: str, name: str, turns: int, text: str) -> None:
        place = folder / f"worker-{name or 'alone'}-{time.monotonic_ns()}"
        place.mkdir()
        words = [str(place), url, name, str(SESSIONS), str(turns), text]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.cluster_worker", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_for_it(self) -> None:
        self._read("ready")

    def begin(self) -> None:
        self._say()

    def rate(self) -> float:
        return float(self._read("").split()[0])

    def close(self) -> None:
        self._say()
        self._process.wait(30)

    def _say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _read(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(word) or not line:
            raise RuntimeError(f"a worker has ended: {line!r}")
        return line


class Turns:
    """Turns a second over 64 sessions, on one or several gateways."""

    def __init__(self, folder: Path, server: Server, turns: int, text: str) -> None:
        self._folder, self._server, self._turns, self._text = folder, server, turns, text
        self._databases = 0

    def on_file(self) -> float:
        return self._measure("", [""])

    def on_postgresql(self) -> float:
        return self._measure(self._fresh(), [""])

    def on_gateways(self, count: int) -> float:
        return self._measure(self._fresh(), [f"g{number}" for number in range(count)])

    def far_away(self) -> float:
        url = self._fresh()
        with _delaying(self._server.port) as port:
            return self._measure(url.replace(f":{self._server.port}/", f":{port}/"), [""])

    def _fresh(self) -> str:
        self._databases += 1
        name = f"bench{self._databases}"
        self._server.make_database(name)
        return f"{self._server.url}/{name}"

    def _measure(self, url: str, names: Sequence[str]) -> float:
        """The turns a second of all workers together. Each reports when it is ready, and all begin at once."""
        workers = []
        for name in names:  # one after the other: the first makes the tables
            workers.append(Worker(self._folder, url, name, self._turns, self._text))
            workers[-1].wait_for_it()
        for worker in workers:
            worker.begin()
        rates = [worker.rate() for worker in workers]
        for worker in workers:
            worker.close()
        return sum(rates)


@contextmanager
def _delaying(port: int) -> Generator[int]:
    words = [sys.executable, "-m", "bench.delaying", str(port), str(ONE_WAY_S)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def best_ratio(
    tries: int, one: Callable[[], float], other: Callable[[], float]
) -> tuple[float, float, float]:
    """The ratio of the best of several tries of each, taken alternately, so that a busy minute meets both;
    and both values."""
    pairs = [(one(), other()) for _ in range(tries)]
    ones, others = zip(*pairs, strict=True)
    return max(ones) / max(others), max(ones), max(others)


def throughput(folder: Path, tries: int, turns: int, text: str) -> list[Bar]:
    with serving({"fsync": "on", "full_page_writes": "on"}) as server:
        at = Turns(folder, server, turns, text)
        served = best_ratio(tries, at.on_postgresql, at.on_file)
        both = best_ratio(tries, partial(at.on_gateways, 2), partial(at.on_gateways, 1))
        far = best_ratio(tries, at.far_away, at.on_postgresql)
    for name, (_, one, other) in (
        ("PostgreSQL / file", served),
        ("two gateways / one", both),
        ("0.5 ms away / here", far),
    ):
        print(f"  turns a second, {name}: {one:,.0f} / {other:,.0f}")
    return [
        Bar("turns on PostgreSQL, of those on a file", served[0], "×", 0.4, at_least=True),
        Bar("turns on two gateways, of those on one", both[0], "×", 1.4, at_least=True),
        Bar("turns with 0.5 ms to the server, of those without", far[0], "×", 0.5, at_least=True),
    ]


def p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def distances(folder: Path, tries: int) -> list[Bar]:
    with serving({"fsync": "on", "full_page_writes": "on"}) as server:
        for name in ("heard", "unheard"):
            server.make_database(name)
        found: Distances = anyio.run(
            measure_distances, folder / "heard", f"{server.url}/heard", tries
        )
        deaf: Distances = anyio.run(
            measure_distances, folder / "unheard", f"{server.url}/unheard", tries, "bench.unheard"
        )
    return [
        Bar("a wait by way of another gateway, behind (p95)", p95(found.waits), "ms", 20, False),
        Bar("words on another gateway, behind (p95)", p95(found.deltas), "ms", 10, False),
        Bar("a revocation where it was asked for (most)", max(found.revoked_here), "ms", 50, False),
        Bar("a revocation on another gateway (most)", max(found.revoked_there), "ms", 1000, False),
        Bar("the same without NOTIFY (most)", max(deaf.revoked_there), "ms", 2000, False),
        Bar("a killed gateway's run goes on (most)", max(found.taken_over), "ms", 5000, False),
        Bar("the same without NOTIFY (most)", max(deaf.taken_over), "ms", 5000, False),
    ]


def show(bars: Sequence[Bar]) -> None:
    width = max(len(bar.name) for bar in bars)
    for bar in bars:
        sign = "≥" if bar.at_least else "≤"
        digits = 2 if bar.unit == "×" else 1
        verdict = "" if bar.holds else "   MISSED"
        print(
            f"  {bar.name:{width}}  {bar.found:8.{digits}f} {bar.unit:2}  {sign} {bar.bar:g}{verdict}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster-bench", description=__doc__)
    parser.add_argument("--tries", type=int, default=3, help="of each, the best counts")
    parser.add_argument("--turns", type=int, default=1_280, help="of a gateway in one try")
    parser.add_argument("--distances", type=int, default=100, help="waits and replies measured")
    parser.add_argument("--model-ms", type=float, default=0, help="what the model takes to answer")
    parser.add_argument("--only", choices=("turns", "distances"))
    given = parser.parse_args()
    text = f"wait: {given.model_ms / 1000:g}|{PLAIN}" if given.model_ms else PLAIN
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    bars: list[Bar] = []
    try:
        with tempfile.TemporaryDirectory(prefix="crossclaw-cluster-bench-") as folder, ExitStack():
            for name in ("heard", "unheard"):
                (Path(folder) / name).mkdir()
            if given.only != "distances":
                bars += throughput(Path(folder), given.tries, given.turns, text)
            if given.only != "turns":
                bars += distances(Path(folder), given.distances)
    except NoServer as missing:
        print(missing)
        return 1
    show(bars)
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
