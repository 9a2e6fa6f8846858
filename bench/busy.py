"""Busy: how soon a gateway answers one client while many sessions work.

The work comes from a process of its own, so that what is measured is the gateway and not a client that has no
time to read its answers.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from bench import reference
from bench.guests import PLAIN
from bench.served import Served, served
from bench.stores import Stores
from bench.wire import Wire, wired
from bench.work import Row, Spent, Stopwatch, Work, spread
from crossclaw.config import Paths

SESSIONS = 64
ASKED, ASKED_EVERY_S = 200, 0.02
MALFORMED = '{"type":"req","id":"malformed","method":7,"params":"\\ud800"}'


@contextmanager
def at_work(gateway: Served) -> Generator[None]:
    """Sessions that talk without a pause, until the block is left."""
    worker = subprocess.Popen(
        [sys.executable, "-m", __name__, str(gateway.port)],
        cwd=reference.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        if worker.stdout.readline().strip() != "at work":
            raise RuntimeError("the sessions do not work")
        yield
    finally:
        worker.kill()
        worker.communicate()


async def _answers(paths: Paths) -> Spent:
    health, refused = Stopwatch(), Stopwatch()
    with served(paths) as gateway, at_work(gateway):
        async with wired(gateway) as wire:
            watch = Stopwatch(gateway.cpu_s)
            for _ in range(ASKED):
                with health.piece():
                    await wire.ask("health", {})
                with refused.piece():
                    await wire.refused(MALFORMED, "malformed")
                await anyio.sleep(ASKED_EVERY_S)
            spent = watch.stop(2 * ASKED)
    figures = {"health": spread(health.each_ms)["p95"], "refused": spread(refused.each_ms)["p95"]}
    return Spent(figures, spent.wall_ms, spent.cpu_ms)


def answers(stores: Stores) -> Spent:
    return anyio.run(_answers, stores.fresh())


async def _work(gateway: Served) -> None:
    async with wired(gateway) as wire:
        keys = [f"agent:main:busy{number}" for number in range(SESSIONS)]
        await wire.talk(keys, 1, PLAIN, Stopwatch())
        print("at work", flush=True)
        while True:
            await _turns(wire, keys)


async def _turns(wire: Wire, keys: list[str]) -> None:
    await wire.talk(keys, 1_000, PLAIN, Stopwatch())


WORKS = (
    Work(
        answers,
        None,
        (
            Row(f"gateway: health while {SESSIONS} sessions work, p95", "health", "ms", bar=100),
            Row("gateway: a malformed frame refused meanwhile, p95", "refused", "ms", bar=100),
        ),
    ),
)

if __name__ == "__main__":
    anyio.run(_work, Served(int(sys.argv[1]), 0, 0.0))
