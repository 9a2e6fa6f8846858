"""Caching: how long a service should remember what it was sent.

Five minutes cost a quarter more than reading, an hour as much again. Where people answer after a longer pause,
five minutes are paid for in vain, and the whole conversation is read anew with each message.
"""

from collections.abc import Sequence

from crossclaw.config.agents import CacheRetention
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import CacheTtl

SHORT_MS = 5 * 60_000
LONG_MS = 60 * 60_000
LOOKED_AT = 6  # messages of people: how a session goes now


def ttl_of(entries: Sequence[Entry], retention: CacheRetention) -> CacheTtl:
    """An hour where one of the last pauses was longer than five minutes and not longer than that hour."""
    if retention != "auto":
        return "1h" if retention == "long" else "5m"
    seen = 0
    for place in range(len(entries) - 1, 0, -1):
        if not isinstance(entries[place].message, UserMessage):
            continue
        if SHORT_MS < entries[place].at - entries[place - 1].at <= LONG_MS:
            return "1h"
        seen += 1
        if seen == LOOKED_AT:
            break
    return "5m"
