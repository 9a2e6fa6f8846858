"""The ledger's reading: pages out of large stores, which must not cost more than out of small ones."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from bench import reference
from bench.stores import BEGIN_MS, COMMON, ENTRIES, LONG_SESSION, RARE, YEAR_MS, Stores
from bench.work import Row, Spent, Stopwatch, Work
from crossclaw.config import Paths
from crossclaw.domain.figures import HOUR_MS
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.figures import FigureQuery
from crossclaw.ledger.sqlite.ledger import SqliteLedger

FEW = 10_000
DAY_MS = 24 * HOUR_MS
PAGE_SESSIONS, PAGE_ENTRIES, PAGE_HITS = 200, 50, 20
READS = 300

Read = Callable[[SqliteLedger], Awaitable[object]]


async def _reads(paths: Paths, read: Read, times: int) -> Spent:
    ledger = SqliteLedger(paths.ledger_path)
    await read(ledger)
    watch = Stopwatch()
    for _ in range(times):
        with watch.piece():
            await read(ledger)
    spent = watch.stop()
    await ledger.close()
    return spent


def sessions(count: Callable[[Stores], int], agent_id: str | None, stores: Stores) -> Spent:
    async def read(ledger: SqliteLedger) -> None:
        page = await ledger.list_sessions(limit=PAGE_SESSIONS, agent_id=agent_id, sight=EVERYTHING)
        assert len(page) == PAGE_SESSIONS

    return anyio.run(_reads, stores.with_sessions(count(stores)), read, READS)


def tail(stores: Stores) -> Spent:
    async def read(ledger: SqliteLedger) -> None:
        page = await ledger.list_entries(LONG_SESSION, limit=PAGE_ENTRIES)
        assert page[-1].seq == ENTRIES

    return anyio.run(_reads, stores.with_entries(), read, READS)


def search(words: str, stores: Stores) -> Spent:
    async def read(ledger: SqliteLedger) -> None:
        assert len(await ledger.search(words, limit=PAGE_HITS, sight=EVERYTHING)) == PAGE_HITS

    return anyio.run(_reads, stores.with_entries(), read, READS)


def figures(count: Callable[[Stores], int], days: int, stores: Stores) -> Spent:
    end = BEGIN_MS + YEAR_MS
    step_ms = HOUR_MS if days == 1 else 7 * DAY_MS
    query = FigureQuery(since=end - days * DAY_MS, until=end, step_ms=step_ms, by="agent")

    async def read(ledger: SqliteLedger) -> None:
        assert await ledger.monitoring.figures(query)

    return anyio.run(_reads, stores.with_turns(count(stores)), read, READS if days == 1 else 10)


def _figure_works(count: Callable[[Stores], int], turns: int, days: int, bar: float) -> Work:
    name = "a day" if days == 1 else "a year"
    return Work(
        partial(figures, count, days),
        reference.sums_since(count, BEGIN_MS + YEAR_MS - days * DAY_MS),
        (Row(f"reads: figures of {name}, of {turns:,} turns", "median", "ms", bar=bar),),
    )


def _few(_stores: Stores) -> int:
    return FEW


def _many(stores: Stores) -> int:
    return stores.many


def works(many: int) -> tuple[Work, ...]:
    return (
        Work(
            partial(sessions, _few, None),
            reference.newest_sessions(_few, PAGE_SESSIONS),
            (Row(f"reads: newest {PAGE_SESSIONS} of {FEW:,} sessions", "median", "ms", bar=1.0),),
        ),
        Work(
            partial(sessions, _many, None),
            reference.newest_sessions(_many, PAGE_SESSIONS),
            (
                Row(f"reads: newest {PAGE_SESSIONS} of {many:,} sessions", "median", "ms", bar=1.0),
                Row(f"reads: newest {PAGE_SESSIONS} of {many:,} sessions, p95", "p95", "ms"),
            ),
        ),
        Work(
            partial(sessions, _many, "agent3"),
            reference.newest_sessions(_many, PAGE_SESSIONS),
            (Row(f"reads: the same of one agent in {many:,}", "median", "ms", bar=1.0),),
        ),
        _figure_works(_few, FEW, 1, 10.0),
        _figure_works(_many, many, 1, 10.0),
        _figure_works(_few, FEW, 365, 500.0),
        _figure_works(_many, many, 365, 500.0),
        Work(
            tail,
            reference.newest_entries(PAGE_ENTRIES),
            (Row(f"reads: last {PAGE_ENTRIES} of {ENTRIES:,} messages", "median", "ms", bar=1.0),),
        ),
        Work(
            partial(search, RARE),
            reference.matches(RARE, PAGE_HITS),
            (Row(f"reads: a rare word in {ENTRIES:,} entries", "median", "ms"),),
        ),
        Work(
            partial(search, COMMON),
            reference.matches(COMMON, PAGE_HITS),
            (Row(f"reads: a word of all {ENTRIES:,} entries", "median", "ms"),),
        ),
    )
