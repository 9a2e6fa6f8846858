"""Node events: what a node tells by itself. It speaks in its own session or in one that the owner bound to it, follows those
sessions, and tells the main session what became of programs."""

from typing import Any

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.node_calls import NodeCalls, calling_node
from crossclaw.policy.visibility import given_to_node
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.notices import Notices
from crossclaw.sessions.arrivals import Arrival
from crossclaw.sessions.intake import Intake

TEXT_CHARS_MAX = 100_000  # of what a node says; a long dictation has a tenth of it

NOT_BOUND = "the main session is not bound to this node (gateway.nodes.sessions)"


class NodeEvents:
    """Does what a node's event asks for."""

    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        intake: Intake,
        notices: Notices,
        calls: NodeCalls,
    ) -> None:
        self._config = context.config
        self._resolver = resolver
        self._intake = intake
        self._notices = notices
        self._calls = calls
        context.config.listen(self._heed_rules)

    async def take(self, caller: Caller, event: str, payload: Any) -> str | None:
        """Acts on an event of a node. Returns None, or why nothing was done."""
        body = payload if isinstance(payload, dict) else {}
        match event:
            case "agent.request" | "voice.transcript":
                await self._speak(caller, body)
            case "chat.subscribe" | "chat.unsubscribe":
                await self._subscribe(caller, body, wanted=event == "chat.subscribe")
            case name if name.startswith("exec."):
                if not await self._resolver.sees(caller.principal, self._main()):
                    return NOT_BOUND
                await self._tell_main(caller, name, body)
            case _:
                return "unknown event"
        return None

    async def _speak(self, caller: Caller, body: dict[str, Any]) -> None:
        """Takes in what somebody at the device says: in the node's own session, or in one that the owner bound
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
                origin=Provenance("node", source_channel="node", sender=calling_node(caller)),
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
        return self._config.main_key(self._config.agents.default_id)

    async def _tell_main(self, caller: Caller, name: str, body: dict[str, Any]) -> None:
        text = f"{name}: {msgspec.json.encode(body).decode()[:2_000]}"
        await self._notices.give(
            text,
            "next-heartbeat",
            "node",
            Provenance("node", sender=calling_node(caller)[:64]),
            caller,
        )

    async def _key(self, caller: Caller, named: Any, right: Any) -> SessionKey:
        own = SessionKey.node(self._config.agents.default_id, calling_node(caller))
        if not isinstance(named, str) or not named.strip() or named.strip() == own.text:
            return own
        return (await self._resolver.resolve(caller.principal, named, right)).key

    def _heed_rules(self) -> None:
        """A node hears no more of a session that is not bound to it any longer."""
        for name, client in self._calls.connected().items():
            given = given_to_node(self._config, name)
            if (subscription := client.subscription) is not None:
                for key in [each for each in subscription.sessions if each.text not in given]:
                    subscription.sessions.discard(key)
