"""sessions.fork: a new conversation with the history of another up to one of its entries."""

from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import NotFound
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import words_of
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person
from crossclaw.ledger.forking import ForkSession
from crossclaw.runs.context import ServiceContext


class ForkParams(Params, frozen=True):
    session_key: Filled
    entry_id: Filled | None = None
    """Ours: optional; without it the whole history is taken."""
    agent_id: str | None = None


class ForkResult(Result, frozen=True):
    session_key: str
    editor_text: str | None = None
    """The words of the person's message that was forked at: it is not in the fork, to be said otherwise."""


class Forking:
    def __init__(self, context: ServiceContext, resolver: Resolver) -> None:
        self._ledger = context.ledger
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids
        self._resolver = resolver

    @method(
        "sessions.fork",
        "operator.write",
        "change",
        "A new session with the history up to an entry; at a person's message it ends before it.",
    )
    async def fork(self, caller: Caller, params: ForkParams) -> ForkResult:
        """Copies a history into a new session. Nothing of the first session is changed, whatever goes on in it."""
        require_person(self._resolver, caller)
        principal = caller.principal
        handle = await self._resolver.resolve(
            principal, params.session_key, "read", params.agent_id
        )
        if handle.session is None:
            raise NotFound(f"session not found: {params.session_key}")
        forked = await self._ledger.do(self._step(handle.key, params.entry_id))
        self._feed.publish(SessionChanged(forked.session.key, "fork"))
        asked = None if forked.forked_at is None else words_of(forked.forked_at)
        return ForkResult(session_key=forked.session.key.shown, editor_text=asked)

    def _step(self, source: SessionKey, entry_id: str | None) -> ForkSession:
        return ForkSession(
            source=source,
            entry_id=entry_id,
            key=SessionKey.named(source.agent_id, f"fork-{self._ids.short()}"),
            session_id=self._ids.new(),
            note_id=self._ids.short(),
            at=self._clock.now_ms(),
        )
