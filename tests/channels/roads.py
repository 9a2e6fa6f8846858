"""The part of the contract of channels that is about places: whatever begins a message, it arrives in the chat, in the thread and by the
account that are meant. What a platform has no word for is named by its driver (`has_groups`, `has_threads`, `answers_are_marked`),
and `test_all_channels.py` holds which those are."""

import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Image, ToolUse, UserMessage
from crossclaw.domain.sight import EVERYTHING
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, instructions_of, message_texts
from tests.channels.driving import PICTURE, QUIET_S, ChannelDriver, gateway_with, shown
from tests.flows.talking import call
from tests.flows.test_models_allowed import HOOK

ERRAND, ASK = "begin the errand", "ask them"
ROADS = (
    "begun",
    "It is done.",
    "by a client",
    "news of the job",
    "news of the hook",
    "All settled.",
)


def working(ask: dict[str, Any]) -> ScriptedProvider:
    """Spawns for an errand; asks whom `ask` names, when it is told to; otherwise repeats the last words."""

    def answer(request: ModelRequest) -> list[ToolUse] | str:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        known = instructions_of(request)
        if "posted to your chat" in known:
            return "All settled."
        if "this is turn" in known:
            return "REPLY_SKIP"
        if "reported to your parent" in known:
            return "Result: It is done.\nNotes: none"
        if "You are a sub-agent" in known:
            return "done"
        if last.results:
            return "begun"
        words = " ".join(message_texts(last))
        if ERRAND in words:
            return [ToolUse(f"c{len(request.turns)}", "sessions_spawn", {"task": "go"})]
        if ASK in words:
            return [ToolUse(f"c{len(request.turns)}", "sessions_send", {**ask, "message": "well?"})]
        return next((each for each in ROADS if each in words), words)

    return ScriptedProvider(answer)


def two_agents() -> Config:
    agents = {"defaults": {"typingMode": "never"}, "list": [{"id": "main"}, {"id": "librarian"}]}
    return msgspec.convert({"agents": agents}, Config)


async def say_deepest(driver: ChannelDriver, text: str) -> None:
    """In a thread where there are any, else in a group, else directly."""
    if driver.has_threads:
        await driver.say_in_thread(text, group="-1001")
    else:
        await driver.say(text, group="-1001" if driver.has_groups else None)


async def session_of(gateway: Any, account_id: str) -> Any:
    rows = await gateway.ledger.list_sessions(limit=50, sight=EVERYTHING)
    return next(
        each
        for each in rows
        if each.last_address is not None and each.last_address.account_id == account_id
    )


class ChatRoads:
    @pytest.mark.spec("N8", "N9", "K2")
    async def test_direct_chats_groups_and_threads_are_answered_where_they_were_asked(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        asked = 0
        async with gateway_with(folder, driver) as gateway:
            for number in range(2):
                await driver.say(f"direct {number}")
                if driver.has_groups:
                    await driver.say(f"group {number}", group="-1001")
                if driver.has_threads:
                    await driver.say_in_thread(f"thread {number}", group="-1001")
                asked += 1 + driver.has_groups + driver.has_threads
                await shown(driver, asked)
            rows = await gateway.ledger.list_sessions(limit=50, sight=EVERYTHING)

        found: dict[str, set[str]] = {}
        for text, place in zip(driver.seen(), driver.places(), strict=True):
            kind = next(each for each in ("direct", "group", "thread") if each in text)
            found.setdefault(kind, set()).add(place)
        assert [len(places) for places in found.values()] == [1] * (asked // 2)
        assert len(set.union(*found.values())) == asked // 2
        names = [each.key.name for each in rows if each.key != SessionKey.main("main")]
        named = zip(driver.session_names, sorted(names, key=len), strict=True)
        assert all(re.fullmatch(pattern, name) for pattern, name in named), names

    @pytest.mark.spec("N9", "P6", "S7", "K3")
    async def test_whatever_begins_a_message_it_arrives_by_the_account_and_in_the_place_that_are_meant(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        """Two accounts whose platforms number alike: a reply, a command, a sub-agent's report, a client, a job, a hook and
        an announce are for a place of the second one."""
        work = type(driver)()
        work.account_id = "work"
        ask: dict[str, Any] = {}
        async with gateway_with(
            folder, driver, working(ask), two_agents(), others=[work]
        ) as gateway:
            await say_deepest(driver, "hello")
            await shown(driver, 1)
            await say_deepest(work, ERRAND)
            await shown(work, 2)
            await say_deepest(work, "/status")
            await shown(work, 3)
            session = await session_of(gateway, "work")
            where = session.last_address
            there = {"channel": where.channel, "to": where.to, "accountId": "work"}
            if where.thread_id is not None:
                there["threadId"] = where.thread_id
            await call(gateway, "send", message="by a client", idempotencyKey="k1", **there)
            job = await call(
                gateway,
                "cron.add",
                name="news",
                schedule={"kind": "every", "everyMs": 86_400_000},
                sessionTarget="isolated",
                payload={"kind": "agentTurn", "message": "news of the job"},
                delivery={"mode": "announce", **there},
            )
            await call(gateway, "cron.run", id=job["id"], mode="force")
            await call(gateway, "hooks.agent", HOOK, message="news of the hook", **there)
            ask["sessionKey"] = session.key.text
            await call(
                gateway, "chat.send", sessionKey="agent:librarian:main", message=ASK, idempotencyKey="k2"
            )  # fmt: skip
            await shown(work, 7)
            await anyio.sleep(QUIET_S)

        assert len(driver.seen()) == 1
        assert "hello" in driver.seen()[0]
        missing = [each for each in ROADS if not any(each in text for text in work.seen())]
        assert (missing, len(work.seen())) == ([], 7), work.seen()
        assert len(set(work.places())) == 1
        assert work.complaints() == []

    @pytest.mark.spec("N9")
    async def test_many_messages_to_one_chat_keep_their_order_and_the_platforms_pace(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        """None is refused for coming too early: the pace is kept before the platform has to say so."""
        texts = [f"m{number:02}" for number in range(12)]
        async with gateway_with(folder, driver) as gateway:
            await driver.say("hello")
            await shown(driver, 1)
            where = (await session_of(gateway, "default")).last_address
            there = {"channel": where.channel, "to": where.to, "accountId": "default"}
            for text in texts:
                await call(gateway, "send", message=text, idempotencyKey=text, **there)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: hello", *texts]
        assert driver.attempts() in (None, 1 + len(texts))

    @pytest.mark.spec("N9")
    async def test_a_reply_names_the_message_that_it_answers(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        driver.at_its_best()
        driver.settings = msgspec.structs.replace(driver.settings, reply_to_mode="all")
        async with gateway_with(folder, driver):
            first = await driver.say("one")
            await shown(driver, 1)
            second = await driver.say("two")
            await shown(driver, 2)

        expected = [first, second] if driver.answers_are_marked else [None, None]
        assert driver.answered() == expected

    @pytest.mark.spec("N8")
    async def test_a_picture_that_a_person_sends_is_shown_to_the_agent(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver) as gateway:
            if not await driver.say_with_picture("look", PICTURE):
                return
            await shown(driver, 1)
            session = await session_of(gateway, "default")
            entries = await gateway.ledger.list_entries(session.session_id, limit=9)

        message = entries[0].message
        assert isinstance(message, UserMessage)
        (picture,) = [block for block in message.content if isinstance(block, Image)]
        assert picture.source.media_type == "image/png"
        assert driver.seen() == ["re: look"]
