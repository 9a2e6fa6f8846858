"""Sessions that begin anew by themselves before a message is accepted, where the config asks for it."""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.sessions import Session
from crossclaw.ledger.operations import Op, ResetSession
from crossclaw.policy.freshness import decide_reset, session_type
from crossclaw.sessions.run_builder import RunBuilder


def begins_anew(config: Config, session: Session, builder: RunBuilder) -> list[Op[Any]]:
    """The operations of a reset that is due, for the step that accepts the message; none if it is not."""
    if not config.session.resets_at_all:
        return []
    last = session.last_address.channel if session.last_address else None
    rule = config.session.reset_rule(session_type(session.key), last or session.channel)
    now = builder.clock.now_ms()
    if not decide_reset(rule, session.updated_at, now).allowed:
        return []
    return [
        ResetSession(
            key=session.key,
            session_id=builder.ids.new(),
            at=now,
            if_untouched_since=session.updated_at,
        )
    ]
