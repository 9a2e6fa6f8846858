"""The gateway as its clients use it: a process of its own, asked over its WebSocket.

The CPU times are the gateway's; those of the client and of the model are not in them.
"""

import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from statistics import median

import anyio
import msgspec

from bench import reference
from bench.guests import PLAIN
from bench.served import COMMAND, Config, Served, instant_model, served
from bench.stores import Stores
from bench.wire import Wire, idle_connection, wired
from bench.work import Row, Spent, Stopwatch, Work, middle
from crossclaw.config import Paths

TURNS_ALONE, TURNS, TURNS_OVER_HTTP = 300, 4_000, 1_000
AT_ONCE, MANY_AT_ONCE = 64, 1_000
PAGE, READS = 200, 200
FEW, STORED = 10_000, 100_000
CONNECTIONS, CONNECTIONS_AT_ONCE = 1_000, 64
SENDS, SPAWNS = 100, 100
STARTS, HELPS = 5, 10
LOAD_TURNS_EACH = 3
SEND = (
    'tool: sessions_send {"sessionKey": "$", "message": "say: Two o\'clock.",'
    ' "timeoutSeconds": 30}\nthen:\nsay: It answered.'
)


class Rows(msgspec.Struct):
    """The number of rows in an answer to `sessions.list`."""

    count: int


def keys(count: int, prefix: str = "bench") -> list[str]:
    return [f"agent:main:{prefix}{number}" for number in range(count)]


# ── turns ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _scripted() -> Generator[Config]:
    yield {}


MODELS = {"scripted": _scripted, "http": instant_model}


@asynccontextmanager
async def _warm(paths: Paths, config: Config) -> AsyncGenerator[tuple[Served, Wire]]:
    with served(paths, config) as gateway:
        async with wired(gateway) as wire:
            await wire.talk(keys(4, "warm"), 3, PLAIN, Stopwatch())
            wire.answered_ms.clear()
            yield gateway, wire


async def _turns(paths: Paths, config: Config, sessions: int, turns: int) -> Spent:
    async with _warm(paths, config) as (gateway, wire):
        watch = Stopwatch(gateway.cpu_s)
        await wire.talk(keys(sessions), turns // sessions, PLAIN, watch)
        return watch.stop()


async def _turns_alone(paths: Paths, config: Config) -> Spent:
    """Turns one after the other; in several sessions, so that the histories stay short."""
    async with _warm(paths, config) as (gateway, wire):
        watch = Stopwatch(gateway.cpu_s)
        for key in keys(10):
            await wire.talk([key], TURNS_ALONE // 10, PLAIN, watch)
        spent = watch.stop()
        figures = {**spent.figures, "answered": median(wire.answered_ms)}
        return Spent(figures, spent.wall_ms, spent.cpu_ms)


def turns(model: str, sessions: int, count: int, stores: Stores) -> Spent:
    with MODELS[model]() as config:
        return anyio.run(_turns, stores.fresh(), config, sessions, count)


def turns_alone(model: str, stores: Stores) -> Spent:
    with MODELS[model]() as config:
        return anyio.run(_turns_alone, stores.fresh(), config)


async def _sends(paths: Paths) -> Spent:
    async with _warm(paths, {}) as (gateway, wire):
        await wire.talk(keys(SENDS, "target"), 1, PLAIN, Stopwatch())
        watch = Stopwatch(gateway.cpu_s)
        for key, target in zip(keys(SENDS), keys(SENDS, "target"), strict=True):
            await wire.talk([key], 1, SEND.replace("$", target), watch)
        spent = watch.stop()
        history = bytes(await wire.ask("chat.history", {"sessionKey": key}))
        assert b'"isError":true' not in history, history
        return spent


def sends(stores: Stores) -> Spent:
    """The time from a message that makes one session ask another to the words after its answer: two turns of
    the model here, one there.

    Each pair of sessions is used once: the rounds that follow a send go on behind it, and the next one would
    wait for them. The CPU time is theirs as well.
    """
    return anyio.run(_sends, stores.fresh())


async def _spawns(paths: Paths) -> Spent:
    async with _warm(paths, {}) as (gateway, wire):
        answered = Stopwatch()
        for key in keys(10):
            await wire.turn(key, PLAIN)
            await wire.ask("sessions.messages.subscribe", {"key": key})
        await wire.spawn(key, PLAIN, Stopwatch())
        watch = Stopwatch(gateway.cpu_s)
        for key in keys(10):
            for _ in range(SPAWNS // 10):
                with watch.piece():
                    await wire.spawn(key, PLAIN, answered)
        spent = watch.stop()
        figures = {**spent.figures, "answered": median(answered.each_ms)}
        return Spent(figures, spent.wall_ms, spent.cpu_ms)


def spawns(stores: Stores) -> Spent:
    """The time from the request to the child's report in its parent's chat: a turn of the child's for its
    task, one for its announce."""
    return anyio.run(_spawns, stores.fresh())


# ── reading ────────────────────────────────────────────────────────────────────────────────────


async def _lists(paths: Paths) -> Spent:
    with served(paths) as gateway:
        async with wired(gateway) as wire:
            params = {"limit": PAGE}
            answer = msgspec.json.decode(await wire.ask("sessions.list", params), type=Rows)
            assert answer.count == PAGE
            watch = Stopwatch(gateway.cpu_s)
            for _ in range(READS):
                with watch.piece():
                    await wire.ask("sessions.list", params)
            return watch.stop()


def lists(sessions: int, stores: Stores) -> Spent:
    return anyio.run(_lists, stores.with_sessions(sessions))


# ── starting, and what it holds ────────────────────────────────────────────────────────────────


def starts(sessions: int, stores: Stores) -> Spent:
    """The time of a start. The first is not counted if there are sessions: it brings the store up to date."""
    paths = stores.with_sessions(sessions) if sessions else stores.fresh()
    spent = [_start(paths) for _ in range(STARTS + 1)][1 if sessions else 0 :]
    return middle(spent)


def _start(paths: Paths) -> Spent:
    with served(paths) as gateway:
        return Spent({}, gateway.started_s * 1_000, gateway.cpu_s() * 1_000)


async def _first_turns(stores: Stores, pause_s: float) -> Spent:
    watch = Stopwatch()
    with instant_model() as config:
        for _ in range(STARTS):
            with served(stores.fresh(), config) as gateway:
                async with wired(gateway) as wire:
                    await anyio.sleep(pause_s)
                    with watch.piece():
                        await wire.turn("agent:main:first", PLAIN)
    return Spent({"best": min(watch.each_ms)})


def first_turns(pause_s: float, stores: Stores) -> Spent:
    """The first message of a process, whose model is asked over HTTP: what is loaded for it only then is in it."""
    return anyio.run(_first_turns, stores, pause_s)


def helps(_stores: Stores) -> Spent:
    spent = []
    for _ in range(HELPS):
        watch = Stopwatch(reference.children_cpu_s)
        subprocess.run([COMMAND, "--help"], check=True, stdout=subprocess.DEVNULL)
        spent.append(watch.stop(1))
    return middle(spent)


async def _memory(paths: Paths) -> Spent:
    with served(paths) as gateway:
        idle = gateway.resident_mb()
        async with wired(gateway) as wire:
            await wire.talk(keys(MANY_AT_ONCE), LOAD_TURNS_EACH, PLAIN, Stopwatch())
        return Spent({"idle": idle, "loaded": gateway.resident_mb()})


def memory(stores: Stores) -> Spent:
    return anyio.run(_memory, stores.fresh())


async def _connections(paths: Paths) -> Spent:
    with served(paths) as gateway:
        async with AsyncExitStack() as stack:
            await _connect(gateway, stack, CONNECTIONS_AT_ONCE)  # what the first ones need once
            before, watch = gateway.resident_mb(), Stopwatch(gateway.cpu_s)
            await _connect(gateway, stack, CONNECTIONS)
            spent = watch.stop(CONNECTIONS)
            each_kb = (gateway.resident_mb() - before) * 1_000 / CONNECTIONS
        return Spent({**spent.figures, "each": each_kb}, spent.wall_ms, spent.cpu_ms)


async def _connect(gateway: Served, stack: AsyncExitStack, count: int) -> None:
    room = anyio.CapacityLimiter(CONNECTIONS_AT_ONCE)

    async def connect() -> None:
        async with room:
            socket = await idle_connection(gateway)
        stack.push_async_callback(socket.close)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(connect)


def connections(stores: Stores) -> Spent:
    return anyio.run(_connections, stores.fresh())


WORKS = (
    Work(
        partial(turns_alone, "scripted"),
        reference.COMMIT,
        (
            Row("gateway: chat.send answered", "answered", "ms", bar=2.0),
            Row("gateway: chat.send to final", "median", "ms", bar=4.0),
            Row("gateway: chat.send to final, p95", "p95", "ms"),
        ),
    ),
    Work(
        partial(turns_alone, "http"),
        reference.COMMIT,
        (
            Row("gateway: to final, model over HTTP", "median", "ms", bar=8.0),
            Row("gateway: to final, model over HTTP, p95", "p95", "ms", bar=16.0),
        ),
    ),
    Work(
        partial(turns, "scripted", AT_ONCE, TURNS),
        reference.GROUPED,
        (Row(f"gateway: turns, {AT_ONCE} sessions at once", "rate", "turns/s", bar=1_000),),
    ),
    Work(
        partial(turns, "http", AT_ONCE, TURNS_OVER_HTTP),
        reference.GROUPED,
        (Row(f"gateway: turns over HTTP, {AT_ONCE} at once", "rate", "turns/s", bar=250),),
    ),
    Work(
        partial(turns, "scripted", MANY_AT_ONCE, TURNS),
        reference.GROUPED,
        (
            Row(f"gateway: turns, {MANY_AT_ONCE:,} sessions, none fails", "rate", "turns/s"),
            Row(f"gateway: one turn among {MANY_AT_ONCE:,}, p99", "p99", "ms"),
        ),
    ),
    Work(
        sends,
        reference.COMMIT,
        (
            Row("gateway: sessions_send with its answer", "median", "ms", bar=16.0),
            Row("gateway: sessions_send with its answer, p95", "p95", "ms"),
        ),
    ),
    Work(
        spawns,
        reference.COMMIT,
        (
            Row("gateway: sessions_spawn accepted", "answered", "ms", bar=3.0),
            Row("gateway: sessions_spawn to its report", "median", "ms", bar=30.0),
            Row("gateway: sessions_spawn to its report, p95", "p95", "ms"),
        ),
    ),
    *(
        Work(
            partial(lists, count),
            reference.newest_sessions(lambda _, count=count: count, PAGE),  # type: ignore[misc]
            (Row(f"gateway: sessions.list, {PAGE} of {count:,}", "median", "ms", bar=2.0),),
        )
        for count in (FEW, STORED)
    ),
    Work(
        connections,
        None,
        (
            Row("gateway: memory of an idle connection", "each", "kB", bar=40),
            Row("gateway: connections opened", "rate", "conn/s"),
        ),
    ),
    Work(
        memory,
        reference.MEMORY,
        (
            Row("gateway: memory, idle", "idle", "MB", bar=70),
            Row(f"gateway: memory after {MANY_AT_ONCE:,} sessions' load", "loaded", "MB", bar=160),
        ),
    ),
    Work(
        partial(starts, 0),
        reference.START,
        (Row("gateway: start to first health", "median", "ms", bar=400),),
    ),
    Work(
        partial(starts, STORED),
        reference.START,
        (Row(f"gateway: the same with {STORED:,} sessions", "median", "ms", bar=600),),
    ),
    Work(
        partial(first_turns, 0.0),
        reference.START,
        (Row("gateway: first turn over HTTP, at once", "best", "ms"),),
    ),
    Work(
        partial(first_turns, 1.0),
        reference.START,
        (Row("gateway: first turn over HTTP, after a second", "best", "ms", bar=60),),
    ),
    Work(helps, reference.START, (Row("gateway: crossclaw --help", "median", "ms", bar=75),)),
)
