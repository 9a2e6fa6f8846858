"""session.reset: before a message is accepted, in the same step; never under a running one."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call, say


def config(**session: Any) -> Config:
    return msgspec.convert({"session": session}, Config)


async def test_by_default_nothing_is_ever_reset(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(tmp_path, model) as gateway:
        first = await say(gateway, "main", "hi", "r1")
    await anyio.sleep(30 * 3600)  # over a night and a day
    async with open_gateway(tmp_path, model) as gateway:
        assert (await say(gateway, "main", "hi", "r2")).session_id == first.session_id


@pytest.mark.parametrize("door", ["chat.send", "agent", "channel"])
async def test_an_idle_session_begins_anew_whichever_door_the_message_takes(
    tmp_path: Path, door: str
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    settings = config(reset={"mode": "idle", "idleMinutes": 30})
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(tmp_path, model, config=settings, channels=[chat]) as gateway:
        first = await say(gateway, "main", "old words", "r1")
        await anyio.sleep(31 * 60)
        run_id = "r2"
        if door == "channel":
            run_id = await chat.say("ana", "new words")
        elif door == "agent":
            await call(
                gateway, "agent", sessionKey="main", message="new words", idempotencyKey="r2"
            )
        else:
            await say(gateway, "main", "new words", "r2")
        run = await gateway.run_store.wait(run_id, timeout_s=60)

        assert run is not None
        assert run.session_id != first.session_id
        assert "old words" not in str(model.seen[-1].turns)
        old = await gateway.ledger.list_entries(first.session_id, limit=10)
        assert len(old) == 2


async def test_a_session_that_is_at_work_is_not_reset_under_it(tmp_path: Path) -> None:
    slow = ScriptedProvider(lambda r: "ok", delay_s=3600)
    settings = config(reset={"mode": "idle", "idleMinutes": 1})
    async with open_gateway(tmp_path, slow, config=settings) as gateway:
        raw: dict[str, Any] = {"timeoutMs": 10 * 3600 * 1000}
        await call(gateway, "chat.send", sessionKey="main", message="a", idempotencyKey="r1", **raw)
        await anyio.sleep(600)
        await call(gateway, "chat.send", sessionKey="main", message="b", idempotencyKey="r2", **raw)
        first = await gateway.run_store.wait("r1", timeout_s=3 * 3600)
        second = await gateway.run_store.wait("r2", timeout_s=3 * 3600)

        assert first is not None
        assert second is not None
        assert (first.status, second.status) == ("ok", "ok")
        assert first.session_id == second.session_id


@pytest.mark.parametrize("written_in", ["memory", "other"])
async def test_the_rule_is_that_of_the_chat_it_was_last_written_in(
    tmp_path: Path, written_in: str
) -> None:
    """Two chats that share a session: whichever was used last says when it begins anew."""
    chats = {name: MemoryChannel(name, settings=OPEN_TO_ALL) for name in ("memory", "other")}
    settings = config(resetByChannel={"memory": {"mode": "idle", "idleMinutes": 30}})
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(
        tmp_path, model, config=settings, channels=[*chats.values()]
    ) as gateway:
        runs = []
        for name in ("other" if written_in == "memory" else "memory", written_in):
            runs.append(
                await gateway.run_store.wait(await chats[name].say("ana", "hi"), timeout_s=60)
            )
        await anyio.sleep(31 * 60)
        last = await say(gateway, "main", "still there?", "r3")

    assert runs[1] is not None
    assert (last.session_id != runs[1].session_id) is (written_in == "memory")


async def test_a_session_without_an_address_has_the_rule_of_its_channel(tmp_path: Path) -> None:
    settings = config(resetByChannel={"webchat": {"mode": "idle", "idleMinutes": 30}})
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(tmp_path, model, config=settings) as gateway:
        first = await say(gateway, "main", "hi", "r1")
        session = await gateway.ledger.find_session(first.key)
        await anyio.sleep(31 * 60)
        second = await say(gateway, "main", "hi", "r2")

    assert session is not None
    assert (session.channel, session.last_address) == ("webchat", None)
    assert first.session_id != second.session_id
