"""Freshness: whether a session begins anew before its next message. Only where `session.reset` says so."""

from datetime import datetime, timedelta, tzinfo

from crossclaw.config.session import ResetRule, SessionType
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision


def session_type(key: SessionKey) -> SessionType:
    if key.thread_id is not None:
        return "thread"
    return "direct" if key.chat_type == "direct" else "group"


def decide_reset(
    rule: ResetRule | None, updated_at: int, now_ms: int, zone: tzinfo | None = None
) -> Decision:
    """Decides a reset. `zone` None means the gateway's own time zone."""
    if rule is None:
        return Decision(False, "session.reset is not set")
    if rule.idle_minutes is not None and now_ms - updated_at > rule.idle_minutes * 60_000:
        return Decision(True, f"nobody talked for {rule.idle_minutes} minutes")
    if rule.at_hour is not None and updated_at < _last_hour_ms(rule.at_hour, now_ms, zone):
        return Decision(True, f"a new day began at {rule.at_hour}:00")
    return Decision(False, "it is fresh")


def _last_hour_ms(hour: int, now_ms: int, zone: tzinfo | None) -> int:
    """The last time at which the clock showed this hour. Days are counted by the calendar, so that a day with
    23 or 25 hours has one such moment as well."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    struck = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if struck > now:
        struck -= timedelta(days=1)
    return int(struck.timestamp() * 1000)
