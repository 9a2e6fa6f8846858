"""Which of two gateways keeps a chat account: one that can open it, and never two as the same bot."""

from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.channels import supervisor
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.errors import AccountBroken, ChannelDown
from crossclaw.ledger.gateways import SharingGateway
from crossclaw.runs import roles
from crossclaw.testing import ScriptedProvider
from tests.breaking import break_off
from tests.channels.pigeon import Loft, installed
from tests.cluster.linked import Linked, linked, see_each_other, until
from tests.databases import databases
from tests.flows.talking import call

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
NO_KEYS = "its keys are not on this gateway"


@pytest.fixture
def loft(tmp_path: Path) -> Generator[Loft]:
    with installed(tmp_path / "site") as found:
        yield found


class Gateways:
    """Opened one after the other on one ledger."""

    def __init__(self, folder: Path, closing: AsyncExitStack) -> None:
        self._folder, self._closing = folder, closing
        self._url = databases().url(folder / "ledger")

    async def open(self, name: str, *accounts: str) -> Linked:
        pigeon = {"botToken": "t", "allowFrom": [7], "accounts": {each: {} for each in accounts}}
        model, raw = ScriptedProvider(lambda _: "heard"), {"channels": {"pigeon": pigeon}}
        one = linked(self._folder, self._url, name, model, raw)
        return await self._closing.enter_async_context(one)


@pytest.fixture
async def gateways(
    tmp_path: Path, quick_links: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Gateways]:
    monkeypatch.setattr(roles, "BEAT_S", 0.05)
    async with AsyncExitStack() as closing:
        yield Gateways(tmp_path, closing)


async def account(gateway: Linked, name: str) -> dict[str, Any]:
    shown = (await call(gateway.gateway, "channels.status"))["channelAccounts"]["pigeon"]
    found: dict[str, Any] = next(each for each in shown if each["accountId"] == name)
    return found


async def until_shown(gateway: Linked, name: str, state: str) -> dict[str, Any]:
    async def is_shown() -> bool:
        return bool((await account(gateway, name))["state"] == state)

    await until(is_shown)
    return await account(gateway, name)


@pytest.mark.spec("N9")
async def test_a_gateway_that_cannot_open_an_account_leaves_it_to_one_that_can(
    gateways: Gateways, loft: Loft
) -> None:
    loft.faults["home"] = deque([AccountBroken(NO_KEYS)])
    a = await gateways.open("a", "home")
    alone = await until_shown(a, "home", "broken")
    assert alone["lastError"] == NO_KEYS
    assert NO_KEYS in str(await call(a.gateway, "attention.list"))

    b = await gateways.open("b", "home")
    await see_each_other(a, b)
    await until_shown(b, "home", "running")
    seen_from_a = await until_shown(a, "home", "running")
    assert "lastError" not in seen_from_a, "it is b's that is shown"
    assert NO_KEYS not in str(await call(a.gateway, "attention.list"))
    assert loft.opened == ["home", "home"]


async def test_an_account_that_is_down_on_one_gateway_is_told_of_on_the_other(
    gateways: Gateways, loft: Loft
) -> None:
    """A platform that is away is away for all: its gateway keeps the account, and tries again."""
    loft.faults["home"] = deque([ChannelDown("the loft is closed", retry_after_s=1_000.0)])
    a, b = await gateways.open("a", "home"), await gateways.open("b", "home")
    await see_each_other(a, b)
    await until_shown(b, "home", "waiting")

    async def is_told() -> bool:
        rows = (await call(b.gateway, "attention.list", kinds=["channel"]))["rows"]
        return [each["why"] for each in rows] == ["the loft is closed"]

    await until(is_told)


async def test_an_account_that_a_gateway_cannot_connect_for_long_is_left_to_another(
    gateways: Gateways, loft: Loft, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a daemon that only the other machine has."""
    monkeypatch.setattr(supervisor, "DOWN_S", 0.0)
    loft.faults["home"] = deque([ChannelDown("no daemon here", retry_after_s=1_000.0)])
    a = await gateways.open("a", "home")
    await until_shown(a, "home", "waiting")
    b = await gateways.open("b", "home")
    await until_shown(b, "home", "running")


@pytest.mark.spec("B2")
async def test_an_account_that_was_connected_stays_with_its_gateway_though_it_breaks(
    gateways: Gateways, loft: Loft
) -> None:
    """Its replies may be on their way: another gateway would take them for left over, and send them again."""
    a = await gateways.open("a", "home")
    await until_shown(a, "home", "running")
    b = await gateways.open("b", "home")
    await see_each_other(a, b)
    break_off(loft.accounts["home"].host, "one file was refused")
    await until_shown(a, "home", "broken")
    await anyio.sleep(1.0)  # the other asks for it twenty times
    assert [each.state for each in b.gateway.channels.list_status()] == ["elsewhere"]
    assert loft.opened == ["home"]


@pytest.mark.spec("N8", "N9", "B2")
async def test_two_accounts_with_one_token_on_two_gateways_do_not_both_answer(
    gateways: Gateways, loft: Loft
) -> None:
    loft.rings = {"home": "one, ring", "work": "one, ring"}
    loft.faults["work"] = deque([AccountBroken("not on a")])
    a = await gateways.open("a", "home", "work")
    await until_shown(a, "home", "running")
    await until_shown(a, "work", "broken")
    b = await gateways.open("b", "home", "work")
    refused = await until_shown(b, "work", "broken")
    assert "is the same account as one that the gateway a keeps" in refused["lastError"]

    # Once the other one is closed, it may be opened.
    a.gateway.config.take_rules(CurrentConfig.of(Config()))
    await until(lambda: loft.closed == ["home"])

    async def is_free() -> bool:
        await call(b.gateway, "channels.start", channel="pigeon", accountId="work")
        return bool((await account(b, "work"))["state"] == "running")

    await until(is_free)
    held = {role for each in await gateways_of(b) for role in each.roles}
    assert {"channel:pigeon:work", "bot:pigeon:one%2C%20ring"} <= held


async def gateways_of(one: Linked) -> Sequence[SharingGateway]:
    membership = one.gateway.ledger.gateways
    assert membership is not None
    return await membership.list_gateways()
