"""Builds that break one promise each, in the gateway's own process. The rig must find out about each of them.

honest      as it is
unheard     hears no hints of others; it must work all the same, only later

forgetful   does not know a retried message again
unguarded   does not look whether it still has its place before it stores
heedless    does not drop its runs, and does not begin anew, when its lease is over
grabbing    takes a role that another gateway has
hopeful     takes a commit that was cut off for stored
doubting    takes a commit that was cut off for lost, and stores again
hurried     asks what became of a commit while the connection that sent it may still be at work
unending    does not let the server end a transaction that stands still
hasty       does not wait for the server's disk
lagging     is honest, and its standby an asynchronous one
unlooking   hears no hints, and does not look each second either
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.gateways import LeaseRenewal
from crossclaw.ledger.postgres import listener, membership, store
from crossclaw.ledger.postgres.ledger import PostgresLedger
from crossclaw.ledger.postgres.writer import PostgresWriter
from crossclaw.runs.lease import GatewayLease

log = logging.getLogger(__name__)


def _be_unheard() -> None:
    listener.CHANNEL = "nobody"


def _be_unguarded() -> None:
    PostgresLedger.guard = lambda self, sql, *values: None  # type: ignore[method-assign]


def _be_heedless() -> None:
    async def beat(lease: GatewayLease) -> LeaseRenewal:
        try:
            return await lease._membership.beat()
        except StoreError as error:
            log.warning("and it goes on all the same: %s", error)
            await anyio.sleep(0.2)
            return LeaseRenewal(has_dead=True, draining=False)

    GatewayLease._next_beat = beat  # type: ignore[assignment, method-assign]


def _be_grabbing() -> None:
    async def take(self: membership.PostgresMembership, name: str) -> bool:
        sql = "INSERT INTO roles (name, owner) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET owner = $2"
        await self._ask(sql, name, self._incarnation)
        return True

    membership.PostgresMembership.take_role = take  # type: ignore[method-assign]


def _be_hopeful() -> None:
    PostgresWriter._has_committed = lambda self: True  # type: ignore[method-assign]


def _be_doubting() -> None:
    PostgresWriter._has_committed = lambda self: False  # type: ignore[method-assign]


def _be_hurried() -> None:
    PostgresWriter._lock_own = lambda self, wire: None  # type: ignore[method-assign]


def _be_unending() -> None:
    store._SHARED_WRITES = store._SHARED_WRITES.replace(
        "SET idle_in_transaction_session_timeout TO 2000", "SELECT 1"
    )


def _be_hasty() -> None:
    """None of its connections: a beat that waits for the disk takes along what others have stored before it."""
    store._SETTINGS += "; SET synchronous_commit TO off"
    store._DURABLE = "SELECT 1"


def _be_unlooking() -> None:
    async def nothing(self: Any, *_given: Any) -> list[Any]:
        await anyio.lowlevel.checkpoint()
        return []

    _be_unheard()
    membership.PostgresMembership.list_claimable = nothing  # type: ignore[assignment, method-assign]
    PostgresLedger.lanes_with_work = nothing


BUILDS: dict[str, Callable[[], None]] = {
    "unheard": _be_unheard,
    "unguarded": _be_unguarded,
    "heedless": _be_heedless,
    "grabbing": _be_grabbing,
    "hopeful": _be_hopeful,
    "doubting": _be_doubting,
    "hurried": _be_hurried,
    "unending": _be_unending,
    "hasty": _be_hasty,
    "unlooking": _be_unlooking,
}


def break_promise(build: str) -> None:
    if build in BUILDS:
        BUILDS[build]()
