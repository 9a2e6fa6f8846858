"""Sessions that begin anew by themselves before a message is accepted: where the config or the road asks for it."""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.sessions import Session
from crossclaw.ledger.operations import Op, ResetSession
from crossclaw.policy.freshness import decide_reset, session_type
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import BeginsAnew
from crossclaw.sessions.run_builder import RunBuilder


async def begins_anew(
    when: BeginsAnew, session: Session, builder: RunBuilder, run_store: RunStore, at: int
) -> list[Op[Any]]:
    """The operations of a reset, for the step that accepts the message; none if none is due. A session in which
    nothing was said is new already."""
    since = None
    if when == "where due":
        due, since = _is_due(builder.config, session, at), session.updated_at
    else:
        due = when == "each time" and await run_store.last_seq(session.session_id) > 0
    if not due:
        return []
    anew = builder.ids.new()
    return [ResetSession(key=session.key, session_id=anew, at=at, if_untouched_since=since)]


def _is_due(config: Config, session: Session, now: int) -> bool:
    if not config.session.resets_at_all:
        return False
    last = session.last_address.channel if session.last_address else None
    rule = config.session.reset_rule(session_type(session.key), last or session.channel)
    return decide_reset(rule, session.updated_at, now).allowed
