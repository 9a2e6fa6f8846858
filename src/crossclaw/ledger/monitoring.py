"""Monitoring: reads that show the whole gateway: who is at work, who waits for whom, what caused
what. They only read, are bounded, and run beside the writer."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from crossclaw.domain.sessions import Entry, Session
from crossclaw.domain.sight import Sight
from crossclaw.domain.states import State
from crossclaw.ledger.attention import TightBudget, TroubledDelivery
from crossclaw.ledger.figures import FigureQuery, FigureRow

RUNS_MAX = 5_000  # of one look; an hour of a busy gateway, and about a megabyte on the wire
REQUEST_CHARS = 400  # of a request in a list
CAUSED_WITHIN = 20_000  # runs after a run among which its effects are looked for

Order = Literal["updated", "cost", "tokens"]


class RunRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A run as others see it, with the run and the session that caused it."""

    number: int
    """A number that grows with every run: a place to read on from."""
    run_id: str
    key: str
    agent_id: str
    kind: str
    status: str
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    exchange_id: str | None = None
    hops: int = 0
    epoch: int = 0
    cause: str | None = None
    source: str | None = None
    """The key of the session that caused it; None if a person, a clock or a hook did."""
    error: str | None = None
    standing: State | None = None
    """The state of the run; None if it ended well."""


class WaitRow(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    key: str
    target_run_id: str
    target_key: str
    since: int


class SpawnRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    child_key: str
    parent_key: str
    run_id: str
    task: str
    state: str
    created_at: int
    label: str | None = None
    outcome: str | None = None
    ended_at: int | None = None
    announced_at: int | None = None
    standing: State | None = None
    """The state of the task; None if it ended well."""


class ExchangeRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A send or a spawn in one line."""

    id: str
    kind: Literal["send", "spawn"]
    requester: str
    target: str
    state: str
    request: str
    created_at: int
    turn: int = 0
    ended_at: int | None = None
    announce: str | None = None
    standing: State | None = None
    """What is under way of it; once it is over, the first of its runs that did not end well. None
    if all did."""


class DeliveryRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    run_id: str
    channel: str
    to: str
    text: str
    state: str
    attempt: int
    created_at: int
    updated_at: int
    error: str | None = None
    standing: State | None = None
    """The state of the delivery; None if it has arrived."""


class Lane(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What goes on in a session: the run under way and how many are behind it."""

    status: Literal["running", "waiting", "queued"]
    run_id: str
    since: int
    queued: int = 0
    waits_for: tuple[str, ...] = ()
    asks: str | None = None
    """The call that a person has to allow before it goes on."""


class Page(msgspec.Struct, frozen=True):
    total: int
    sessions: list[Session]


class TraceRows(msgspec.Struct, frozen=True):
    """The runs of one root cause and all that is known of them."""

    runs: list[RunRow]
    """The runs in the order in which they were accepted; the first is the root."""
    entries: dict[str, list[Entry]]
    """The entries of each run."""
    deliveries: list[DeliveryRow]
    spawns: list[SpawnRow]
    waits: list[WaitRow]
    truncated: bool = False


class MonitoringReads(Protocol):
    async def page(
        self,
        *,
        limit: int,
        offset: int = 0,
        order: Order = "updated",
        agent_id: str | None = None,
        sight: Sight,
        kinds: Sequence[str] | None = None,
        search: str | None = None,
        updated_after: int | None = None,
        archived: bool = False,
    ) -> Page:
        """One page of the sessions that match, and how many there are."""
        ...

    async def sessions(self, keys: Sequence[str]) -> list[Session]:
        """The sessions of these keys that exist, archived ones too."""
        ...

    async def first_words(self, session_ids: Sequence[str]) -> dict[str, str]:
        """The first message of each conversation, if a person's."""
        ...

    async def lanes(self, keys: Sequence[str]) -> dict[str, Lane]:
        """What goes on in these sessions, by key; an idle one has none."""
        ...

    async def runs(self, *, since: int, after: int = 0, limit: int = RUNS_MAX) -> list[RunRow]:
        """The newest runs that were accepted since then, oldest first; only those numbered above
        `after`."""
        ...

    async def open_runs(self, *, limit: int = RUNS_MAX) -> list[RunRow]: ...

    async def runs_by_id(self, run_ids: Sequence[str]) -> list[RunRow]:
        """Runs in the order asked for; unknown ones are left out."""
        ...

    async def caused_by(self, run: RunRow) -> list[RunRow]:
        """The runs that a run has caused directly."""
        ...

    async def of_exchange(self, exchange_id: str) -> list[RunRow]: ...

    async def exchanges(self, *, limit: int) -> list[ExchangeRow]:
        """Exchanges, the newest first."""
        ...

    async def exchanges_by_id(self, ids: Sequence[str]) -> list[ExchangeRow]:
        """Exchanges by the ids of sends and the keys of children, as far as they exist."""
        ...

    async def waits(self, *, limit: int = RUNS_MAX) -> list[WaitRow]: ...

    async def spawns(self, *, since: int, limit: int = RUNS_MAX) -> list[SpawnRow]:
        """Spawns under way, and those that began or ended since then."""
        ...

    async def find_spawn(self, name: str) -> SpawnRow | None:
        """A spawn, by the child's key or by the run that works on the task."""
        ...

    async def trace(self, root: str, *, limit: int) -> TraceRows:
        """All that followed from the run `root`; at most `limit` runs, entries, and so on."""
        ...

    async def troubled_sessions(self, *, limit: int) -> list[Session]:
        """Sessions whose last run failed or timed out, the newest first."""
        ...

    async def troubled_deliveries(self, *, since: int, limit: int) -> list[TroubledDelivery]:
        """Failed and uncertain deliveries, the newest first."""
        ...

    async def tight_budgets(self, *, share: float, limit: int) -> list[TightBudget]:
        """Runs under way that have used at least this share of their budget."""
        ...

    async def figures(self, query: FigureQuery) -> list[FigureRow]:
        """Sums over time, by name and then by time; steps without anything are left out."""
        ...

    async def dismissed(self, names: Sequence[str]) -> set[str]:
        """Which of these names a person has dismissed."""
        ...

    async def entries_of_run(self, run_id: str, *, limit: int) -> list[Entry]:
        """The first entries of a run, in order."""
        ...

    async def deliveries_of_run(self, key: str, run_id: str) -> list[DeliveryRow]: ...
