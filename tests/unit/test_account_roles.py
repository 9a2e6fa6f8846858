"""Roles that are given back, and those of bots, on two gateways in memory."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from crossclaw.channels.account_roles import BotRoles, bot_role_of
from crossclaw.domain.errors import StoreError
from crossclaw.ledger.gateways import LEASE_S, SharingGateway
from crossclaw.runs.roles import Roles

BOT = bot_role_of("telegram", "700")


class RoleTable:
    """What the database has: each role is one gateway's."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.is_away = False
        self.is_silent = False


class RowsOf:
    """The table as one gateway uses it."""

    def __init__(self, table: RoleTable, name: str) -> None:
        self._table, self._name = table, name

    async def take_role(self, name: str) -> bool:
        await self._ask()
        return self._table.holders.setdefault(name, self._name) == self._name

    async def leave_role(self, name: str) -> None:
        await self._ask()
        if self._table.holders.get(name) == self._name:
            del self._table.holders[name]

    async def list_gateways(self) -> list[SharingGateway]:
        await self._ask()
        names = set(self._table.holders.values())
        return [_gateway(each, self._table) for each in sorted(names)]

    async def _ask(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._table.is_silent:
            await anyio.sleep_forever()
        if self._table.is_away:
            raise StoreError("the database is away")


def _gateway(name: str, table: RoleTable) -> Any:
    roles = tuple(role for role, holder in table.holders.items() if holder == name)
    return SharingGateway(
        gateway_id=name,
        address="",
        version="1",
        config_hash="",
        incarnation=name,
        joined_at=0,
        left_ms=1,
        draining=False,
        runs=0,
        roles=roles,
    )


@pytest.fixture
def table() -> RoleTable:
    return RoleTable()


def roles_of(table: RoleTable, name: str) -> Roles:
    return Roles(RowsOf(table, name))  # type: ignore[arg-type]


@pytest.mark.spec("B6")
async def test_a_role_that_is_given_back_is_the_next_ones(table: RoleTable) -> None:
    a, b = roles_of(table, "a"), roles_of(table, "b")
    assert await a.take("x")
    assert not await b.take("x")
    await a.leave("x")
    assert not a.has("x")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(b.wait_for, "x")
    assert (b.has("x"), await a.find_holder("x")) == (True, "b")
    await a.leave("x")  # what is not ours stays the other's
    assert table.holders == {"x": "b"}


@pytest.mark.spec("B6")
async def test_a_role_that_could_not_be_given_back_is_still_ours_when_it_is_wanted_again(
    table: RoleTable,
) -> None:
    a = roles_of(table, "a")
    await a.take("x")
    table.is_away = True
    await a.leave("x")
    assert not a.has("x")
    with pytest.raises(StoreError):
        await a.take("x")
    table.is_away = False
    assert await a.take("x")


@pytest.mark.spec("B6")
async def test_a_role_is_given_back_whole_when_whoever_gives_it_back_is_cancelled(
    table: RoleTable,
) -> None:
    a = roles_of(table, "a")
    await a.take("x")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await a.leave("x")
    assert table.holders == {}


@pytest.mark.spec("B6")
async def test_a_role_that_could_not_be_given_back_is_given_back_later(table: RoleTable) -> None:
    a, b = roles_of(table, "a"), roles_of(table, "b")
    await a.take("x")
    table.is_away = True
    await a.leave("x")
    table.is_away = False
    await a.wait_for("y")  # anything else about roles
    assert await b.take("x")


@pytest.mark.spec("B6")
async def test_a_role_that_somebody_took_who_was_cancelled_meanwhile_is_known_here(
    table: RoleTable,
) -> None:
    a = roles_of(table, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(a.take, "x")
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert a.has("x") == (table.holders == {"x": "a"})


@pytest.mark.spec("B6")
async def test_nobody_waits_for_a_database_that_is_silent(table: RoleTable) -> None:
    a = roles_of(table, "a")
    await a.take("x")
    table.is_silent = True
    began = anyio.current_time()
    await a.leave("x")
    with pytest.raises(StoreError, match="did not say"):
        await a.take("y")
    assert anyio.current_time() - began == pytest.approx(2 * LEASE_S)


@pytest.mark.spec("B6", "N9")
async def test_a_bot_is_one_accounts_and_free_when_none_here_is_it_any_more(
    table: RoleTable,
) -> None:
    a, b = BotRoles(roles_of(table, "a")), BotRoles(roles_of(table, "b"))
    home, work = ("telegram", "home"), ("telegram", "work")
    assert await a.take(home, "700", lambda: True) is None
    assert await b.take(work, "700", lambda: True) == "a"
    assert await a.take(work, "700", lambda: False) is None, "the supervisor says which it is"
    await a.leave(work)
    assert table.holders == {BOT: "a"}, "the other account here is that bot"
    await a.take(home, "800", lambda: True)  # another token
    assert table.holders == {bot_role_of("telegram", "800"): "a"}
    assert await b.take(work, "700", lambda: True) is None


def test_a_list_of_roles_stays_one_whatever_a_platform_calls_a_bot() -> None:
    assert "," not in bot_role_of("matrix", "@a,cron:example.org")
