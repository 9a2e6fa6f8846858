"""Membership on PostgreSQL: the rows of the gateways that share the store. All times are the database's."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import StoreFenced, StoreLocked
from crossclaw.domain.keys import SessionKey, key_of
from crossclaw.ledger.gateways import (
    BEAT_S,
    EVERYTHING,
    GATEWAYS_MAX,
    LANES_LOOKED_AT,
    LEASE_S,
    GatewayFacts,
    LeaseRenewal,
    Partition,
    SharingGateway,
)
from crossclaw.ledger.postgres.errors import READ_TROUBLE, ConnectionLost, explain
from crossclaw.ledger.postgres.migrate import make_shared_tables
from crossclaw.ledger.postgres.shared_settings import PostgresSharedSettings
from crossclaw.ledger.postgres.wire import PgWire

log = logging.getLogger(__name__)

T = TypeVar("T")

CALLS_AT_ONCE = 4  # a connection each, kept open
JOIN_PATIENCE_S = LEASE_S + 2 * BEAT_S  # an earlier start that was killed is over by then
_JOIN_AGAIN_S = 0.25

IS_HERE = "SELECT 1 FROM gateways WHERE incarnation = $1 FOR KEY SHARE"
"""Checked by each transaction of a gateway; it also keeps others from removing the row
meanwhile."""
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_FORGET = f"DELETE FROM gateways WHERE gateway_id = $1 AND until < {_NOW}"
_JOIN = (
    "INSERT INTO gateways (incarnation, gateway_id, until, joined_at, address, version, config_hash) "
    f"VALUES ($1, $2, {_NOW} + $6::bigint, {_NOW}, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING 1"
)
# Owner after owner, each found by the index: there are as many as gateways, and runs may be very many.
_ORPHANS = (
    "WITH RECURSIVE o(owner) AS (SELECT min(owner) FROM runs WHERE owner IS NOT NULL UNION ALL "
    "SELECT (SELECT min(r.owner) FROM runs r WHERE r.owner > o.owner) FROM o WHERE o.owner IS NOT NULL) "
    "SELECT 1 FROM o WHERE owner IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM gateways g WHERE g.incarnation = o.owner)"
)
_DEAD = f"EXISTS (SELECT 1 FROM gateways d WHERE d.until < {_NOW}) OR EXISTS ({_ORPHANS})"
_BEAT = (
    f"UPDATE gateways SET until = {_NOW} + $2::bigint WHERE incarnation = $1 "
    f"RETURNING draining <> 0, {_DEAD}"
)
_LIST = (
    f"SELECT gateway_id, address, version, config_hash, incarnation, joined_at, until - {_NOW}, "
    "draining <> 0, {runs}, "
    "(SELECT string_agg(r.name, ',' ORDER BY r.name) FROM roles r WHERE r.owner = g.incarnation), "
    "config_epoch, why_no_runs, agents FROM gateways g ORDER BY gateway_id LIMIT $1"
)
_LIST_ONLY = _LIST.format(runs="0")
_LIST_COUNTED = _LIST.format(runs="(SELECT count(*) FROM runs r WHERE r.owner = g.incarnation)")
_HOLDER = (
    "SELECT owner, EXISTS (SELECT 1 FROM gateways g WHERE g.incarnation = r.owner) FROM roles r "
    "WHERE name = $1"
)
_TAKE_ROLE = (
    "INSERT INTO roles (name, owner) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET owner = $2 "
    "WHERE roles.owner IN ($2, $3) RETURNING 1"
)
_CLAIMABLE = (
    "SELECT key, agent_id FROM runs r WHERE status = 'queued' AND ended_at IS NULL "
    "AND (r.id + $3::bigint) % $4::bigint < $5::bigint AND ($6 = '' OR $6 LIKE '%/' || r.agent_id || '/%') "
    "AND (owner IS NULL OR owner = $1) AND NOT EXISTS (SELECT 1 FROM runs e WHERE e.key = r.key "
    "AND e.ended_at IS NULL AND e.id < r.id) ORDER BY id LIMIT $2"
)


class PostgresMembership:
    """This gateway's membership. `joined` is called once it has joined: from then on its
    transactions check its row."""

    lease_s = LEASE_S

    def __init__(
        self,
        connect: Callable[[], PgWire],
        incarnation: str,
        joined: Callback,
        *,
        inline: bool,
    ) -> None:
        self._connect, self._incarnation, self._joined = connect, incarnation, joined
        self._inline = inline
        self.settings = PostgresSharedSettings(self._call, incarnation)
        self._wires: list[PgWire] = []
        self._limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)

    async def join(self, facts: GatewayFacts) -> None:
        until = time.monotonic() + JOIN_PATIENCE_S
        while not await self._call(lambda wire: self._try_to_join(wire, facts)):
            if time.monotonic() > until:
                raise StoreLocked(
                    f"another gateway named {facts.gateway_id!r} uses this ledger: give each its own name "
                    "with ledger.gateway"
                )
            await anyio.sleep(_JOIN_AGAIN_S)
        self._joined()
        log.info("this gateway shares the ledger with others, under the name %s", facts.gateway_id)

    def _try_to_join(self, wire: PgWire, facts: GatewayFacts) -> bool:
        make_shared_tables(wire)
        wire.ask(_FORGET, facts.gateway_id)
        values = (facts.gateway_id, facts.address, facts.version, facts.config_hash)
        return bool(wire.ask(_JOIN, self._incarnation, *values, self._lease_ms))

    @property
    def _lease_ms(self) -> int:
        return int(self.lease_s * 1000)

    async def beat(self) -> LeaseRenewal:
        rows = await self._ask(_BEAT, self._incarnation, self._lease_ms)
        if not rows:
            raise StoreFenced(
                "this gateway was not heard of for too long; others go on with its runs, and it begins anew"
            )
        draining, has_dead = rows[0]
        return LeaseRenewal(draining=draining, has_dead=has_dead)

    async def publish_address(self, address: str) -> None:
        sql = "UPDATE gateways SET address = $1 WHERE incarnation = $2"
        await self._ask(sql, address, self._incarnation)

    async def publish_config(self, keys: Mapping[str, str], digest: str, epoch: int) -> None:
        sql = (
            "UPDATE gateways SET config_keys = $1, config_hash = $2, config_epoch = $3::bigint "
            "WHERE incarnation = $4"
        )
        text = msgspec.json.encode(keys).decode()
        await self._ask(sql, text, digest, epoch, self._incarnation)

    async def find_config(self, incarnation: str) -> Mapping[str, str]:
        sql = "SELECT config_keys FROM gateways WHERE incarnation = $1"
        rows = await self._ask(sql, incarnation)
        return msgspec.json.decode(rows[0][0], type=dict[str, str]) if rows else {}

    async def publish_agents(self, agents: Sequence[str]) -> None:
        sql = "UPDATE gateways SET agents = $1 WHERE incarnation = $2"
        await self._ask(sql, msgspec.json.encode(agents).decode(), self._incarnation)

    async def publish_why_no_runs(self, why: str | None) -> None:
        sql = "UPDATE gateways SET why_no_runs = $1 WHERE incarnation = $2"
        await self._ask(sql, why, self._incarnation)

    async def leave(self) -> None:
        await self._ask("UPDATE gateways SET until = 0 WHERE incarnation = $1", self._incarnation)

    async def list_gateways(self, *, counted: bool = False) -> Sequence[SharingGateway]:
        rows = await self._ask(_LIST_COUNTED if counted else _LIST_ONLY, GATEWAYS_MAX)
        return [
            SharingGateway(
                gateway_id=row[0],
                address=row[1],
                version=row[2],
                config_hash=row[3],
                incarnation=row[4],
                joined_at=row[5],
                left_ms=row[6],
                draining=row[7],
                runs=row[8],
                roles=tuple(row[9].split(",")) if row[9] else (),
                config_epoch=row[10],
                why_no_runs=row[11],
                agents=msgspec.json.decode(row[12], type=tuple[str, ...]),
            )
            for row in rows
        ]

    async def ask_to_drain(self, gateway_id: str) -> bool:
        sql = "UPDATE gateways SET draining = 1 WHERE gateway_id = $1 RETURNING 1"
        return bool(await self._ask(sql, gateway_id))

    async def take_role(self, name: str) -> bool:
        """Takes a role, but only from the holder that was seen to be dead: another one may have
        taken it and joined since the look."""
        found = await self._ask(_HOLDER, name)
        holder, is_there = found[0] if found else (self._incarnation, False)
        if is_there:
            return bool(holder == self._incarnation)
        return bool(await self._ask(_TAKE_ROLE, name, self._incarnation, holder))

    async def leave_role(self, name: str) -> None:
        sql = "DELETE FROM roles WHERE name = $1 AND owner = $2"
        await self._ask(sql, name, self._incarnation)

    async def list_claimable(self, share: Partition = EVERYTHING) -> Sequence[SessionKey]:
        agents = "" if share.agents is None else f"/{'/'.join(share.agents)}/"
        numbers = (share.count - share.place, share.count, share.width)
        rows = await self._ask(_CLAIMABLE, self._incarnation, LANES_LOOKED_AT, *numbers, agents)
        return [key_of(key, agent_id) for key, agent_id in rows]

    # ── the connections ────────────────────────────────────────────────────────────────────────

    async def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._call(lambda wire: wire.ask(sql, *values))

    async def _call(self, work: Callable[[PgWire], T]) -> T:
        """Runs work on a connection, in a thread that is abandoned with its connection if the
        caller is cancelled."""
        try:
            if self._inline:
                await anyio.lowlevel.checkpoint()
                return self._on_wire(work)
            return await anyio.to_thread.run_sync(
                self._on_wire, work, abandon_on_cancel=True, limiter=self._limiter
            )
        except READ_TROUBLE as error:
            raise explain(error) from error

    def _on_wire(self, work: Callable[[PgWire], T]) -> T:
        """Runs work on a connection; once more on a new one, since an idle connection may have been
        lost long ago."""
        try:
            return self._with(self._wires.pop() if self._wires else self._connect(), work)
        except ConnectionLost:
            return self._with(self._connect(), work)

    def _with(self, wire: PgWire, work: Callable[[PgWire], T]) -> T:
        try:
            answer = work(wire)
        except BaseException:
            wire.close()
            raise
        self._wires.append(wire)
        return answer

    def close(self) -> None:
        while self._wires:
            self._wires.pop().close()
