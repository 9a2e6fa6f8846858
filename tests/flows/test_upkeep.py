"""Stopping, archiving and throwing away by a client's hand."""

from pathlib import Path

import anyio
import pytest

from crossclaw.config import Config, session
from crossclaw.domain.keys import SessionKey
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call, say

DESK = "agent:main:desk"


def slow() -> ScriptedProvider:
    return ScriptedProvider(lambda request: "late", delay_s=100)


@pytest.mark.spec("G2")
async def test_abort_stops_a_run_or_all_of_a_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, slow()) as gateway:
        for run_id in ("r1", "r2", "r3"):
            await call(gateway, "chat.send", sessionKey=DESK, message="hi", idempotencyKey=run_id)
        await anyio.sleep(1)
        one = await call(gateway, "sessions.abort", runId="r2")
        first = await call(gateway, "sessions.abort", key=DESK, clearQueued=False)
        rest = await call(gateway, "sessions.abort", key=DESK)
        none = await call(gateway, "sessions.abort", key=DESK)

    assert (one["status"], one["abortedRunId"]) == ("aborted", "r2")
    assert first["runIds"] == ["r1"]
    assert rest["runIds"] == ["r3"]
    assert none == {"ok": True, "status": "no-active-run"}


async def test_a_run_of_another_session_is_not_stopped_by_a_wrong_key(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, slow()) as gateway:
        await call(gateway, "chat.send", sessionKey=DESK, message="hi", idempotencyKey="r1")
        await call(gateway, "sessions.create", key="agent:main:other")
        with pytest.raises(Exception, match="does not match"):
            await call(gateway, "sessions.abort", key="agent:main:other", runId="r1")
        assert (await call(gateway, "sessions.abort", runId="nobody"))["status"] == "no-active-run"
        with pytest.raises(Exception, match="key or runId"):
            await call(gateway, "sessions.abort")


async def test_a_session_is_put_away_and_later_thrown_away(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        await say(gateway, DESK, "hi", "r1")
        assert (await call(gateway, "sessions.archive", key=DESK))["archived"]
        assert not (await call(gateway, "sessions.archive", key=DESK))["archived"]
        await say(gateway, "main", "hi", "r2")
        with pytest.raises(Exception, match="cannot be archived"):
            await call(gateway, "sessions.archive", key="main")
        assert (await call(gateway, "sessions.cleanup", enforce=True))["count"] == 0
        await anyio.sleep(3600)
        named = await call(gateway, "sessions.cleanup", olderThanDays=0.02)
        assert named == {"ok": True, "dryRun": True, "count": 1, "keys": [DESK]}
        assert await gateway.ledger.find_session(SessionKey.parse(DESK)) is not None
        spared = await call(
            gateway, "sessions.cleanup", olderThanDays=0.02, enforce=True, activeKey=DESK
        )
        assert spared["count"] == 0
        assert (await call(gateway, "sessions.cleanup", olderThanDays=0.02, enforce=True))[
            "count"
        ] == 1
        assert await gateway.ledger.find_session(SessionKey.parse(DESK)) is None


async def test_a_session_at_work_is_not_put_away(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, slow()) as gateway:
        await call(gateway, "chat.send", sessionKey=DESK, message="hi", idempotencyKey="r1")
        await anyio.sleep(1)
        with pytest.raises(Exception, match="still active"):
            await call(gateway, "sessions.archive", key=DESK)


async def test_what_was_put_away_is_brought_back_and_goes_on(tmp_path: Path) -> None:
    idle = Config(session=session.SessionConfig(idle_minutes=30))
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda request: "ok"), config=idle
    ) as gateway:
        await say(gateway, DESK, "hi", "r1")
        assert not (await call(gateway, "sessions.unarchive", key=DESK))["unarchived"]
        await call(gateway, "sessions.archive", key=DESK)
        with pytest.raises(
            Exception, match=r"crossclaw sessions unarchive agent:\S+ brings it back"
        ):
            await say(gateway, DESK, "still there?", "r2")
        await anyio.sleep(3600)
        assert (await call(gateway, "sessions.unarchive", key=DESK))["unarchived"]
        listed = await call(gateway, "sessions.list")
        await say(gateway, DESK, "and now?", "r3")
        history = await call(gateway, "chat.history", sessionKey=DESK)

    assert [row["key"] for row in listed["sessions"]] == [DESK]
    texts = [message["content"][0]["text"] for message in history["messages"]]
    assert texts == ["hi", "ok", "and now?", "ok"], (
        "nothing of it was lost, and it did not begin anew"
    )


@pytest.mark.spec("P1")
async def test_who_comes_back_keeps_the_label_that_went_to_another_too(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        await call(gateway, "sessions.create", key=DESK, label="The desk")
        await call(gateway, "sessions.archive", key=DESK)
        await call(gateway, "sessions.create", key="agent:main:other", label="The desk")
        assert (await call(gateway, "sessions.unarchive", key=DESK))["unarchived"]
        rows = (await call(gateway, "sessions.list", label="The desk"))["sessions"]

    assert {row["key"] for row in rows} == {DESK, "agent:main:other"}


@pytest.mark.parametrize("words", ["still there?", "/status"])
async def test_who_writes_to_a_chat_that_was_put_away_is_heard(tmp_path: Path, words: str) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    group = "agent:main:telegram:group:g1"

    provider = ScriptedProvider(lambda request: "ok")
    async with open_gateway(tmp_path, provider, channels=(chat,)) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await call(gateway, "sessions.patch", key=group, label="The owners")
        await call(gateway, "sessions.archive", key=group)
        await call(gateway, "sessions.create", key="agent:main:other", label="The owners")
        run = await gateway.run_store.wait(await chat.say("ana", words, group="g1"))
        rows = (await call(gateway, "sessions.list"))["sessions"]
        session = await gateway.ledger.find_session(SessionKey.parse(group))

    assert run is not None
    assert run.status == "ok"
    assert {row["key"] for row in rows} == {group, "agent:main:other"}
    assert session is not None
    assert session.label == "The owners", "though another has the name by now"


async def test_what_is_not_there_is_not_brought_back(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        with pytest.raises(Exception, match="unknown session"):
            await call(gateway, "sessions.unarchive", key="agent:main:nobody")
