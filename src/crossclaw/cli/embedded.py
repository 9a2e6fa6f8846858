"""The embedded peer: a house opened for one call, when no gateway runs.

It speaks as the wire does, with the events that a command follows. What is unfinished when the call
ends stays in the ledger, and the next gateway or call goes on with it.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from crossclaw.app import House, Outside, open_house
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.peer import Defaults, Event, Listeners, Refusal
from crossclaw.cli.place import Place
from crossclaw.cli.say import note
from crossclaw.domain import events as house_events
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.runs import Run
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, Listening, TwoAnswers

_OWNER = Principal(name="cli", role="operator", scopes=frozenset({"operator.admin"}))


@asynccontextmanager
async def open_embedded(place: Place) -> AsyncGenerator["EmbeddedPeer"]:
    async with open_house(place.config, place.paths, Outside(environ=place.environ)) as house:
        note("no gateway runs; working without one for this call (crossclaw gateway starts one)")
        peer = EmbeddedPeer(house, place)
        unsubscribe = house.feed.subscribe(peer.hear)
        try:
            yield peer
        finally:
            unsubscribe()


class EmbeddedPeer:
    def __init__(self, house: House, place: Place) -> None:
        agent_id = place.config.agents.default_id
        self.place = f"embedded, {place.paths.state_dir}"
        self.embedded = True
        self.defaults = Defaults(agent_id, f"agent:{agent_id}:main")
        self._house = house
        self._listeners = Listeners()
        self._caller = Caller(principal=_OWNER, listening=Listening(), client_id="cli")

    def listen(self) -> AbstractContextManager[MemoryObjectReceiveStream[Event]]:
        return self._listeners.listen()

    async def call(
        self, method: str, params: dict[str, Any], *, timeout_s: float = 30, final: bool = False
    ) -> Any:
        try:
            with anyio.fail_after(timeout_s):
                answer = await self._house.door.dispatch(self._caller, method, params)
                if isinstance(answer, TwoAnswers):
                    answer = await answer.later() if final else answer.first
        except TimeoutError:
            raise CommandFailed(
                f"no answer to {method} within {timeout_s:g} s", Exit.TIMEOUT
            ) from None
        except CrossclawError as error:
            raise Refusal(str(error), error.code) from None
        return msgspec.to_builtins(answer, str_keys=True)

    def hear(self, event: house_events.Event) -> None:
        tell = _TELLINGS.get(type(event))
        if tell:
            self._listeners.tell(tell(event))


def _piece(event: house_events.ReplyPiece) -> Event:
    return _chat(event.run_id, event.key.text, "delta", text=event.text, deltaText=event.piece)


def _tool_started(event: house_events.ToolStarted) -> Event:
    data = {"phase": "start", "name": event.name, "args": event.arguments}
    return _tool(event, data)


def _tool_ended(event: house_events.ToolEnded) -> Event:
    data = {"phase": "result", "name": event.name, "isError": event.is_error}
    return _tool(event, data)


def _tool(event: Any, data: dict[str, Any]) -> Event:
    payload = {"runId": event.run_id, "sessionKey": event.key.text, "stream": "tool"}
    return Event("agent", payload | {"data": data | {"toolCallId": event.tool_use_id}})


def _ended(event: house_events.RunEnded) -> Event:
    run: Run = event.run
    if run.status == "ok":
        return _chat(run.run_id, run.key.text, "final", text=run.reply or "")
    if run.status == "aborted":
        return _chat(run.run_id, run.key.text, "aborted")
    return _chat(run.run_id, run.key.text, "error", errorMessage=run.error or "the run failed")


def _chat(run_id: str, key: str, state: str, *, text: str | None = None, **more: Any) -> Event:
    payload = {"runId": run_id, "sessionKey": key, "state": state} | more
    if text is not None:
        payload["message"] = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return Event("chat", payload)


_TELLINGS: dict[type, Callable[[Any], Event]] = {
    house_events.ReplyPiece: _piece,
    house_events.ToolStarted: _tool_started,
    house_events.ToolEnded: _tool_ended,
    house_events.RunEnded: _ended,
}
