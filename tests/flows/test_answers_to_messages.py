"""Somebody answers to a message: the agent reads which one, where the platform brings it along."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Inbound, ReplyTo
from crossclaw.sessions.channel_intake import QUOTED_CHARS_MAX
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording
from tests.flows.test_who_may_talk import chat, direct, said, words_in

pytestmark = pytest.mark.spec("N1")


def answer(text: str, to: ReplyTo) -> Inbound:
    where = Address("memory", "ana")
    return Inbound(address=where, sender="ana", text=text, message_id=text[:8], reply_to=to)


async def read_by_the_model(
    tmp_path: Path, *inbound: Inbound, config: Config | None = None
) -> list[str]:
    """The words of each message as the transcript has them."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda _: "yes"), config=config, channels=[chat]
    ) as gateway:
        for each in inbound:
            await chat.bring(each)
            await anyio.sleep(60)
        (session,) = (await call(gateway, "sessions.list"))["sessions"]
        history = await call(gateway, "chat.history", sessionKey=session["key"])
    said = [each for each in history["messages"] if each["role"] == "user"]
    return ["|".join(block["text"] for block in each["content"]) for each in said]


async def test_the_agent_reads_what_it_is_answered_to(tmp_path: Path) -> None:
    ours = ReplyTo(message_id="1", text="Shall I delete the atlas?\nOr the map?", ours=True)
    bens = ReplyTo(message_id="2", sender="ben", sender_name="Ben]\nAna: x", text="At noon?")
    answers = (
        said("g", "ana", "the map", 1, reply_to=ours),
        said("g", "ana", "no", 2, reply_to=bens),
    )

    mine, other = await read_by_the_model(tmp_path, *answers)

    assert mine == ("the map|[quoting you:\n    Shall I delete the atlas?\n    Or the map?]")
    assert other == "no|[quoting Ben Ana x:\n    At noon?]"


async def test_a_command_that_answers_to_a_message_is_a_command_and_a_quoted_one_is_none(
    tmp_path: Path,
) -> None:
    quoted = ReplyTo(message_id="1", text="/new", ours=True)
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda _: "yes"), channels=[chat]
    ) as gateway:
        await chat.bring(answer("what is that?", quoted))
        await anyio.sleep(60)
        (before,) = (await call(gateway, "sessions.list"))["sessions"]
        await chat.bring(answer("/status", quoted))
        await anyio.sleep(60)
        (after,) = (await call(gateway, "sessions.list"))["sessions"]

    assert before["sessionId"] == after["sessionId"]
    assert chat.sent[0] == ("ana", "yes")
    assert "[quoting" not in chat.sent[1][1]
    assert chat.sent[1][1] != "yes"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"session": {"resetTriggers": []}}, "/new"),
        ({"commands": {"allowFrom": {"memory": ["ben"]}}}, "/status"),
    ],
)
async def test_words_that_read_like_a_command_and_are_none_bring_along_what_they_answer_to(
    tmp_path: Path, config: dict[str, Any], text: str
) -> None:
    quoted = ReplyTo(message_id="1", text="At noon?", ours=True)

    (words,) = await read_by_the_model(
        tmp_path, answer(text, quoted), config=msgspec.convert(config, Config)
    )

    assert words == f"{text}|[quoting you:\n    At noon?]"


@pytest.mark.spec("N8")
async def test_words_of_people_who_may_not_talk_do_not_come_in_by_an_answer(tmp_path: Path) -> None:
    """Nor does their being quoted by somebody who may."""
    memory = chat(groupPolicy="allowlist", groupAllowFrom=["1", "2"], groups={"g": {}})

    def quoting(number: int, sender: str | None, ours: bool = False) -> Inbound:
        quoted = ReplyTo(message_id="9", sender=sender, text=f"words of {sender}", ours=ours)
        return said("g", "1", f"look {number}", number, mentioned=True, reply_to=quoted)

    quotations = (
        quoting(1, "3"),
        quoting(2, None),
        quoting(3, "2"),
        quoting(4, "1"),
        quoting(5, "3", ours=True),  # the platform says that it is ours
    )
    async with open_gateway(tmp_path, Recording(), channels=[memory]) as gateway:
        for each in quotations:
            await memory.bring(each)
            await anyio.sleep(60)
        read = await words_in(gateway, "agent:main:memory:group:g")

    assert ["words of" in each for each in read] == [False, False, True, True, True]


@pytest.mark.spec("N8")
@pytest.mark.parametrize("allowed", [False, True])
async def test_words_of_bots_are_quoted_where_bots_may_talk_and_our_own_always(
    tmp_path: Path, allowed: bool
) -> None:
    memory = chat(groupPolicy="open", allowBots=allowed)
    async with open_gateway(tmp_path, Recording(), channels=[memory]) as gateway:
        for number, ours in enumerate((False, True)):
            quoted = ReplyTo(
                message_id="9", sender="7", sender_is_bot=True, text="words", ours=ours
            )
            look = said("g", "1", f"look {number}", number, mentioned=True, reply_to=quoted)
            await memory.bring(look)
            await anyio.sleep(60)
        read = await words_in(gateway, "agent:main:memory:group:g")

    assert ["words" in each for each in read] == [allowed, True]


@pytest.mark.spec("N8")
async def test_in_a_direct_chat_only_the_two_who_talk_are_quoted(tmp_path: Path) -> None:
    memory = chat(dmPolicy="open", allowFrom=["*"])
    async with open_gateway(tmp_path, Recording(), channels=[memory]) as gateway:
        for number, sender in enumerate(("1", "2")):
            quoted = ReplyTo(message_id="9", sender=sender, text="words")
            await memory.bring(direct("1", f"look {number}", number, reply_to=quoted))
            await anyio.sleep(60)
        read = await words_in(gateway, "agent:main:main")

    assert ["words" in each for each in read] == [True, False]


async def test_a_long_quotation_is_cut(tmp_path: Path) -> None:
    long = ReplyTo(message_id="1", text="m" * (QUOTED_CHARS_MAX + 1), ours=True)

    (read,) = await read_by_the_model(tmp_path, answer("short", long))

    assert read.count("m") == QUOTED_CHARS_MAX
