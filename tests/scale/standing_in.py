"""SQLite standing in for PostgreSQL: the statements of the project as they are, the server's clock as virtual time has it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import anyio
import apsw

from crossclaw.ledger.database import Rows
from crossclaw.ledger.sqlite.store import open_writer

T = TypeVar("T")

_WORDS: tuple[tuple[str, str], ...] = (
    (r"\(extract\(epoch FROM clock_timestamp\(\)\) \* 1000\)::bigint", "virtual_now()"),
    (r" FOR (?:UPDATE|KEY SHARE)(?: SKIP LOCKED)?", ""),
    (r"::(?:bigint|text|int|bool)\b", ""),
    (r"\$(\d+)", r"?\1"),
    (r"DEFAULT now\(\)", "DEFAULT CURRENT_TIMESTAMP"),
)
_NOT_SENT = ("SAVEPOINT", "RELEASE", "PRAGMA")  # what SQLite needs and a server is not asked


_BESIDE = 4  # of each transaction: two locks, its number, and the notification, which the stand-in has not

_ADDED = re.compile(r"ALTER TABLE (\w+) ADD COLUMN IF NOT EXISTS (\w+)")


@lru_cache(1_000)
def in_sqlites_words(sql: str) -> str:
    """The other way round than `postgres/dialect.py`, for the few statements that only a shared store has."""
    for pattern, new in _WORDS:
        sql = re.sub(pattern, new, sql)
    return sql


class DatabaseServer:
    """How long a server would have been busy. Its cores are shared by all; what waits for one waits its turn."""

    STATEMENT_S = 35e-6  # of a core; see docs/scaling.md for where these come from
    STEP_S = 20e-9  # of what SQLite counts as a step of its machine: about twenty a row
    COMMIT_S = 1e-3  # until the disk has it; many commits share a flush
    NETWORK_S = 0.5e-3

    def __init__(self, cores: int) -> None:
        self._free = anyio.Semaphore(cores)
        self._count, self._steps = 0, 0
        self.cores, self.busy_s = cores, 0.0
        self.statements: Counter[str] = Counter()
        """By what they are for."""

    def count(self, event: dict[str, Any]) -> None:
        if not event["sql"].startswith(_NOT_SENT) and " 'main'." not in event["sql"]:
            self._count += 1
            self._steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    async def carry_out(self, name: str, work: Callable[[], T], *, commits: bool = False) -> T:
        async with self._free:
            self._count = self._steps = 0
            answer = work()
            self._count += _BESIDE if commits else 0
            cost_s = self._count * self.STATEMENT_S + self._steps * self.STEP_S
            self.statements[name] += self._count
            self.busy_s += cost_s
            await anyio.sleep(cost_s)
        await anyio.sleep(self.NETWORK_S + (self.COMMIT_S if commits else 0.0))
        return answer


class StandIn:
    """One file that all gateways write, and that is thrown away. A connection, as the rules and `PgWire` have it."""

    def __init__(self, path: Path, server: DatabaseServer, now_ms: Callable[[], int]) -> None:
        self.server, self.filename = server, str(path)
        self.db = open_writer(path)
        self.db.pragma("synchronous", "off")
        self.db.pragma("cache_size", -1_000_000)
        self.db.create_scalar_function("virtual_now", lambda *_: now_ms(), 0)
        for lock in ("pg_advisory_lock", "pg_advisory_unlock", "pg_try_advisory_xact_lock"):
            self.db.create_scalar_function(lock, lambda *_: True, 1)
        self.db.create_scalar_function("to_regclass", lambda *_: None, 1)

    def begin(self) -> None:
        """From now on it counts."""
        self.db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self.server.count)

    # ── as the rules use it ────────────────────────────────────────────────────────────────────

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        return self.db.execute(in_sqlites_words(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        self.db.executemany(in_sqlites_words(sql), rows)

    def changes(self) -> int:
        return self.db.changes()

    # ── as a gateway's membership uses it ──────────────────────────────────────────────────────

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self.execute(sql, values))

    def script(self, sql: str) -> None:
        if (added := _ADDED.search(sql)) is None:
            self.db.execute(in_sqlites_words(sql))
        elif not self.ask("SELECT 1 FROM pragma_table_info($1) WHERE name = $2", *added.groups()):
            self.db.execute(added[0].replace("IF NOT EXISTS ", ""))

    def close(self) -> None:
        """There is one for all; it is closed with the store."""
