"""Caching: for how long a service should keep its prompt cache.

Caching for five minutes adds a quarter to the price of reading, for an hour it doubles it. Where
people answer after a longer pause, five minutes are paid for in vain, and the whole conversation is
read anew with each message.
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
    """How long to cache: an hour if one of the last pauses was longer than five minutes and within
    that hour."""
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
