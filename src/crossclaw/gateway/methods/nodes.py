"""node.*: devices that do things for the gateway, and what they tell it.

A node is a connection of role `node`. It is asked by an event and answers by a call; while it is not
connected it can do nothing, so nothing of this needs the ledger but the words it brings. One that is connected to another
gateway on the same ledger is asked through that one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import anyio
import msgspec

from crossclaw.domain import untrusted
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import Busy, CrossclawError, Forbidden, Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.client import Client
from crossclaw.gateway.frames import event
from crossclaw.gateway.neighbours import ConnectedClients, Neighbour, Neighbours
from crossclaw.gateway.subscribers import Subscription
from crossclaw.policy.visibility import given_to_node
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.notices import Notices
from crossclaw.sessions.arrivals import Arrival, begin_authority
from crossclaw.sessions.intake import Intake

INVOKE_DEFAULT_MS, INVOKE_MAX_MS = 30_000, 10 * 60_000  # a person may have to say yes on the device
INVOCATIONS_MAX = 1_000  # each holds a task; devices are few
BETWEEN_GATEWAYS_S = (
    5.0  # more than the node itself has: its own gateway tells that it was too slow
)
TEXT_CHARS_MAX = 100_000  # of what a node says; a long dictation has a tenth of it

NOT_BOUND = "the main session is not bound to this node (gateway.nodes.sessions)"


class NodeParams(Params, frozen=True):
    node_id: Filled


class InvokeParams(Params, frozen=True):
    node_id: Filled
    command: Filled
    idempotency_key: Filled
    params: Any = None
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ResultParams(Params, frozen=True):
    id: Filled
    node_id: Filled
    ok: bool
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")
    error: dict[str, Any] | None = None


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


class NotConnected(CrossclawError):
    def __init__(self, node_id: str) -> None:
        super().__init__(f"node {node_id} is not connected")
        self.details = {"code": "NOT_CONNECTED"}


class NodeFailed(CrossclawError):
    """The node was asked, and did not do it."""


class _Pending:
    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.done = anyio.Event()
        self.result: ResultParams | None = None


class Nodes:
    """`clients` answers who is connected."""

    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        intake: Intake,
        notices: Notices,
        clients: Callable[[], Sequence[Client]],
        neighbours: Neighbours,
    ) -> None:
        self._neighbours = neighbours
        neighbours.answer("node.invoke", self._invoke_for_others)
        self._config = context.config
        self._resolver = resolver
        self._intake = intake
        self._notices = notices
        self._clients = clients
        self._clock = context.clock
        self._ids = context.ids
        self._pending: dict[str, _Pending] = {}
        context.config.listeners.append(self._heed_rules)

    # ── asked by operators ─────────────────────────────────────────────────────────────────────

    @method("node.list", "operator.read", "read", "The nodes that are connected.")
    async def list_nodes(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        return {"ts": self._clock.now_ms(), "nodes": list(self._described().values())}

    @method("node.describe", "operator.read", "read", "One node and what it offers.")
    async def describe(self, caller: Caller, params: NodeParams) -> dict[str, Any]:
        if (node := self._described().get(params.node_id)) is None:
            raise Invalid("unknown nodeId")
        return {"ts": self._clock.now_ms(), **node}

    def _described(self) -> dict[str, dict[str, Any]]:
        """By its id; those that are connected here before those of other gateways."""
        here = {name: described_node(client) for name, client in self._connected().items()}
        there = {name: node for name, (_where, node) in self._neighbours.nodes().items()}
        return here | {name: node for name, node in there.items() if name not in here}

    @method("node.invoke", "operator.write", "change", "Have a node do something, and wait for it.")
    async def invoke(self, caller: Caller, params: InvokeParams) -> dict[str, Any]:
        if (client := self._connected().get(params.node_id)) is not None:
            return await self._invoke_here(client, params)
        if (elsewhere := self._neighbours.nodes().get(params.node_id)) is None:
            raise NotConnected(params.node_id)
        return await self._invoke_there(*elsewhere, params)

    async def _invoke_there(
        self, neighbour: Neighbour, node: dict[str, Any], params: InvokeParams
    ) -> dict[str, Any]:
        """Once: whether a device has done something is known to its own gateway alone."""
        self._check_command(params.command, node.get("commands", ()))
        timeout_s = _timeout_ms(params) / 1000 + BETWEEN_GATEWAYS_S
        asked = msgspec.to_builtins(params)
        return await self._neighbours.ask(neighbour, "node.invoke", asked, dict, timeout_s)

    async def _invoke_for_others(self, asked: Any) -> dict[str, Any]:
        """Another gateway asks, for a caller that it has let in."""
        params = msgspec.convert(asked, InvokeParams)
        if (client := self._connected().get(params.node_id)) is None:
            raise NotConnected(params.node_id)
        return await self._invoke_here(client, params)

    def _check_command(self, command: str, offered: Iterable[str]) -> None:
        if command not in offered:
            known = ", ".join(offered) or "none"
            raise Invalid(f"node command not allowed: {command}; this node offers {known}")
        if command in self._config.gateway.nodes.deny_commands:
            raise Forbidden(f"{command} is in gateway.nodes.denyCommands")

    async def _invoke_here(self, client: Client, params: InvokeParams) -> dict[str, Any]:
        self._check_command(params.command, client.admitted.commands if client.admitted else ())
        answer = await self._ask(client, params)
        if not answer.ok:
            error = answer.error or {}
            raise NodeFailed(str(error.get("message") or "the node did not do it"))
        payload = _payload(answer)
        written = answer.payload_json or msgspec.json.encode(payload).decode()
        return {
            "ok": True,
            "nodeId": params.node_id,
            "command": params.command,
            "payload": payload,
            "payloadJSON": written,
        }

    async def _ask(self, client: Client, params: InvokeParams) -> ResultParams:
        if len(self._pending) >= INVOCATIONS_MAX:
            raise Busy(f"{INVOCATIONS_MAX} calls of nodes are under way; try again in a moment")
        timeout_ms = _timeout_ms(params)
        request_id, pending = self._ids.new(), _Pending(params.node_id)
        body: dict[str, Any] = {
            "id": request_id,
            "nodeId": params.node_id,
            "command": params.command,
            "timeoutMs": timeout_ms,
            "idempotencyKey": params.idempotency_key,
        }
        if params.params is not None:
            body["paramsJSON"] = msgspec.json.encode(params.params).decode()
        self._pending[request_id] = pending
        try:
            client.push(event("node.invoke.request", body))
            with anyio.move_on_after(timeout_ms / 1000):
                await pending.done.wait()
        finally:
            del self._pending[request_id]
        if pending.result is None:
            raise NodeFailed(f"node {params.node_id} did not answer within {timeout_ms} ms")
        return pending.result

    # ── told by nodes ──────────────────────────────────────────────────────────────────────────

    @method("node.invoke.result", "node", "change", "What became of a call, as the node says.")
    async def result(self, caller: Caller, params: ResultParams) -> NodeEventResult:
        pending = self._pending.get(params.id)
        if pending is None:
            return NodeEventResult(
                ok=True, ignored=True
            )  # too late; whoever asked has been told so
        if not pending.node_id == params.node_id == _own_id(caller):
            raise Invalid("nodeId mismatch")
        pending.result = params
        pending.done.set()
        return NodeEventResult(ok=True)

    @method("node.event", "node", "run", "Something that a node tells by itself.")
    async def event(self, caller: Caller, params: NodeEventParams) -> Heard:
        payload = _payload(params)
        body = payload if isinstance(payload, dict) else {}
        match params.event:
            case "agent.request" | "voice.transcript":
                await self._speak(caller, body)
            case "chat.subscribe" | "chat.unsubscribe":
                await self._subscribe(caller, body, wanted=params.event == "chat.subscribe")
            case name if name.startswith("exec."):
                if not await self._resolver.sees(caller.principal, self._main()):
                    return Heard(ok=True, event=name, handled=False, reason=NOT_BOUND)
                await self._tell_main(caller, name, body)
            case name:
                return Heard(ok=True, event=name, handled=False, reason="unknown event")
        return Heard(ok=True, event=params.event, handled=True)

    async def _speak(self, caller: Caller, body: dict[str, Any]) -> None:
        """Somebody at the device says something: in the node's own session, or in one that the owner bound
        to it. Nobody knows who: it is a node's word, not the owner's."""
        text = body.get("message") or body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise Invalid("message required")
        key = await self._key(caller, body.get("sessionKey"), "send")
        await self._intake.require(
            Arrival(
                road="node",
                to=key,
                text=text.strip()[:TEXT_CHARS_MAX],
                origin=Provenance("node", source_channel="node", sender=_own_id(caller)),
                caller=caller,
            )
        )

    async def _subscribe(self, caller: Caller, body: dict[str, Any], *, wanted: bool) -> None:
        key = await self._key(caller, body.get("sessionKey"), "read")
        assert caller.listening is not None
        if wanted:
            caller.listening.sessions.add(key)
        else:
            caller.listening.sessions.discard(key)

    def _main(self) -> SessionKey:
        return self._notices.main_of(self._config.agents.default_id)

    async def _tell_main(self, caller: Caller, name: str, body: dict[str, Any]) -> None:
        text = f"{name}: {msgspec.json.encode(body).decode()[:2_000]}"
        await self._notices.give(
            text,
            "next-heartbeat",
            "node",
            Provenance("node", sender=_own_id(caller)[:64]),
            begin_authority(caller, self._config, owner=False),
        )

    async def _key(self, caller: Caller, asked: Any, right: Any) -> SessionKey:
        own = SessionKey.node(self._config.agents.default_id, _own_id(caller))
        if not isinstance(asked, str) or not asked.strip() or asked.strip() == own.text:
            return own
        return (await self._resolver.resolve(caller.principal, asked, right)).key

    def _heed_rules(self) -> None:
        """A node hears no more of a session that is not bound to it any longer."""
        for name, client in self._connected().items():
            given = given_to_node(self._config, name)
            if (subscription := client.subscription) is not None:
                for key in [each for each in subscription.sessions if each.text not in given]:
                    subscription.sessions.discard(key)

    def _connected(self) -> dict[str, Client]:
        return {
            node_id(client): client
            for client in self._clients()
            if client.admitted is not None and client.admitted.role == "node"
        }


def node_id(client: Client) -> str:
    admitted = client.admitted
    assert admitted is not None
    return admitted.device_id or admitted.client.instance_id or admitted.client.id


def _own_id(caller: Caller) -> str:
    if not isinstance(caller.listening, Subscription) or not isinstance(
        caller.listening.subscriber, Client
    ):
        raise Invalid("only a node that is connected may say this")
    return node_id(caller.listening.subscriber)


def _timeout_ms(params: InvokeParams) -> int:
    return min(params.timeout_ms or INVOKE_DEFAULT_MS, INVOKE_MAX_MS)


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


def _payload(params: ResultParams | NodeEventParams) -> Any:
    if params.payload_json is None:
        return params.payload
    try:
        return untrusted.decode(params.payload_json)
    except msgspec.DecodeError:
        raise Invalid("payloadJSON is no JSON") from None
