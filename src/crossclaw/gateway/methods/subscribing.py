"""Subscribing: which sessions a connection hears of. What it hears is decided elsewhere (audience)."""

from typing import Any

from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, Listening, Method, Params, Result
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.sessions import KeyParams
from crossclaw.gateway.publisher import shown_key


class SubscribeParams(Params, frozen=True):
    pass


class SubscribeResult(Result, frozen=True):
    subscribed: bool
    key: str | None = None


class Subscribing:
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def subscribe(self, caller: Caller, params: SubscribeParams) -> SubscribeResult:
        _subscription(caller).all_sessions = True
        return SubscribeResult(subscribed=True)

    async def unsubscribe(self, caller: Caller, params: SubscribeParams) -> SubscribeResult:
        if caller.listening is not None:
            caller.listening.all_sessions = False
        return SubscribeResult(subscribed=False)

    async def subscribe_messages(self, caller: Caller, params: KeyParams) -> SubscribeResult:
        subscription = _subscription(caller)
        handle = await self._resolver.resolve(caller.principal, params.key, "create")
        subscription.sessions.add(handle.key)
        return SubscribeResult(subscribed=True, key=shown_key(handle.key))

    async def unsubscribe_messages(self, caller: Caller, params: KeyParams) -> SubscribeResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "create")
        if caller.listening is not None:
            caller.listening.sessions.discard(handle.key)
        return SubscribeResult(subscribed=False, key=shown_key(handle.key))

    def methods(self) -> list[Method[Any]]:
        table: list[tuple[str, Any, Any, str]] = [
            ("sessions.subscribe", SubscribeParams, self.subscribe,
             "Hear of every session that changes."),
            ("sessions.unsubscribe", SubscribeParams, self.unsubscribe,
             "Hear no more of sessions."),
            ("sessions.messages.subscribe", KeyParams, self.subscribe_messages,
             "Hear everything that happens in one session."),
            ("sessions.messages.unsubscribe", KeyParams, self.unsubscribe_messages,
             "Hear no more of that session."),
        ]  # fmt: skip
        return [
            Method(
                name=name,
                params=params,
                result=SubscribeResult,
                scope="operator.read",
                effect="read",
                handle=handle,
                summary=summary,
            )
            for name, params, handle, summary in table
        ]


def _subscription(caller: Caller) -> Listening:
    if caller.listening is None:
        raise Invalid("only a WebSocket connection can subscribe")
    return caller.listening
