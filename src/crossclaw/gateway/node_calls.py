"""Node calls: what operators have nodes do, and what became of it.

A node is asked by an event and answers by a call; while it is not connected it can do nothing, so nothing of this needs
the ledger. One that is connected to another gateway on the same ledger is asked through that one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import anyio
import msgspec

from crossclaw.config.current import CurrentConfig
from crossclaw.domain import untrusted
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import Busy, CrossclawError, Forbidden, Invalid
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Caller, Params
from crossclaw.gateway.client import Client
from crossclaw.gateway.frames import event
from crossclaw.gateway.subscribers import Subscription
from crossclaw.runs.neighbours import ConnectedClients, Neighbour, Neighbours

INVOKE_DEFAULT_MS, INVOKE_MAX_MS = 30_000, 10 * 60_000  # a person may have to say yes on the device
INVOCATIONS_MAX = 1_000  # each holds a task; devices are few
BETWEEN_GATEWAYS_S = (
    5.0  # more than the node itself has: its own gateway tells that it was too slow
)


class NodeCall(Params, frozen=True):
    """What a node is asked to do; goes on to another gateway as it came."""

    node_id: Filled
    command: Filled
    idempotency_key: Filled
    params: Any = None
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def timeout_allowed_ms(self) -> int:
        return min(self.timeout_ms or INVOKE_DEFAULT_MS, INVOKE_MAX_MS)


class NodeAnswer(Params, frozen=True):
    """What a node says about a call; `id` is the call's."""

    id: Filled
    node_id: Filled
    ok: bool
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")
    error: dict[str, Any] | None = None


class NotConnected(CrossclawError):
    def __init__(self, node_id: str) -> None:
        super().__init__(f"node {node_id} is not connected")
        self.details = {"code": "NOT_CONNECTED"}


class NodeFailed(CrossclawError):
    """The node was asked, and did not do it."""


class _Pending:
    """A call that waits for its node's answer."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.done = anyio.Event()
        self.result: NodeAnswer | None = None


class NodeCalls:
    """Who of the nodes is connected, and the calls that wait for them. `clients` answers who is connected here."""

    def __init__(
        self,
        config: CurrentConfig,
        ids: Ids,
        clients: Callable[[], Sequence[Client]],
        neighbours: Neighbours,
    ) -> None:
        self._config = config
        self._ids = ids
        self._clients = clients
        self._neighbours = neighbours
        self._pending: dict[str, _Pending] = {}

    def connected(self) -> dict[str, Client]:
        """The nodes that are connected here, by their ids."""
        return {
            node_id(client): client
            for client in self._clients()
            if client.admitted is not None and client.admitted.role == "node"
        }

    def described(self) -> dict[str, dict[str, Any]]:
        """All nodes by their ids; those that are connected here before those of other gateways."""
        here = {name: described_node(client) for name, client in self.connected().items()}
        there = {name: node for name, (_where, node) in self._neighbours.nodes().items()}
        return here | {name: node for name, node in there.items() if name not in here}

    async def invoke(self, call: NodeCall) -> dict[str, Any]:
        """Waits for the node's answer."""
        if (client := self.connected().get(call.node_id)) is not None:
            return await self._invoke_here(client, call)
        if (elsewhere := self._neighbours.nodes().get(call.node_id)) is None:
            raise NotConnected(call.node_id)
        return await self._invoke_there(*elsewhere, call)

    def settle(self, caller: Caller, answer: NodeAnswer) -> bool:
        """Whether somebody still waits for it; if not, it is too late, and whoever asked has been told so."""
        pending = self._pending.get(answer.id)
        if pending is None:
            return False
        if not pending.node_id == answer.node_id == calling_node(caller):
            raise Invalid("nodeId mismatch")
        pending.result = answer
        pending.done.set()
        return True

    async def _invoke_there(
        self, neighbour: Neighbour, node: dict[str, Any], call: NodeCall
    ) -> dict[str, Any]:
        """Asks the node's gateway to call it, once: whether a device has done something is known to its own gateway
        alone."""
        self._check_command(call.command, node.get("commands", ()))
        timeout_s = call.timeout_allowed_ms / 1000 + BETWEEN_GATEWAYS_S
        return await self._neighbours.ask(
            neighbour, "node.invoke", msgspec.to_builtins(call), dict, timeout_s
        )

    async def invoke_for_others(self, body: Any) -> dict[str, Any]:
        """Another gateway asks, for a caller that it has let in."""
        call = msgspec.convert(body, NodeCall)
        if (client := self.connected().get(call.node_id)) is None:
            raise NotConnected(call.node_id)
        return await self._invoke_here(client, call)

    def _check_command(self, command: str, offered: Iterable[str]) -> None:
        if command not in offered:
            known = ", ".join(offered) or "none"
            raise Invalid(f"node command not allowed: {command}; this node offers {known}")
        if command in self._config.gateway.nodes.deny_commands:
            raise Forbidden(f"{command} is in gateway.nodes.denyCommands")

    async def _invoke_here(self, client: Client, call: NodeCall) -> dict[str, Any]:
        self._check_command(call.command, client.admitted.commands if client.admitted else ())
        answer = await self._ask(client, call)
        if not answer.ok:
            error = answer.error or {}
            raise NodeFailed(str(error.get("message") or "the node did not do it"))
        payload = decoded_payload(answer.payload, answer.payload_json)
        written = answer.payload_json or msgspec.json.encode(payload).decode()
        return {
            "ok": True,
            "nodeId": call.node_id,
            "command": call.command,
            "payload": payload,
            "payloadJSON": written,
        }

    async def _ask(self, client: Client, call: NodeCall) -> NodeAnswer:
        if len(self._pending) >= INVOCATIONS_MAX:
            raise Busy(f"{INVOCATIONS_MAX} calls of nodes are under way; try again in a moment")
        timeout_ms = call.timeout_allowed_ms
        request_id, pending = self._ids.new(), _Pending(call.node_id)
        body: dict[str, Any] = {
            "id": request_id,
            "nodeId": call.node_id,
            "command": call.command,
            "timeoutMs": timeout_ms,
            "idempotencyKey": call.idempotency_key,
        }
        if call.params is not None:
            body["paramsJSON"] = msgspec.json.encode(call.params).decode()
        self._pending[request_id] = pending
        try:
            client.push(event("node.invoke.request", body))
            with anyio.move_on_after(timeout_ms / 1000):
                await pending.done.wait()
        finally:
            del self._pending[request_id]
        if pending.result is None:
            raise NodeFailed(f"node {call.node_id} did not answer within {timeout_ms} ms")
        return pending.result


def node_id(client: Client) -> str:
    admitted = client.admitted
    assert admitted is not None
    return admitted.device_id or admitted.client.instance_id or admitted.client.id


def calling_node(caller: Caller) -> str:
    """The id of the node that calls."""
    if not isinstance(caller.listening, Subscription) or not isinstance(
        caller.listening.subscriber, Client
    ):
        raise Invalid("only a node that is connected may say this")
    return node_id(caller.listening.subscriber)


def connected_clients(
    presence: Sequence[dict[str, Any]], clients: Iterable[Client], guests: Iterable[SessionKey]
) -> ConnectedClients:
    """What the other gateways on the same ledger are told of those who are connected here."""
    known = [(each, each.admitted) for each in clients if each.admitted is not None]
    return ConnectedClients(
        presence=presence,
        nodes=[described_node(client) for client, admitted in known if admitted.role == "node"],
        devices=sorted({admitted.device_id for _, admitted in known if admitted.device_id}),
        guests=[each.text for each in guests],
    )


def described_node(client: Client) -> dict[str, Any]:
    admitted = client.admitted
    assert admitted is not None
    said = admitted.client
    shown = {
        "nodeId": node_id(client),
        "displayName": said.display_name or said.id,
        "platform": said.platform,
        "version": said.version,
        "deviceFamily": said.device_family,
        "modelIdentifier": said.model_identifier,
        "remoteIp": client.address,
        "caps": sorted(admitted.caps),
        "commands": list(admitted.commands),
        "paired": True,
        "connected": True,
    }
    return {name: value for name, value in shown.items() if value is not None}


def decoded_payload(payload: Any, payload_json: str | None) -> Any:
    """What a node sent along: as it is, or as a text of JSON."""
    if payload_json is None:
        return payload
    try:
        return untrusted.decode(payload_json)
    except msgspec.DecodeError:
        raise Invalid("payloadJSON is no JSON") from None
