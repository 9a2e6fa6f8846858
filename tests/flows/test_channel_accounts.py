"""Accounts of chat platforms: opened as the config says, started again when they fail, and none hurts another."""

from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.contract import ChannelHost
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.config.section import Loose
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import AccountBroken, ChannelDown, NotFound
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.channels.pigeon import Loft, installed
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

HOME_AND_WORK = {
    "botToken": "t",
    "allowFrom": [7],
    "accounts": {"home": {}, "work": {"name": "At work"}},
}


@pytest.fixture
def loft(tmp_path: Path) -> Generator[Loft]:
    with installed(tmp_path / "site") as found:
        yield found


def config(section: dict[str, Any]) -> Config:
    return CurrentConfig.of(Config(channels=Loose.of({"pigeon": section})))


async def accounts(gateway: Gateway, **params: Any) -> dict[str, dict[str, Any]]:
    status = await call(gateway, "channels.status", **params)
    return {each["accountId"]: each for each in status["channelAccounts"].get("pigeon", [])}


@pytest.mark.spec("N9")
async def test_a_reply_goes_out_by_the_account_by_which_its_question_came(
    tmp_path: Path, loft: Loft
) -> None:
    async with open_gateway(tmp_path, Recording(), config=config(HOME_AND_WORK)) as gateway:
        await anyio.sleep(1)
        for name in ("work", "home"):
            where = Address("pigeon", "7", name)
            inbound = Inbound(address=where, sender="7", text=f"from {name}", message_id=name)
            await loft.accounts[name].host.receive(inbound)
            await anyio.sleep(60)
        told = await accounts(gateway)

    assert told["work"]["lastOutboundAt"] < told["home"]["lastOutboundAt"]
    assert loft.sent == [("work", "7", "re: from work"), ("home", "7", "re: from home")]


async def test_an_account_that_fails_is_started_again_after_growing_pauses_and_hurts_no_other(
    tmp_path: Path, loft: Loft
) -> None:
    loft.faults["work"] = deque([ConnectionError("away"), ChannelDown("busy", 100.0)])
    async with open_gateway(tmp_path, Recording(), config=config(HOME_AND_WORK)) as gateway:
        await anyio.sleep(0.5)
        first = await accounts(gateway)
        await anyio.sleep(10)
        second = await accounts(gateway)
        await anyio.sleep(100)
        third = await accounts(gateway)

    assert [each["home"]["state"] for each in (first, second, third)] == ["running"] * 3
    assert [each["work"]["state"] for each in (first, second, third)] == [
        "waiting",
        "waiting",
        "running",
    ]
    assert first["work"]["lastError"] == "ConnectionError: away"
    assert second["work"]["lastError"] == "busy"
    assert third["work"]["bot"]["id"] == "ring-work"
    assert third["work"]["name"] == "At work"
    assert loft.opened.count("work") == 3
    assert loft.opened.count("home") == 1


class SlowToEnd(MemoryChannel):
    """Its connection breaks, and a part of it needs a while to end."""

    broken: anyio.Event
    has_ended = False

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.broken = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._say_goodbye)
            task_status.started()
            await self.broken.wait()
            raise ChannelDown("the platform has gone")

    async def _say_goodbye(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
                self.has_ended = True


async def test_an_account_that_fails_while_the_gateway_closes_takes_nobody_with_it(
    tmp_path: Path,
) -> None:
    chat, other = SlowToEnd(settings=OPEN_TO_ALL), MemoryChannel("other", settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[chat, other]) as gateway:
        await anyio.sleep(1)
        chat.broken.set()
        await anyio.sleep(1)
        run = await gateway.run_store.wait(await other.say("ana", "still there?"))

    assert chat.has_ended
    assert run is not None
    assert run.status == "ok"


async def test_a_wrong_token_is_not_tried_again_and_again_but_when_somebody_asks(
    tmp_path: Path, loft: Loft
) -> None:
    loft.faults["home"] = deque([AccountBroken("the token is wrong")] * 2)
    async with open_gateway(tmp_path, Recording(), config=config(HOME_AND_WORK)) as gateway:
        await anyio.sleep(1_000)
        found = await accounts(gateway)
        tries = loft.opened.count("home")
        await call(gateway, "channels.start", channel="pigeon", accountId="home")
        await anyio.sleep(1)
        again = loft.opened.count("home")
        await call(gateway, "channels.start", channel="pigeon", accountId="home")
        await anyio.sleep(1)
        well = await accounts(gateway)
        with pytest.raises(NotFound, match="there are: pigeon/home, pigeon/work"):
            await call(gateway, "channels.start", channel="pigeon", accountId="school")

    assert (found["home"]["state"], tries, again) == ("broken", 1, 2)
    assert well["home"]["state"] == "running"


async def test_a_changed_config_restarts_the_accounts_that_it_changes_and_no_other(
    tmp_path: Path, loft: Loft
) -> None:
    current = config(HOME_AND_WORK)
    assert isinstance(current, CurrentConfig)
    async with open_gateway(tmp_path, Recording(), config=current) as gateway:
        await anyio.sleep(1)
        held = gateway.config
        changed = {**HOME_AND_WORK, "accounts": {"home": {}, "work": {"botToken": "new"}}}
        assert held.take_rules(config(changed))
        await anyio.sleep(1)
        after_change = (list(loft.opened), list(loft.closed))
        held.take_rules(config({"botToken": "t", "allowFrom": [7], "accounts": {"home": {}}}))
        await anyio.sleep(1)
        names = list(await accounts(gateway))

    assert (sorted(after_change[0]), after_change[1]) == (["home", "work", "work"], ["work"])
    assert names == ["home"]
    assert loft.closed[:2] == ["work", "work"]


async def test_an_account_without_a_token_says_what_is_missing(tmp_path: Path, loft: Loft) -> None:
    async with open_gateway(tmp_path, Recording(), config=config({})) as gateway:
        await anyio.sleep(1)
        found = await accounts(gateway)

    assert found["default"]["state"] == "not set up"
    assert found["default"]["lastError"] == "not set up: botToken, the ring of the pigeon"
    assert loft.opened == []


async def test_platforms_are_asked_who_we_are_and_clients_of_openclaw_are_answered_honestly(
    tmp_path: Path, loft: Loft
) -> None:
    loft.faults["work"] = deque([AccountBroken("the token is wrong")])
    async with open_gateway(tmp_path, Recording(), config=config(HOME_AND_WORK)) as gateway:
        await anyio.sleep(1)
        found = await accounts(gateway, probe=True)
        status = await call(gateway, "channels.status")

    assert found["home"]["probe"]["ok"]
    assert found["home"]["probe"]["bot"]["id"] == "ring-home"
    assert status["channelOrder"] == ["webchat", "pigeon"]
    assert status["channelLabels"]["pigeon"] == "Pigeon"
    assert msgspec.json.encode(status)  # only what JSON has
    assert "secret" not in repr(status)


@pytest.mark.spec("N2")
async def test_a_message_that_comes_again_after_its_way_has_changed_is_the_same_message(
    tmp_path: Path,
) -> None:
    """The platform brings it again after a restart, and by now its chat leads to another session."""
    runs = []
    for scope in ("main", "per-peer"):
        config = msgspec.convert({"session": {"dmScope": scope}}, Config)
        chat = MemoryChannel(settings=OPEN_TO_ALL)
        model = ScriptedProvider(lambda r: "ok")
        async with open_gateway(tmp_path, model, config=config, channels=[chat]) as gateway:
            runs.append(await chat.say("ana", "hi", message_id="m1"))
            await gateway.run_store.wait(runs[-1], timeout_s=60)
    assert runs[0] == runs[1]
