"""node.*: devices that do things for the house, and what they tell it.

A node is a connection of role `node`. It is asked by an event and answers by a call; while it is not
connected it can do nothing, so nothing of this needs the ledger but the words it brings.
"""

from collections.abc import Callable, Sequence
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
from crossclaw.gateway.subscribers import Subscription
from crossclaw.policy.visibility import given_to_node
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.notices import Notices
from crossclaw.sessions.arrivals import Arrival, begin_authority
from crossclaw.sessions.intake import Intake

INVOKE_DEFAULT_MS, INVOKE_MAX_MS = 30_000, 10 * 60_000  # a person may have to say yes on the device
INVOCATIONS_MAX = 1_000  # each holds a task; devices are few
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
    ) -> None:
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
        nodes = [_described(client) for client in self._connected().values()]
        return {"ts": self._clock.now_ms(), "nodes": nodes}

    @method("node.describe", "operator.read", "read", "One node and what it offers.")
    async def describe(self, caller: Caller, params: NodeParams) -> dict[str, Any]:
        client = self._connected().get(params.node_id)
        if client is None:
            raise Invalid("unknown nodeId")
        return {"ts": self._clock.now_ms(), **_described(client)}

    @method("node.invoke", "operator.write", "change", "Have a node do something, and wait for it.")
    async def invoke(self, caller: Caller, params: InvokeParams) -> dict[str, Any]:
        client = self._connected().get(params.node_id)
        if client is None or client.admitted is None:
            raise NotConnected(params.node_id)
        if params.command not in client.admitted.commands:
            known = ", ".join(client.admitted.commands) or "none"
            raise Invalid(f"node command not allowed: {params.command}; this node offers {known}")
        if params.command in self._config.gateway.nodes.deny_commands:
            raise Forbidden(f"{params.command} is in gateway.nodes.denyCommands")
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
        timeout_ms = min(params.timeout_ms or INVOKE_DEFAULT_MS, INVOKE_MAX_MS)
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
            self._config.agents.default_id,
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


def _described(client: Client) -> dict[str, Any]:
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
