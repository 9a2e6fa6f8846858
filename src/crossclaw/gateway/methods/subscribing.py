"""Subscribing: which sessions a connection gets events of. Which events these are is decided elsewhere (audience)."""

from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, Listening, Params, Result, method
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

    @method("sessions.subscribe", "operator.read", "read", "Hear of every session that changes.")
    async def subscribe(self, caller: Caller, params: SubscribeParams) -> SubscribeResult:
        _subscription(caller).all_sessions = True
        return SubscribeResult(subscribed=True)

    @method("sessions.unsubscribe", "operator.read", "read", "Hear no more of sessions.")
    async def unsubscribe(self, caller: Caller, params: SubscribeParams) -> SubscribeResult:
        if caller.listening is not None:
            caller.listening.all_sessions = False
        return SubscribeResult(subscribed=False)

    @method(
        "sessions.messages.subscribe",
        "operator.read",
        "read",
        "Hear everything that happens in one session.",
    )
    async def subscribe_messages(self, caller: Caller, params: KeyParams) -> SubscribeResult:
        subscription = _subscription(caller)
        handle = await self._resolver.resolve(caller.principal, params.key, "create")
        subscription.sessions.add(handle.key)
        return SubscribeResult(subscribed=True, key=shown_key(handle.key))

    @method(
        "sessions.messages.unsubscribe", "operator.read", "read", "Hear no more of that session."
    )
    async def unsubscribe_messages(self, caller: Caller, params: KeyParams) -> SubscribeResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "create")
        if caller.listening is not None:
            caller.listening.sessions.discard(handle.key)
        return SubscribeResult(subscribed=False, key=shown_key(handle.key))


def _subscription(caller: Caller) -> Listening:
    if caller.listening is None:
        raise Invalid("only a WebSocket connection can subscribe")
    return caller.listening
