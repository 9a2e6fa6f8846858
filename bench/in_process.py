"""The whole gateway in this process: from a message to the end of the run, with the scripted model."""

from collections.abc import Sequence
from functools import partial

import anyio

from bench import reference
from bench.guests import PLAIN, WITH_TOOL, keys, opened, talk
from bench.stores import LONG_SESSION, Stores
from bench.work import Row, Spent, Stopwatch, Work, middle
from crossclaw.config import Paths
from crossclaw.domain.keys import SessionKey

STORED = 100_000
LONG_TALK = 2_500  # more than a model is shown
TURNS, TURNS_ALONE = 2_000, 200
OPENINGS = 5
WARM = keys(1)
EXPORT_SESSIONS, EXPORT_ENTRIES = 200, 100


async def _talk(paths: Paths, sessions: int, turns: int, text: str) -> Spent:
    async with opened(paths) as gateway:
        await talk(gateway, WARM, 5, text)
        watch = Stopwatch()
        await talk(gateway, keys(sessions), turns // sessions, text, watch.piece)
        return watch.stop()


async def _talk_alone(paths: Paths, sessions: Sequence[SessionKey], text: str) -> Spent:
    """Turns one after the other; in several sessions, so that the histories stay short."""
    async with opened(paths) as gateway:
        await talk(gateway, WARM, 5, text)
        watch = Stopwatch()
        for key in sessions:
            await talk(gateway, [key], TURNS_ALONE // len(sessions), text, watch.piece)
        return watch.stop()


def turns(sessions: int, count: int, text: str, stores: Stores) -> Spent:
    return anyio.run(_talk, stores.fresh(), sessions, count, text)


def turns_alone(text: str, stores: Stores) -> Spent:
    return anyio.run(_talk_alone, stores.fresh(), keys(10), text)


def turns_in_full_store(stores: Stores) -> Spent:
    return anyio.run(_talk_alone, stores.with_sessions(STORED), keys(10), PLAIN)


def turns_after_long_talk(stores: Stores) -> Spent:
    paths = stores.with_transcripts(1, LONG_TALK)
    return anyio.run(_talk_alone, paths, [SessionKey.named("main", LONG_SESSION)], PLAIN)


async def _open(paths: Paths) -> Spent:
    """The time until a gateway serves; closing does not count."""
    spent = []
    for _ in range(OPENINGS):
        watch = Stopwatch()
        async with opened(paths):
            spent.append(watch.stop(1))
    return middle(spent)


def opening(stores: Stores) -> Spent:
    return anyio.run(_open, stores.with_sessions(STORED))


async def _export(paths: Paths) -> Spent:
    watch = Stopwatch()
    async with opened(paths):  # before it serves, a gateway brings the copies up to date
        return watch.stop(EXPORT_SESSIONS * EXPORT_ENTRIES)


def export(stores: Stores) -> Spent:
    return anyio.run(_export, stores.with_transcripts(EXPORT_SESSIONS, EXPORT_ENTRIES))


WORKS = (
    Work(
        opening,
        reference.opening(STORED),
        (Row(f"in process: open with {STORED:,} sessions", "median", "ms", bar=200),),
    ),
    Work(
        partial(turns_alone, PLAIN),
        reference.COMMIT,
        (
            Row("in process: one turn", "median", "ms", bar=4.0),
            Row("in process: one turn, p95", "p95", "ms"),
        ),
    ),
    Work(
        partial(turns_alone, WITH_TOOL),
        reference.COMMIT,
        (
            Row("in process: one turn with a tool call", "median", "ms", bar=4.0),
            Row("in process: one turn with a tool call, p95", "p95", "ms"),
        ),
    ),
    Work(
        turns_after_long_talk,
        reference.COMMIT,
        (Row(f"in process: one turn after {LONG_TALK:,} messages", "median", "ms", bar=4.0),),
    ),
    Work(
        turns_in_full_store,
        reference.COMMIT,
        (Row(f"in process: one turn beside {STORED:,} sessions", "median", "ms", bar=4.0),),
    ),
    Work(
        partial(turns, 64, TURNS, PLAIN),
        reference.GROUPED,
        (Row("in process: turns, 64 sessions at once", "rate", "turns/s", bar=1_000),),
    ),
    Work(
        partial(turns, 64, TURNS, WITH_TOOL),
        reference.GROUPED,
        (Row("in process: turns with a tool call, 64 at once", "rate", "turns/s", bar=1_000),),
    ),
    Work(
        partial(turns, 1_000, TURNS, PLAIN),
        reference.GROUPED,
        (
            Row("in process: turns, 1,000 sessions at once", "rate", "turns/s", bar=1_000),
            Row("in process: one turn among 1,000, p99", "p99", "ms", bar=6_000),
        ),
    ),
    Work(export, reference.ENCODE, (Row("in process: lines exported", "rate", "lines/s"),)),
)
