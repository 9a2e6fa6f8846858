"""Sessions that begin anew by themselves, where the config asks for it: before a message is accepted."""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.sessions import Session
from crossclaw.ledger.operations import Op, ResetSession
from crossclaw.policy.freshness import decide_reset, session_type


class Freshness:
    def __init__(self, config: Config, clock: Clock, ids: Ids) -> None:
        self._config = config
        self._clock = clock
        self._ids = ids

    def before_message(self, session: Session | None) -> list[Op[Any]]:
        """What has to happen in the same step, before the message is accepted."""
        if session is None:
            return []
        last = session.last_address.channel if session.last_address else None
        rule = self._config.session.reset_rule(session_type(session.key), last or session.channel)
        now = self._clock.now_ms()
        if not decide_reset(rule, session.updated_at, now).allowed:
            return []
        return [
            ResetSession(
                key=session.key,
                session_id=self._ids.new(),
                at=now,
                if_untouched_since=session.updated_at,
            )
        ]
