"""Deliveries against a rule, and what is lost when a house closes or a session is put away."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import CrossclawError
from crossclaw.testing import MemoryChannel, open_house
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording


def config_with(*rules: dict[str, Any]) -> Config:
    return msgspec.convert({"session": {"sendPolicy": {"rules": list(rules)}}}, Config)


NO_B = {"match": {"channel": "b"}, "action": "deny"}
NO_GROUPS = {"match": {"chatType": "group"}, "action": "deny"}


@pytest.mark.spec("Y1", "Y4")
async def test_a_rule_about_a_channel_holds_for_replies_of_a_session_that_began_on_another(
    tmp_path: Path,
) -> None:
    a, b = MemoryChannel("a"), MemoryChannel("b")
    async with open_house(
        tmp_path, Recording(), config=config_with(NO_B), channels=[a, b]
    ) as house:
        await house.book.wait(await a.say("ana", "hi"))
        await a.wait_sent(1)
        await house.book.wait(await b.say("ana", "and here?"))
        await anyio.sleep(600)
    assert b.sent == []


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize("talked", [True, False])
async def test_a_rule_about_a_channel_holds_for_messages_sent_there(
    tmp_path: Path, talked: bool
) -> None:
    a, b = MemoryChannel("a"), MemoryChannel("b")
    async with open_house(
        tmp_path, Recording(), config=config_with(NO_B), channels=[a, b]
    ) as house:
        if talked:
            await house.book.wait(await a.say("ana", "hi"))
            await a.wait_sent(1)
        with pytest.raises(CrossclawError, match="blocked"):
            await call(house, "send", to="ana", channel="b", message="news", idempotencyKey="n1")
        await anyio.sleep(600)
    assert b.sent == []


@pytest.mark.spec("Y1", "Y4")
async def test_a_rule_about_groups_holds_for_a_group_that_was_put_away(tmp_path: Path) -> None:
    chat = MemoryChannel()
    async with open_house(
        tmp_path, Recording(), config=config_with(NO_GROUPS), channels=[chat]
    ) as house:
        await house.book.wait(await chat.say("ana", "hi", group="g1"))
        await call(house, "sessions.archive", key="agent:main:memory:group:g1")
        with pytest.raises(CrossclawError, match="blocked"):
            await call(house, "send", to="g1", message="news", idempotencyKey="n1")
        await anyio.sleep(600)
    assert chat.sent == []


@pytest.mark.spec("B1")
async def test_a_reply_that_is_being_sent_when_the_house_closes_arrives(tmp_path: Path) -> None:
    """A house that opens anew for a config closes when no run is under way: at the end of a run, just as its
    reply goes out."""

    class Slow(MemoryChannel):
        async def send(self, *args: Any) -> str | None:
            begun.set()
            await anyio.sleep(0.5)
            return await super().send(*args)

    begun = anyio.Event()
    chat = Slow()
    async with open_house(tmp_path, Recording(), channels=[chat]) as house:
        run_id = await chat.say("ana", "hi")
        await house.book.wait(run_id)
        await begun.wait()
        assert not house.lanes.at_work
    again = MemoryChannel()
    async with open_house(tmp_path, Recording(), channels=[again]) as house:
        await anyio.sleep(600)
        found = await house.ledger.find_delivery(f"reply:{run_id}")
    assert chat.sent + again.sent == [("ana", "re: hi")], found
