"""GET /metrics: counts of what happened, for Prometheus. Names of people and texts are in none of them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.attention import ATTENTION_KINDS, AttentionRow
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.events import FeedEvent, RunAccepted, RunEnded, ToolEnded
from crossclaw.domain.states import UNDER_WAY, end_state
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.answers import problem
from crossclaw.gateway.http.openai import failed
from crossclaw.gateway.watchdog import Watchdog
from crossclaw.ledger.monitoring import RunRow
from crossclaw.runs.feed import Feed

Number = Callable[[], int]
OpenRuns = Callable[[], Awaitable[list[RunRow]]]


async def _no_runs() -> list[RunRow]:
    return []


class EventCounter:
    """Counts events from the start on; an event costs one addition."""

    def __init__(
        self,
        feed: Feed,
        runs_under_way: Number,
        clients: Number,
        watchdog: Watchdog,
        unreadable: Callable[[], Mapping[str, int]] = dict,
        open_runs: OpenRuns = _no_runs,
    ) -> None:
        self.unreadable = unreadable
        self.open_runs = open_runs
        self.accepted = 0
        self.ended: Counter[tuple[str, ...]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.runs_under_way = runs_under_way
        self.clients = clients
        self.watchdog = watchdog
        feed.subscribe(self.on_event, RunAccepted, RunEnded, ToolEnded)

    def on_event(self, event: FeedEvent) -> None:
        match event:
            case RunAccepted():
                self.accepted += 1
            case RunEnded(run=run):
                ok = run.status == "ok"
                standing = "ok" if ok else end_state(run.status, run.error).name
                self.ended[run.kind, run.status, standing] += 1
                if run.started_at is not None and run.ended_at is not None:
                    self.seconds[run.kind] += run.ended_at - run.started_at
            case ToolEnded(standing=standing):
                self.tools[standing.name] += 1
            case _:
                pass


def metrics_endpoint(meter: EventCounter, door: Door) -> Endpoint:
    async def handle(_request: Request, principal: Principal) -> Response:
        try:
            caller = Caller(principal=principal)
            status = await door.dispatch(caller, "status", {})
            troubles = await door.dispatch(caller, "attention.list", {})
            open_runs = await meter.open_runs()
        except CrossclawError as error:
            return failed(error)
        try:
            await anyio.to_thread.run_sync(import_module, "prometheus_client")
            body, kind = _exposition(_samples(meter, status, troubles.rows, open_runs))
        except ModuleNotFoundError:
            text = f"metrics need an extra: {how_to_install_there('metrics')}"
            return problem(text, "not_installed", 501)
        return Response(body, media_type=kind, headers={"cache-control": "no-store"})

    return Endpoint(method="GET", path="/metrics", handle=handle)


class MetricSamples(msgspec.Struct, frozen=True):
    """One metric with its values; each is named by its labels, or stands alone."""

    name: str
    text: str
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    is_gauge: bool = False


def _count(name: str, text: str, value: float) -> MetricSamples:
    return MetricSamples(name, text, {(): value})


def _gauge(name: str, text: str, value: float) -> MetricSamples:
    return MetricSamples(name, text, {(): value}, is_gauge=True)


def _by(label: str, name: str, text: str, values: Mapping[str, float]) -> MetricSamples:
    return MetricSamples(name, text, {(each,): n for each, n in values.items()}, (label,))


def _samples(
    meter: EventCounter,
    status: dict[str, Any],
    troubles: Sequence[AttentionRow],
    open_runs: Sequence[RunRow],
) -> list[MetricSamples]:
    watchdog, disk = meter.watchdog, status["disk"]
    seconds = {kind: ms / 1000 for kind, ms in meter.seconds.items()}
    stalls, longest = "crossclaw_loop_stalls", "crossclaw_loop_stall_longest_seconds"
    unreadable = "Rows of the store that could not be read"
    return [
        _attention(troubles),
        _by(
            "kind", stalls, "Times the event loop was blocked for more than 0.1 s", watchdog.stalls
        ),
        _by("table", "crossclaw_unreadable_rows", unreadable, meter.unreadable()),
        _count(
            "crossclaw_loop_stalled_seconds",
            "Time for which the event loop was blocked",
            watchdog.stalled_s,
        ),
        _gauge(longest, "The longest stall", watchdog.longest_s),
        _count("crossclaw_runs_accepted", "Runs accepted", meter.accepted),
        MetricSamples(
            "crossclaw_runs_ended", "Runs that ended", meter.ended, ("kind", "status", "standing")
        ),
        _by("kind", "crossclaw_runs_seconds", "Time that ended runs took", seconds),
        _by("outcome", "crossclaw_tool_calls", "Tool calls that ended", meter.tools),
        _gauge("crossclaw_runs_under_way", "Runs at work now", meter.runs_under_way()),
        _open(open_runs),
        _gauge("crossclaw_clients", "WebSocket clients connected", meter.clients()),
        _gauge("crossclaw_sessions", "Sessions", status["sessions"]["count"]),
        MetricSamples(
            "crossclaw_store_bytes",
            "Size of the store, and of what is on the way into it (wal)",
            {("ledger",): disk["ledgerBytes"], ("wal",): disk["walBytes"]},
            ("part",),
            is_gauge=True,
        ),
        _gauge("crossclaw_disk_free_bytes", "What is left of its disk", disk["freeBytes"]),
    ]


def _open(runs: Sequence[RunRow]) -> MetricSamples:
    """Open runs by status, in the words used everywhere: queued, running, waiting, needs approval."""
    counted = Counter(run.standing.name for run in runs if run.standing is not None)
    values: dict[tuple[str, ...], float] = {(name,): counted[name] for name in sorted(UNDER_WAY)}
    text = "Runs that have not ended, by how they stand"
    return MetricSamples("crossclaw_runs_open", text, values, ("standing",), is_gauge=True)


def _attention(rows: Sequence[AttentionRow]) -> MetricSamples:
    counted = Counter(row.kind for row in rows)
    text = "Things that need a person's attention, as crossclaw attention lists them"
    values: dict[tuple[str, ...], float] = {(kind,): 0.0 for kind in ATTENTION_KINDS}
    values |= {(kind,): n for kind, n in counted.items()}
    return MetricSamples("crossclaw_attention", text, values, ("kind",), is_gauge=True)


def _exposition(samples: Sequence[MetricSamples]) -> tuple[bytes, str]:
    from prometheus_client import (  # noqa: PLC0415  an extra
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )

    class Collector:
        def collect(self) -> list[Any]:
            return [_family(each) for each in samples]

    registry = CollectorRegistry()
    registry.register(Collector())
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _family(samples: MetricSamples) -> Any:
    from prometheus_client.core import (  # noqa: PLC0415  an extra
        CounterMetricFamily,
        GaugeMetricFamily,
    )

    kind = GaugeMetricFamily if samples.is_gauge else CounterMetricFamily
    family = kind(samples.name, samples.text, labels=samples.labels)
    for labels, value in samples.values.items():
        family.add_metric(labels, value)
    return family
