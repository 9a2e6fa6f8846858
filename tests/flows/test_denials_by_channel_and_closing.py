"""Deliveries against a rule, and what is lost when a gateway closes or a session is archived."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import CrossclawError, DeliveryError, Invalid
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, open_gateway
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording
from tests.stores import look_into


def config_with(*rules: dict[str, Any]) -> Config:
    return msgspec.convert({"session": {"sendPolicy": {"rules": list(rules)}}}, Config)


NO_B = {"match": {"channel": "b"}, "action": "deny"}
NO_GROUPS = {"match": {"chatType": "group"}, "action": "deny"}


@pytest.mark.spec("Y1", "Y4")
async def test_a_rule_about_a_channel_holds_for_replies_of_a_session_that_began_on_another(
    tmp_path: Path,
) -> None:
    a, b = MemoryChannel("a", settings=OPEN_TO_ALL), MemoryChannel("b", settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, Recording(), config=config_with(NO_B), channels=[a, b]
    ) as gateway:
        await gateway.run_store.wait(await a.say("ana", "hi"))
        await a.wait_sent(1)
        await gateway.run_store.wait(await b.say("ana", "and here?"))
        await anyio.sleep(600)
    assert b.sent == []


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize("talked", [True, False])
async def test_a_rule_about_a_channel_holds_for_messages_sent_there(
    tmp_path: Path, talked: bool
) -> None:
    a, b = MemoryChannel("a", settings=OPEN_TO_ALL), MemoryChannel("b", settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, Recording(), config=config_with(NO_B), channels=[a, b]
    ) as gateway:
        if talked:
            await gateway.run_store.wait(await a.say("ana", "hi"))
            await a.wait_sent(1)
        with pytest.raises(CrossclawError, match="blocked"):
            await call(gateway, "send", to="ana", channel="b", message="news", idempotencyKey="n1")
        await anyio.sleep(600)
    assert b.sent == []


@pytest.mark.spec("Y1", "Y4")
async def test_a_rule_about_groups_holds_for_a_group_that_was_put_away(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, Recording(), config=config_with(NO_GROUPS), channels=[chat]
    ) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await call(gateway, "sessions.archive", key="agent:main:memory:group:g1")
        with pytest.raises(CrossclawError, match="blocked"):
            await call(gateway, "send", to="g1", message="news", idempotencyKey="n1")
        await anyio.sleep(600)
    assert chat.sent == []


@pytest.mark.spec("B1")
async def test_a_reply_that_is_being_sent_when_the_gateway_closes_arrives(tmp_path: Path) -> None:
    """A gateway that opens anew for a config closes when no run is under way: at the end of a run, just as its
    reply goes out."""

    class Slow(MemoryChannel):
        async def send(self, *args: Any) -> str | None:
            begun.set()
            await anyio.sleep(0.5)
            return await super().send(*args)

    begun = anyio.Event()
    chat = Slow(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await gateway.run_store.wait(run_id)
        await begun.wait()
        assert not gateway.lanes.at_work
    again = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[again]) as gateway:
        await anyio.sleep(600)
        found = await gateway.ledger.find_delivery(f"reply:{run_id}")
    assert chat.sent + again.sent == [("ana", "re: hi")], found


GROUP = "agent:main:memory:group:g1"
NO_CHANNELS = {"match": {"chatType": "channel"}, "action": "deny"}
NO_PEOPLE = {"match": {"chatType": "direct"}, "action": "deny"}


async def sent_to(
    folder: Path, to: str, *rules: dict[str, Any], channel: str = "memory", before: str = ""
) -> bool:
    """Whether a message of a client is shown there; refused at once, or not at all."""
    chat = MemoryChannel(channel, settings=OPEN_TO_ALL)
    async with open_gateway(
        folder, Recording(), config=config_with(*rules), channels=[chat]
    ) as gateway:
        if before:
            await gateway.run_store.wait(
                await chat.say("ana", "hi", group=before if before != "ana" else None)
            )
        if before == "g1":
            await call(gateway, "sessions.delete", key=GROUP)
        with suppress(Invalid):  # "send blocked by session policy"
            await call(gateway, "send", to=to, message="news", idempotencyKey="n1")
        await anyio.sleep(600)
    return (to, "news") in chat.sent


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize("before", ["", "g1"], ids=["never heard of", "deleted"])
async def test_a_rule_about_groups_holds_for_a_group_that_has_no_session(
    tmp_path: Path, before: str
) -> None:
    assert not await sent_to(tmp_path, "g1", NO_GROUPS, before=before)


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize(
    ("channel", "to", "rule", "shown"),
    [
        ("memory", "user:g1", NO_GROUPS, True),
        ("memory", "dm:g1", NO_GROUPS, True),
        ("memory", "g1", NO_CHANNELS, False),
        ("memory", "g1", NO_PEOPLE, False),
        ("memory", "group:g1", NO_PEOPLE, True),
        ("memory", "GROUP:g1", NO_GROUPS, False),
        ("memory", "memory:group:g1", NO_GROUPS, False),
        ("memory", "channel:g1", NO_GROUPS, True),
        ("memory", "channel:g1", NO_CHANNELS, False),
        ("memory", "+49 170 5550123", NO_GROUPS, True),
        (
            "memory",
            "g1",
            {"match": {"channel": "other", "chatType": "group"}, "action": "deny"},
            True,
        ),
        ("telegram", "-1001234567890", NO_PEOPLE, True),
        ("telegram", "-1001234567890", NO_GROUPS, False),
        ("telegram", "-1001234567890", NO_CHANNELS, False),
        ("telegram", "1234567890", NO_GROUPS, True),
        ("telegram", "group:1234567890", NO_PEOPLE, False),
        ("telegram", "user:-1001234567890", NO_GROUPS, False),
        ("memory", "user:group:g1", NO_GROUPS, False),
        ("telegram", "@somewhere", NO_CHANNELS, False),
        ("discord", "1234567890", NO_GROUPS, False),
        ("whatsapp", "1203630@g.us", NO_GROUPS, False),
        ("whatsapp", "1203630@g.us", NO_PEOPLE, True),
        ("whatsapp", "49170@s.whatsapp.net", NO_GROUPS, True),
        ("imessage", "iMessage;+;chat1", NO_GROUPS, False),
        ("imessage", "iMessage;-;ana@example.org", NO_GROUPS, True),
        ("matrix", "@ana:example.org", NO_GROUPS, True),
        ("matrix", "!room:example.org", NO_GROUPS, False),
    ],
)
async def test_what_an_address_may_be_must_be_allowed(
    tmp_path: Path, channel: str, to: str, rule: dict[str, Any], shown: bool
) -> None:
    assert await sent_to(tmp_path, to, rule, channel=channel) is shown


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize(
    ("rule", "shown"), [(NO_PEOPLE, False), (NO_GROUPS, False), (NO_CHANNELS, True)]
)
async def test_a_person_is_not_taken_for_the_group_of_the_same_name(
    tmp_path: Path, rule: dict[str, Any], shown: bool
) -> None:
    assert await sent_to(tmp_path, "user:g2", rule, before="g2") is shown


@pytest.mark.spec("Y1", "Y4")
async def test_somebody_who_has_written_is_known_to_be_no_group(tmp_path: Path) -> None:
    assert await sent_to(tmp_path, "ana", NO_GROUPS, before="ana")


@pytest.mark.spec("Y1", "Y4")
async def test_a_group_is_found_by_its_bare_name_too(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy="deny")
        with pytest.raises(CrossclawError, match="blocked"):
            await call(gateway, "send", to="group:g1", message="news", idempotencyKey="n1")


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize("name", ["ana", "user:ana"])
@pytest.mark.parametrize("to", ["ana", "user:ana"])
async def test_a_person_is_found_by_either_name(tmp_path: Path, name: str, to: str) -> None:
    """Some platforms say `user:` themselves; who says it here may mean the same person."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    config = msgspec.convert({"session": {"dmScope": "per-channel-peer"}}, Config)
    async with open_gateway(tmp_path, Recording(), config=config, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say(name, "hi"))
        await call(gateway, "sessions.patch", key=f"agent:main:memory:dm:{name}", sendPolicy="deny")
        refused = False
        try:
            await call(gateway, "send", to=to, message="news", idempotencyKey="n1")
        except Invalid:
            refused = True
    assert refused is (name == to or name == "ana")


@pytest.mark.spec("Y4")
async def test_replies_to_people_are_no_concern_of_a_rule_about_groups(tmp_path: Path) -> None:
    """The main session is spoken with by several; only the last of them is its address."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, Recording(), config=config_with(NO_GROUPS), channels=[chat]
    ) as gateway:
        chat.faults.append(DeliveryError("a moment, please", retryable=True))
        await gateway.run_store.wait(await chat.say("ana", "hi"))
        await gateway.run_store.wait(await chat.say("bo", "hello"))
        await anyio.sleep(600)
    assert sorted(chat.sent) == [("ana", "re: hi"), ("bo", "re: hello")]


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize(("to", "shown"), [("g1", False), ("user:g1", True)])
async def test_a_job_says_nothing_where_nobody_knows_that_it_may(
    tmp_path: Path, to: str, shown: bool
) -> None:
    chat = MemoryChannel()
    async with open_gateway(
        tmp_path, Recording(), config=config_with(NO_GROUPS), channels=[chat]
    ) as gateway:
        made = await call(
            gateway,
            "cron.add",
            name="news",
            schedule={"kind": "every", "everyMs": 3_600_000},
            sessionTarget="isolated",
            wakeMode="now",
            payload={"kind": "agentTurn", "message": "news"},
            delivery={"mode": "announce", "channel": "memory", "to": to},
            enabled=False,
        )
        await call(gateway, "cron.run", id=made["id"], mode="force")
        await anyio.sleep(600)
    assert bool(chat.sent) is shown


@pytest.mark.spec("N9", "B1")
async def test_what_a_client_sends_to_a_chat_does_not_overtake_a_reply_there(
    tmp_path: Path,
) -> None:
    """An address that somebody named is the same chat as the one that a message came from."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        chat.faults.append(DeliveryError("a moment, please", retryable=True))
        await gateway.run_store.wait(await chat.say("ana", "hi"))
        for text in ("news", "more"):
            await call(gateway, "send", to="ana", message=text, idempotencyKey=text)
        await anyio.sleep(600)
    assert chat.sent == [("ana", "re: hi"), ("ana", "news"), ("ana", "more")]


@pytest.mark.spec("B1")
async def test_a_send_that_is_repeated_after_an_upgrade_is_still_the_same(tmp_path: Path) -> None:
    """An older release did not note that somebody had named the chat."""
    chat = MemoryChannel()
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        for _ in range(2):
            await call(gateway, "send", to="ana", message="news", idempotencyKey="n1")
            await anyio.sleep(5)
            store = look_into(tmp_path / "state" / "crossclaw.sqlite")
            store.execute("UPDATE outbox SET named = 0")
            store.close()
    assert chat.sent == [("ana", "news")]
