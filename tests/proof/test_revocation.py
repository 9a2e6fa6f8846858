"""From the moment that a changed token is acknowledged: how long each open door goes on by the old one.

`make test` sees that each ends; `make proof` also measures it, beside a run that has nothing to do with it."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.proof.size import FULL
from tests.wire.housed import Housed
from tests.wire.revoked import NEW, asking, come_in, http, patch, say, serve_file
from tests.wire.serving import Peer

TRIES = 20 if FULL else 1
REFUSED_WITHIN_MS = 50.0
SLOW = "wait: 3000\nsay: too late"

Door = Callable[[Housed, anyio.Event], Awaitable[None]]
"""Comes in, says that it is in, and returns when the door is closed to it."""


async def idle_connection(housed: Housed, begun: anyio.Event) -> None:
    async with come_in(housed) as peer:
        begun.set()
        await peer.closed()


async def waiting_request(housed: Housed, begun: anyio.Event) -> None:
    async with come_in(housed) as peer:
        await say(peer, "waited-for", SLOW, "agent:main:waiting")
        await peer.send("agent.wait", {"runId": "waited-for", "timeoutMs": 60_000})
        begun.set()
        await peer.closed()


async def subscribed_connection(housed: Housed, begun: anyio.Event) -> None:
    async with come_in(housed) as peer:
        await peer.ask("sessions.subscribe", {})
        begun.set()
        await peer.closed()


async def http_stream(housed: Housed, begun: anyio.Event) -> None:
    try:
        async with (
            http(housed) as old,
            old.stream("POST", "/v1/chat/completions", json=asking(SLOW, stream=True)) as answer,
        ):
            async for _piece in answer.aiter_bytes():
                begun.set()
    except httpx2.RemoteProtocolError:
        return


async def http_request(housed: Housed, begun: anyio.Event) -> None:
    async with http(housed) as old, anyio.create_task_group() as tasks:

        async def soon() -> None:
            await anyio.sleep(0.3)
            begun.set()

        tasks.start_soon(soon)
        answer = await old.post("/v1/chat/completions", json=asking(SLOW, stream=False))
        assert answer.status_code == 401


DOORS: list[Door] = [
    idle_connection,
    waiting_request,
    subscribed_connection,
    http_stream,
    http_request,
]


async def _quiet_run(peer: Peer) -> None:
    await say(peer, "quiet", "wait: 2\nsay: nothing to do with it", "agent:main:quiet")


async def over_after_ms(folder: Path, doors: list[Door]) -> dict[str, float]:
    """For each door, how long after the acknowledgement it was still open; nothing if it closed before."""
    over: dict[str, float] = {}

    async def hold(door: Door, begun: anyio.Event) -> None:
        await door(housed, begun)
        over[door.__name__] = time.monotonic()

    async with serve_file(folder) as housed, come_in(housed) as owner:
        await _quiet_run(owner)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for door in doors:
                    begun = anyio.Event()
                    tasks.start_soon(hold, door, begun)
                    await begun.wait()
                assert (await patch(owner, {"gateway": {"auth": {"token": NEW}}}))["ok"]
                acknowledged = time.monotonic()
        async with http(housed) as old:
            assert (await old.get("/v1/models")).status_code == 401
    return {name: max(0.0, (at - acknowledged) * 1000) for name, at in over.items()}


@pytest.mark.spec("B3")
@pytest.mark.timeout(600)
async def test_every_open_door_is_closed_to_an_old_token(tmp_path: Path) -> None:
    found: dict[str, list[float]] = {}
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, late_ms in (await over_after_ms(folder, DOORS)).items():
            found.setdefault(name, []).append(late_ms)

    assert set(found) == {door.__name__ for door in DOORS}
    for name, late in sorted(found.items()):
        median, most = sorted(late)[len(late) // 2], max(late)
        print(f"{name}: {median:.1f} ms in the middle, {most:.1f} ms at most")
        if FULL:
            assert median <= REFUSED_WITHIN_MS, (name, late)
