"""GET /metrics: counts of what happened, for Prometheus. Names of people and texts are in none of them."""

from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.events import Event, RunAccepted, RunEnded, ToolEnded
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.answers import problem
from crossclaw.gateway.http.openai import failed
from crossclaw.gateway.watchdog import Watchdog
from crossclaw.runs.feed import Feed

Number = Callable[[], int]


class EventCounter:
    """Listens from the start; costs an addition an event."""

    def __init__(
        self,
        feed: Feed,
        runs_under_way: Number,
        clients: Number,
        watchdog: Watchdog,
        unreadable: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.unreadable = unreadable
        self.accepted = 0
        self.ended: Counter[tuple[str, str]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.runs_under_way = runs_under_way
        self.clients = clients
        self.watchdog = watchdog
        feed.subscribe(self._hear, RunAccepted, RunEnded, ToolEnded)

    def _hear(self, event: Event) -> None:
        match event:
            case RunAccepted():
                self.accepted += 1
            case RunEnded(run=run):
                self.ended[run.kind, run.status] += 1
                if run.started_at is not None and run.ended_at is not None:
                    self.seconds[run.kind] += run.ended_at - run.started_at
            case ToolEnded(is_error=is_error):
                self.tools["error" if is_error else "ok"] += 1
            case _:
                pass


def metrics_endpoint(meter: EventCounter, door: Door) -> Endpoint:
    async def handle(_request: Request, principal: Principal) -> Response:
        try:
            health = await door.dispatch(Caller(principal=principal), "health", {})
        except CrossclawError as error:
            return failed(error)
        try:
            await anyio.to_thread.run_sync(import_module, "prometheus_client")
            body, kind = _exposition(meter, health)
        except ModuleNotFoundError:
            text = "metrics need an extra: pip install 'crossclaw[metrics]'"
            return problem(text, "not_installed", 501)
        return Response(body, media_type=kind, headers={"cache-control": "no-store"})

    return Endpoint(method="GET", path="/metrics", handle=handle)


def _exposition(meter: EventCounter, health: dict[str, Any]) -> tuple[bytes, str]:
    from prometheus_client import (  # noqa: PLC0415  an extra
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )
    from prometheus_client.core import (  # noqa: PLC0415
        CounterMetricFamily,
        GaugeMetricFamily,
        Metric,
    )

    class Collector:
        def collect(self) -> list[Metric]:
            runs = CounterMetricFamily(
                "crossclaw_runs_ended", "Runs that ended", labels=["kind", "status"]
            )
            for (kind, status), count in meter.ended.items():
                runs.add_metric([kind, status], count)
            seconds = CounterMetricFamily(
                "crossclaw_runs_seconds", "Time that ended runs took", labels=["kind"]
            )
            for kind, ms in meter.seconds.items():
                seconds.add_metric([kind], ms / 1000)
            tools = CounterMetricFamily(
                "crossclaw_tool_calls", "Tool calls that ended", labels=["outcome"]
            )
            for outcome, count in meter.tools.items():
                tools.add_metric([outcome], count)
            stalls = CounterMetricFamily(
                "crossclaw_loop_stalls", "Times at which everybody waited > 0.1 s", labels=["kind"]
            )
            for kind, count in meter.watchdog.stalls.items():
                stalls.add_metric([kind], count)
            unreadable = CounterMetricFamily(
                "crossclaw_unreadable_rows",
                "Rows of the store that could not be read",
                labels=["table"],
            )
            for table, count in meter.unreadable().items():
                unreadable.add_metric([table], count)
            return [
                stalls,
                unreadable,
                CounterMetricFamily(
                    "crossclaw_loop_stalled_seconds",
                    "Time for which everybody waited in stalls",
                    value=meter.watchdog.stalled_s,
                ),
                GaugeMetricFamily(
                    "crossclaw_loop_stall_longest_seconds",
                    "The longest stall",
                    value=meter.watchdog.longest_s,
                ),
                CounterMetricFamily(
                    "crossclaw_runs_accepted", "Runs accepted", value=meter.accepted
                ),
                runs,
                seconds,
                tools,
                GaugeMetricFamily(
                    "crossclaw_runs_under_way", "Runs at work now", value=meter.runs_under_way()
                ),
                GaugeMetricFamily(
                    "crossclaw_clients", "WebSocket clients connected", value=meter.clients()
                ),
                GaugeMetricFamily(
                    "crossclaw_sessions", "Sessions", value=health["sessions"]["count"]
                ),
            ]

    registry = CollectorRegistry()
    registry.register(Collector())
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST
