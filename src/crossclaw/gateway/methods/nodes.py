"""node.*: devices that do something for agents: clients of role `node`. `gateway/node_calls.py` asks them, and
`gateway/node_events.py` takes what they tell."""

from typing import Any

import msgspec

from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.gateway.node_calls import NodeAnswer, NodeCall, NodeCalls, decoded_payload
from crossclaw.gateway.node_events import NodeEvents
from crossclaw.runs.neighbours import answers


class NodeParams(Params, frozen=True):
    node_id: Filled


class NodeEventParams(Params, frozen=True):
    event: Filled
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")


class NodeEventResult(Result, frozen=True):
    ok: bool
    ignored: bool = False


class Heard(Result, frozen=True):
    ok: bool
    event: str
    handled: bool
    reason: str | None = None


class Nodes:
    def __init__(self, calls: NodeCalls, events: NodeEvents, clock: Clock) -> None:
        self._calls = calls
        self._events = events
        self._clock = clock

    @method("node.list", "operator.read", "read", "The nodes that are connected.")
    async def list_nodes(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        return {"ts": self._clock.now_ms(), "nodes": list(self._calls.described().values())}

    @method("node.describe", "operator.read", "read", "One node and what it offers.")
    async def describe(self, caller: Caller, params: NodeParams) -> dict[str, Any]:
        if (node := self._calls.described().get(params.node_id)) is None:
            raise Invalid("unknown nodeId")
        return {"ts": self._clock.now_ms(), **node}

    @method("node.invoke", "operator.write", "change", "Have a node do something, and wait for it.")
    async def invoke(self, caller: Caller, params: NodeCall) -> dict[str, Any]:
        return await self._calls.invoke(params)

    @answers("node.invoke")
    async def invoke_for_others(self, body: Any) -> dict[str, Any]:
        return await self._calls.invoke_for_others(body)

    @method("node.invoke.result", "node", "change", "What became of a call, as the node says.")
    async def result(self, caller: Caller, params: NodeAnswer) -> NodeEventResult:
        return NodeEventResult(ok=True, ignored=not self._calls.settle(caller, params))

    @method("node.event", "node", "run", "Something that a node tells by itself.")
    async def event(self, caller: Caller, params: NodeEventParams) -> Heard:
        payload = decoded_payload(params.payload, params.payload_json)
        why_not = await self._events.take(caller, params.event, payload)
        return Heard(ok=True, event=params.event, handled=why_not is None, reason=why_not)
