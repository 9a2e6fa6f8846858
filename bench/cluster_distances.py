"""The delay until one gateway learns what happens on another: waits, words, revocations, and the runs of one
that was killed."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.cluster.test_gateway_processes import Program, running
from tests.wire.served_gateway import TOKEN, ServedGateway
from tests.wire.serving import SignedDevice
from tests.wire.test_pairing import WRITE, knocking, paired

from crossclaw.client import connect_async
from crossclaw.client.asynchronous import AsyncGatewayClient

FEW = 10  # of what takes seconds
SOON_S = 60.0


class Distances(msgspec.Struct, frozen=True):
    """All in milliseconds."""

    waits: list[float] = []
    deltas: list[float] = []
    revoked_here: list[float] = []
    revoked_there: list[float] = []
    taken_over: list[float] = []


def ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def served_gateway(program: Program) -> ServedGateway:
    return ServedGateway(program.url, int(program.url.rsplit(":", 1)[1]), Path())


@asynccontextmanager
async def client_of(program: Program) -> AsyncGenerator[AsyncGatewayClient]:
    scopes = ["operator.admin"]
    async with connect_async(program.url, token=TOKEN, environ={}, scopes=scopes) as client:
        yield client


async def measure_distances(
    folder: Path, url: str, tries: int, module: str = "crossclaw"
) -> Distances:
    async with AsyncExitStack() as stack:
        a, b = [stack.enter_context(running(folder, url, name, module)) for name in "ab"]
        here = await stack.enter_async_context(client_of(a))
        there = await stack.enter_async_context(client_of(b))
        await _see_each_other(here, 2)
        found = Distances(*await _behind(here, there, tries))
        for number in range(min(FEW, tries)):
            await _revoke(a, b, here, found)
            await _kill(folder, url, f"k{number}", there, found, module)
        return found


async def _see_each_other(client: AsyncGatewayClient, count: int) -> None:
    """Waits until all are there, and their links are made."""
    with anyio.fail_after(SOON_S):
        while len((await client.call("gateways.list"))["gateways"]) < count:  # noqa: ASYNC110
            await anyio.sleep(0.1)
        await anyio.sleep(2.5)


async def _behind(
    here: AsyncGatewayClient, there: AsyncGatewayClient, tries: int
) -> tuple[list[float], list[float]]:
    """The delays of the same run, waited for and listened to by way of both gateways. One that the other
    gateway has taken (it may, where it is faster) is known there first, and is not counted."""
    waits = dict[str, float]()
    heard: dict[str, dict[str, float]] = {"here": {}, "there": {}}

    async def listen(client: AsyncGatewayClient, place: str) -> None:
        async with client.events() as events:
            async for event in events:
                if event.name == "chat" and event.payload.get("state") == "delta":
                    heard[place].setdefault(event.payload["runId"], time.perf_counter())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, here, "here")
        tasks.start_soon(listen, there, "there")
        await anyio.sleep(0.2)
        for number in range(tries):
            sent = await here.submit("wait: 0.05\nsay: it is a fine day", f"agent:main:d{number}")
            waits[sent.run_id] = await _wait_on_both(here, there, sent.run_id)
        await anyio.sleep(1.0)
        tasks.cancel_scope.cancel()
    deltas = {
        run_id: (heard["there"][run_id] - at) * 1000
        for run_id, at in heard["here"].items()
        if run_id in heard["there"]
    }
    if len(deltas) < tries * 0.9:
        raise RuntimeError(f"of {tries} replies only {len(deltas)} were heard on both gateways")
    taken_here = [run_id for run_id, behind in deltas.items() if behind > 0]
    if len(taken_here) < tries * 0.5:
        raise RuntimeError(
            f"of {tries} runs {len(taken_here)} were carried out where they were sent"
        )
    return [max(0.0, waits[each]) for each in taken_here], [deltas[each] for each in taken_here]


async def _wait_on_both(here: AsyncGatewayClient, there: AsyncGatewayClient, run_id: str) -> float:
    over: dict[str, float] = {}

    async def wait(client: AsyncGatewayClient, place: str) -> None:
        asked = {"runId": run_id, "timeoutMs": 30_000}
        answer = await client.call("agent.wait", asked, timeout_s=40)
        assert answer["status"] == "ok", answer
        over[place] = time.perf_counter()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, here, "here")
        tasks.start_soon(wait, there, "there")
    return (over["there"] - over["here"]) * 1000


async def _revoke(a: Program, b: Program, owner: AsyncGatewayClient, found: Distances) -> None:
    """A device that is connected to both: how long after the acknowledgement each connection lives."""
    device, closed = SignedDevice(), dict[str, float]()
    token = await paired(served_gateway(a), device, scopes=[WRITE])
    begun = {"here": anyio.Event(), "there": anyio.Event()}

    async def stay(program: Program, place: str) -> None:
        while True:  # another gateway knows the pairing a moment later
            async with knocking(served_gateway(program), device, token=token, scopes=[WRITE]) as (
                peer,
                answer,
            ):
                if answer["ok"]:
                    begun[place].set()
                    await peer.closed(SOON_S)
                    closed[place] = time.perf_counter()
                    return
            await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stay, a, "here")
        tasks.start_soon(stay, b, "there")
        for each in begun.values():
            await each.wait()
        await owner.call("device.token.revoke", {"deviceId": device.id, "role": "operator"})
        acknowledged = time.perf_counter()
    found.revoked_here.append(max(0.0, (closed["here"] - acknowledged) * 1000))
    found.revoked_there.append(max(0.0, (closed["there"] - acknowledged) * 1000))


async def _kill(
    folder: Path, url: str, name: str, there: AsyncGatewayClient, found: Distances, module: str
) -> None:
    """The time from `kill -9` until another gateway has begun with the run again."""
    with running(folder, url, name, module) as victim:
        async with client_of(victim) as client:
            await _until_it_takes_runs(client)
            key = await _begin_on(name, client, there)
        began = time.perf_counter()
        victim.process.kill()
        with anyio.fail_after(SOON_S):
            while not await _goes_on(there, name):  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.02)
        found.taken_over.append(ms_since(began))
        await there.call("chat.abort", {"sessionKey": key})


async def _until_it_takes_runs(client: AsyncGatewayClient) -> None:
    with anyio.fail_after(SOON_S):
        while (await client.call("gateways.list")).get("whyNoRuns"):  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def _begin_on(name: str, client: AsyncGatewayClient, there: AsyncGatewayClient) -> str:
    """Begins a run that this gateway carries out; returns its session. If another gateway was faster, it
    tries again."""
    for attempt in range(20):
        key = f"agent:main:{name}-{attempt}"
        await client.submit("wait: 30\nsay: late", key)
        with anyio.fail_after(SOON_S):
            while not await _runs_on(there, lambda each: True):  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.02)
        if await _runs_on(there, lambda each: each["id"] == name):
            return key
        await there.call("chat.abort", {"sessionKey": key})
    raise RuntimeError(f"gateway {name} was never the first to take a run")


async def _goes_on(there: AsyncGatewayClient, dead: str) -> bool:
    return await _runs_on(there, lambda each: each["id"] != dead and each["leaseMs"] > 0)


async def _runs_on(there: AsyncGatewayClient, which: Any) -> bool:
    listed = await there.call("gateways.list")
    return any(each["runs"] for each in listed["gateways"] if which(each))
