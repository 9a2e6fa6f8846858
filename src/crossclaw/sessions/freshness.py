"""Sessions that begin anew in the step that accepts a message: where the config, the road or a command asks for it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crossclaw.config import Config
from crossclaw.domain.errors import Busy
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.ledger.operations import Op, ResetSession, Submitted
from crossclaw.policy.freshness import decide_reset, session_type
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import BeginsAnew
from crossclaw.sessions.changing import RESET, STOP_TRIES
from crossclaw.sessions.run_builder import RunBuilder

Accept = Callable[[Sequence[Op[Any]]], Awaitable[Submitted]]
"""Accepts a message in one step, after these operations."""


async def begins_anew(
    when: BeginsAnew, session: Session | None, builder: RunBuilder, run_store: RunStore, at: int
) -> list[Op[Any]]:
    """The operations of a reset, for the step that accepts the message; none if none is due. A session in which
    nothing was said is new already."""
    if session is None or when == "never":
        return []
    since = None
    if when == "where due":
        due, since = _is_due(builder.config, session, at), session.updated_at
    else:
        due = await run_store.last_seq(session.session_id) > 0
    if not due:
        return []
    anew = builder.ids.new()
    return [ResetSession(key=session.key, session_id=anew, at=at, if_untouched_since=since)]


async def begin_anew(
    key: SessionKey,
    builder: RunBuilder,
    run_store: RunStore,
    lanes: Lanes,
    is_known: Callable[[], Awaitable[bool]],
    accept: Accept,
) -> Submitted:
    """Stops what runs in a session, and resets it in the step that accepts a request. A request that was accepted
    before, perhaps this very moment by another gateway, stops and resets nothing: so what runs is looked for first,
    and the request after that."""
    for left in reversed(range(STOP_TRIES)):
        running = await run_store.list_open(key)
        if await is_known():
            break
        await lanes.abort_runs(running, RESET)
        anew = ResetSession(key=key, session_id=builder.ids.new(), at=builder.clock.now_ms())
        try:
            return await accept([anew])
        except Busy:  # another message came in between and is being answered already
            if not left:
                raise
    return await accept(())


def _is_due(config: Config, session: Session, now: int) -> bool:
    if not config.session.resets_at_all:
        return False
    last = session.last_address.channel if session.last_address else None
    rule = config.session.reset_rule(session_type(session.key), last or session.channel)
    return decide_reset(rule, session.updated_at, now).allowed
