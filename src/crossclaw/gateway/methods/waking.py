"""wake, system-event and heartbeats: notices for the main session, and whether it has heartbeats."""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.domain.jobs import WakeMode
from crossclaw.domain.messages import Provenance
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.neighbours import Neighbours, answers
from crossclaw.schedule.heartbeats import PREFIX, Heartbeats
from crossclaw.schedule.notices import Notices


class WakeCallParams(Params, frozen=True):
    mode: WakeMode
    text: Filled


class SystemEventParams(Params, frozen=True):
    """Parameters of system-event. What devices report of themselves beside the text is for presence and not kept."""

    text: Filled
    device_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    ip: str | None = None
    mode: str | None = None
    version: str | None = None
    platform: str | None = None
    device_family: str | None = None
    model_identifier: str | None = None
    last_input_seconds: float | None = None
    reason: str | None = None
    roles: list[str] | None = None
    scopes: list[str] | None = None
    tags: list[str] | None = None


class HeartbeatSetParams(Params, frozen=True):
    enabled: bool


class Acknowledged(Result, frozen=True):
    ok: bool


class SetResult(Result, frozen=True):
    ok: bool
    enabled: bool


class Waking:
    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        notices: Notices,
        heartbeats: Heartbeats,
        clock: Clock,
        neighbours: Neighbours,
    ) -> None:
        self._neighbours = neighbours
        self._config = config
        self._ledger = ledger
        self._notices = notices
        self._heartbeats = heartbeats
        self._clock = clock

    @method(
        "wake",
        "operator.write",
        "run",
        "Words for the main session, read at once or by its next run.",
    )
    async def wake(self, caller: Caller, params: WakeCallParams) -> Acknowledged:
        await self._give(caller, params.text, params.mode)
        return Acknowledged(ok=True)

    @method("system-event", "operator.admin", "change", "Words for the main session's next run.")
    async def system_event(self, caller: Caller, params: SystemEventParams) -> Acknowledged:
        if not params.text.startswith("Node:"):  # OpenClaw's devices tell their presence so
            await self._give(caller, params.text, "next-heartbeat")
        return Acknowledged(ok=True)

    async def _give(self, caller: Caller, text: str, mode: WakeMode) -> None:
        await self._notices.give(
            text,
            mode,
            "notice",
            Provenance("system", sender=caller.principal.name),
            caller,
        )

    @method("last-heartbeat", "operator.read", "read", "How the last heartbeat went.")
    async def last(self, caller: Caller, params: NoParams) -> dict[str, Any] | None:
        ticks = await self._ledger.list_ticks(f"{PREFIX}{self._config.agents.default_id}", limit=5)
        over = next((tick for tick in ticks if tick.status in ("ok", "error", "skipped")), None)
        if over is None:
            return None
        status = {"ok": "sent", "error": "failed", "skipped": "skipped"}[over.status]
        found = {"ts": over.ended_at or over.at, "status": status, "preview": over.summary}
        return {name: value for name, value in found.items() if value is not None}

    @method(
        "set-heartbeats",
        "operator.admin",
        "change",
        "Stop heartbeats, or let them go on, until the next start.",
    )
    async def set(self, caller: Caller, params: HeartbeatSetParams) -> SetResult:
        """Switches heartbeats on or off on all gateways: one of them runs them, and another may do so next."""
        self._heartbeats.enabled = params.enabled
        for each in self._neighbours:
            await self._neighbours.ask(each, "set-heartbeats", params.enabled, bool)
        return SetResult(ok=True, enabled=params.enabled)

    @answers("set-heartbeats")
    async def _set_for_others(self, enabled: Any) -> bool:
        self._heartbeats.enabled = enabled is True
        return self._heartbeats.enabled
