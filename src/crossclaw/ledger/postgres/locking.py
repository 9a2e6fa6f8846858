"""Locking: steps of several gateways that touch the same things run one after the other.

Before a transaction reads anything it locks, in one statement and sorted, all that its steps touch
(the names of `sharing.py`), until its commit. So the rules hold between gateways for the same
reason for which they hold within a transaction, and these locks cannot deadlock. A step that may
touch anything locks everything. Rows that no step can name beforehand may still deadlock: pictures
that two store at once, waits of others that an end removes. The server ends one of the two, which
is tried again.
"""

from collections.abc import Iterable
from hashlib import blake2b

from crossclaw.ledger.postgres.dialect import PgStatement
from crossclaw.ledger.postgres.wire import BoundStatement, bound

EVERYTHING_LOCK = 0x63726F7373636C62  # "crossclb": shared by whoever locks names

_ALL = bound(
    PgStatement(b"SELECT 1 FROM (SELECT pg_advisory_xact_lock($1::bigint)) s", writes=False),
    (EVERYTHING_LOCK,),
)
_SOME = bound(
    PgStatement(b"SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared($1::bigint)) s", writes=False),
    (EVERYTHING_LOCK,),
)
_NAMES = PgStatement(
    b"SELECT count(pg_advisory_xact_lock(x)::text) FROM unnest($1::bigint[]) AS x", writes=False
)


def locks_for(touched: Iterable[set[str] | None]) -> list[BoundStatement]:
    """The lock statements that come before all others in a transaction."""
    names: set[str] = set()
    for each in touched:
        if each is None:
            return [_ALL]
        names |= each
    if not names:
        return [_SOME]
    numbers = sorted({_number(name) for name in names})
    return [_SOME, bound(_NAMES, ("{" + ",".join(map(str, numbers)) + "}",))]


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)
