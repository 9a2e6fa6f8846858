"""Ticks under kill -9: every one of every job runs once or is written down as missed, never both.

    python -m tests.crash.ticks --kills 50

A victim keeps twenty fast jobs and is killed at random moments, some of them while it starts. At the
end the ledger is held against the schedules themselves. Then a build that takes a tick and submits its
run in two steps is tried in the same way; if it is not caught, the rig is blind.
"""

import argparse
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import anyio
import apsw

from crossclaw.app import Gateway
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.jobs import Tick, TickId
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.ledger.jobs import TICKS_KEPT, TakeTick
from crossclaw.schedule.clockwork import Clockwork
from crossclaw.testing import ScriptedProvider, open_gateway

JOBS = 20
EVERY_MS = (100, 900)
LIFE_S = (0.02, 0.9)  # the shorter ones end before the clockwork has begun
START_S_MAX = 30.0
SETTLE_S_MAX = 30.0
CONTROL_KILLS = 12  # each leaves two findings or so
OWNER = person_principal("rig", {"operator.admin"})


# ── the victim ─────────────────────────────────────────────────────────────────────────────────


def victim(folder: str, seed: int, broken: bool, settling: bool) -> None:
    if broken:
        Clockwork._begin = _in_two_steps  # type: ignore[method-assign]
    anyio.run(_live, Path(folder), Random(seed), settling)


async def _live(folder: Path, dice: Random, settling: bool) -> None:
    provider = ScriptedProvider(lambda _: "done", delay_s=0.01)
    async with open_gateway(folder, provider, clock=SystemClock(), inline=False) as gateway:
        if not await gateway.ledger.list_jobs():
            await _make_jobs(gateway, dice)
        (folder / "ready").touch()
        if not settling:
            await anyio.sleep_forever()
        await _settle(gateway)


async def _make_jobs(gateway: Gateway, dice: Random) -> None:
    caller = Caller(principal=OWNER)
    for number in range(JOBS):
        main = number % 5 == 0
        payload = (
            {"kind": "systemEvent", "text": f"job {number}"}
            if main
            else {"kind": "agentTurn", "message": f"job {number}"}
        )
        job = {
            "name": f"job {number}",
            "schedule": {"kind": "every", "everyMs": dice.randint(*EVERY_MS)},
            "payload": payload,
            "wakeMode": "next-heartbeat" if number % 10 == 0 else "now",
        }
        await gateway.door.dispatch(caller, "cron.add", job)


async def _settle(gateway: Gateway) -> None:
    """No new ticks, and those under way to their ends."""
    caller = Caller(principal=OWNER)
    await anyio.sleep(0.5)
    for job in await gateway.ledger.list_jobs():
        off = {"id": job.job_id, "patch": {"enabled": False}}
        await gateway.door.dispatch(caller, "cron.update", off)
    # The runs, not the ticks: one that a broken build left without a run would never end.
    while await gateway.ledger.lanes_with_work():  # noqa: ASYNC110
        await anyio.sleep(0.05)


async def _in_two_steps(self: Any, job: Any, at: int, next_at: Any, missed: Any, **_: Any) -> str:
    arrival = await self._job_runs.begin(job, TickId(job.job_id, at))
    tick = Tick(job_id=job.job_id, at=at, status="running", run_id=arrival.run_id)
    await self._ledger.do(TakeTick(job=job, tick=tick, next_at=next_at, missed=missed))
    await anyio.sleep(0.02)
    await self._intake.require(arrival)
    return str(arrival.run_id)


# ── the driver ─────────────────────────────────────────────────────────────────────────────────


def rehearse(folder: Path, kills: int, seed: int, *, broken: bool = False) -> list[str]:
    """Kill so often, let the last one settle, and answer what is wrong."""
    dice = Random(seed)
    _one_life(folder, dice, broken, LIFE_S[1], wait=True)
    for _ in range(kills):
        _one_life(folder, dice, broken, dice.uniform(*LIFE_S), wait=dice.random() < 0.7)
    last = _run(folder, dice, broken, settling=True)
    last.join(SETTLE_S_MAX)
    stuck = ["lost: runs that do not end"] if last.is_alive() else []
    last.kill()
    last.join()
    return stuck + findings(folder / "state" / "crossclaw.sqlite")


def _one_life(folder: Path, dice: Random, broken: bool, life_s: float, *, wait: bool) -> None:
    (folder / "ready").unlink(missing_ok=True)
    process = _run(folder, dice, broken)
    until = time.monotonic() + START_S_MAX
    while wait and not (folder / "ready").exists() and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(life_s)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def _run(folder: Path, dice: Random, broken: bool, *, settling: bool = False) -> Any:
    arguments = (str(folder), dice.randrange(2**32), broken, settling)
    process = multiprocessing.get_context("fork").Process(target=victim, args=arguments)
    process.start()
    return process


# ── the verdict ────────────────────────────────────────────────────────────────────────────────


def findings(path: Path) -> list[str]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found: list[str] = []
    jobs = list(
        db.execute("SELECT job_id, json_extract(spec, '$.schedule.everyMs'), created_at FROM jobs")
    )
    if len(jobs) != JOBS:
        found.append(f"lost: {len(jobs)} of {JOBS} jobs are there")
    for job_id, every_ms, made_at in jobs:
        found += _of_job(db, job_id, every_ms, made_at)
    orphans = db.execute(
        "SELECT run_id FROM runs WHERE kind = 'cron' AND run_id NOT IN "
        "(SELECT run_id FROM job_slots WHERE run_id IS NOT NULL)"
    )
    oldest = dict(
        db.execute(
            "SELECT job_id, min(slot_at) FROM job_slots GROUP BY job_id HAVING count(*) >= ?",
            (TICKS_KEPT,),
        )
    )
    return found + [
        f"doubled: run {run_id} has no tick"
        for (run_id,) in orphans
        if not _is_forgotten(run_id, oldest)
    ]


def _is_forgotten(run_id: str, oldest: dict[str, int]) -> bool:
    """Whether the log of its job begins later: a job keeps its last ticks only."""
    _, job_id, at = run_id.split(":")
    return int(at) < oldest.get(job_id, 0)


def _of_job(db: apsw.Connection, job_id: str, every_ms: int, made_at: int) -> list[str]:
    ticks = list(
        db.execute(
            # A run that was under way at three kills is given up, and says so: that is an end too.
            "SELECT slot_at, iif(summary LIKE 'given up after%', 'ok', status), run_id "
            "FROM job_slots WHERE job_id = ? ORDER BY slot_at",
            (job_id,),
        )
    )
    found = [
        f"lost: {job_id} ends its tick {at} as {status}"
        for at, status, _ in ticks
        if status not in ("ok", "missed")
    ]
    gaps = [at for at, _, _ in ticks if (at - made_at) % every_ms]
    found += [f"doubled: {job_id} has a tick at {at}, which is none" for at in gaps]
    if ticks:
        begin = made_at + every_ms if len(ticks) < TICKS_KEPT else ticks[0][0]
        expected = range(begin, ticks[-1][0] + 1, every_ms)
        missing = set(expected) - {at for at, _, _ in ticks}
        found += [f"lost: {job_id} knows nothing of its tick {at}" for at in sorted(missing)]
    for at, status, run_id in ticks:
        said = _messages(db, run_id) if run_id else 0
        if status == "ok" and said != 1:
            kind = "lost" if said == 0 else "doubled"
            found.append(f"{kind}: tick {at} of {job_id} is {said} times in its transcript")
    return found


def _messages(db: apsw.Connection, run_id: str) -> int:
    row = db.execute(
        "SELECT count(*) FROM entries WHERE run_id = ? AND role = 'user'", (run_id,)
    ).fetchone()
    return int(row[0]) if row else 0


def _counted(path: Path) -> Counter[str]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    return Counter(dict(db.execute("SELECT status, count(*) FROM job_slots GROUP BY status")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.ticks")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        found = rehearse(Path(one), arguments.kills, arguments.seed)
        counts = _counted(Path(one) / "state" / "crossclaw.sqlite")
        print(f"ticks: seed {arguments.seed}, {arguments.kills} kills, {dict(counts)}")
        for text in found[:20]:
            print(f"  {text}")
        caught = rehearse(Path(other), CONTROL_KILLS, arguments.seed, broken=True)
    print(f"  {len(found)} findings; a build in two steps gives {len(caught)}")
    return 0 if not found and caught else 1


if __name__ == "__main__":
    sys.exit(main())
