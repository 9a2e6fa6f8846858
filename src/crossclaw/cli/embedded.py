"""The embedded peer: a gateway opened for one call, when no gateway runs.

It answers as the wire does, by the same events of runs. What is unfinished when the call ends stays in the
ledger, and the next gateway or call continues it.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec

from crossclaw.app import Gateway, GatewayInputs, open_gateway
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.say import note
from crossclaw.client.errors import CallRefused, WaitTimeout
from crossclaw.client.peer import Event, EventQueue, GatewayDefaults, Listeners
from crossclaw.domain import events as gateway_events
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.events import (
    ApprovalAsked,
    ApprovalSettled,
    CallRepeated,
    CompactionPhase,
    HeartbeatNews,
    JobNews,
    ReplyPiece,
    RunEnded,
    RunStarted,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller, Listening, TwoAnswers
from crossclaw.gateway.publisher import shown_key
from crossclaw.gateway.run_events import RunEvent, RunEvents

PROTOCOL = 4

_OWNER = person_principal("cli", {"operator.admin"})


@asynccontextmanager
async def open_embedded(
    place: StateLocation, port_taken: str | None
) -> AsyncGenerator["EmbeddedPeer"]:
    """Opens a gateway in this process. `port_taken` says that another program has the port."""
    if place.loaded.lacking:
        place = find_place(place.environ, to_serve=True)  # raises, and says which and where
    async with open_gateway(place.config, place.paths, _outside(place)) as gateway:
        start = "crossclaw gateway --port 0" if port_taken else "crossclaw gateway"
        nobody = port_taken or "no gateway runs"
        note(f"{nobody}; working without one for this call ({start} starts one)")
        peer = EmbeddedPeer(gateway, place)
        unsubscribe = gateway.feed.subscribe(peer.on_event)
        try:
            yield peer
        finally:
            unsubscribe()


def _outside(place: StateLocation) -> GatewayInputs:
    return GatewayInputs(environ=place.environ, loaded=place.loaded, keeps_time=False)


class EmbeddedPeer:
    def __init__(self, gateway: Gateway, place: StateLocation) -> None:
        agent_id = place.config.agents.default_id
        self.place = f"embedded, {place.paths.state_dir}"
        self.embedded = True
        self.defaults = GatewayDefaults(agent_id, f"agent:{agent_id}:main")
        self.is_away = False
        self._gateway = gateway
        self._clock = SystemClock()
        self._run_events: dict[str, RunEvents] = {}
        self._listeners = Listeners()
        self._caller = Caller(principal=_OWNER, listening=Listening(), client_id="cli")

    def listen(self) -> AbstractContextManager[EventQueue]:
        return self._listeners.listen()

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float = 30,
        final: bool = False,
        repeat: bool | None = None,
    ) -> Any:
        try:
            with anyio.fail_after(timeout_s):
                answer = await self._gateway.door.dispatch(self._caller, method, params)
                if isinstance(answer, TwoAnswers):
                    answer = await answer.later() if final else answer.first
        except TimeoutError:
            raise WaitTimeout(f"no answer to {method} within {timeout_s:g} s") from None
        except CrossclawError as error:
            raise CallRefused(str(error), error.code) from None
        return msgspec.to_builtins(answer, str_keys=True)

    def on_event(self, heard: gateway_events.FeedEvent) -> None:
        for event in self._events_from(heard, self._clock.now_ms()):
            body = event.body(PROTOCOL, shown_key(_key_of(heard)))
            self._listeners.put(Event(event.name, body))

    def _events_from(self, heard: gateway_events.FeedEvent, now_ms: int) -> list[RunEvent]:
        match heard:
            case RunStarted(run=run):
                return self._events_of(run.run_id).started(run, now_ms)
            case ReplyPiece(run_id=run_id):
                events = self._events_of(run_id)
                return [*events.said(heard, now_ms), *events.due(now_ms, 0, 0)]
            case CallRepeated(run_id=run_id):
                return self._events_of(run_id).call_repeated(heard, now_ms)
            case CompactionPhase(run_id=run_id):
                return self._events_of(run_id).compacting(heard, now_ms)
            case ToolStarted(run_id=run_id):
                return self._events_of(run_id).tool_started(heard, heard.arguments, now_ms)
            case ToolProgress(run_id=run_id):
                return self._events_of(run_id).tool_progress(heard, now_ms)
            case ToolEnded(run_id=run_id):
                return self._events_of(run_id).tool_ended(heard, now_ms)
            case RunEnded(run=run):
                last = self._events_of(run.run_id).ended(run, now_ms)
                del self._run_events[run.run_id]
                return last
        return []

    def _events_of(self, run_id: str) -> RunEvents:
        return self._run_events.setdefault(run_id, RunEvents(run_id))


def _key_of(heard: gateway_events.FeedEvent) -> SessionKey:
    assert not isinstance(heard, JobNews | HeartbeatNews | ApprovalAsked | ApprovalSettled), (
        "these belong to no run"
    )
    return heard.run.key if isinstance(heard, RunStarted | RunEnded) else heard.key
