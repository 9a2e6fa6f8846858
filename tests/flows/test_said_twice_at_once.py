"""The same message of a platform, delivered twice at one moment: it and all that came with it is stored and answered once."""

from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import words_of
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway


@pytest.mark.parametrize("text", ["/status", "/new", "plain words"])
async def test_it_is_answered_once(tmp_path: Path, text: str) -> None:
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(lambda request: "answer")
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", message_id="m0"))
        await chat.wait_sent(1)
        heard: set[str] = set()

        async def say() -> None:
            heard.add(await chat.say("ana", text, message_id="m1"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say)
            tasks.start_soon(say)
        await anyio.sleep(0.3)

    assert len(heard) == 1
    assert len(chat.sent) == 2


async def test_what_was_said_before_in_a_group_is_brought_once(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(OPEN_TO_ALL, require_mention=True, history_limit=5)
    chat, model = MemoryChannel(settings=settings), ScriptedProvider(lambda request: "answer")
    place = Address("memory", "g1")

    async def bring(message_id: str, text: str, mentioned: bool) -> None:
        inbound = Inbound(
            address=place, sender="ana", text=text, message_id=message_id,
            chat_type="group", chat_id="g1", mentioned=mentioned,
        )  # fmt: skip
        await chat.bring(inbound)

    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        await bring("m0", "lunch is at noon", False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bring, "m1", "when is lunch?", True)
            tasks.start_soon(bring, "m1", "when is lunch?", True)
        await anyio.sleep(0.3)
        session = await gateway.ledger.find_session(SessionKey.parse("agent:main:memory:group:g1"))
        assert session is not None
        entries = await gateway.ledger.list_entries(session.session_id, limit=50)

    said = "\n".join(words_of(entry.message) for entry in entries if entry.message)
    assert said.count("lunch is at noon") == 1
    assert said.count("when is lunch?") == 1


async def test_a_command_is_answered_at_once(tmp_path: Path) -> None:
    """And not when the outbox is next looked at, some seconds later."""
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(lambda request: "answer")
    async with open_gateway(tmp_path, model, channels=[chat]):
        began = anyio.current_time()
        await chat.say("ana", "/status", message_id="m0")
        await chat.wait_sent(1)
        assert anyio.current_time() - began < 1
