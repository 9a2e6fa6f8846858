"""What is still to come to a session that was put away."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.errors import Invalid, KeyReused
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.sessions.arrivals import Arrival
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import OWNER, call, say

HOOK = person_principal("hook", {"hook"})
JOB: dict[str, Any] = {
    "name": "news",
    "enabled": True,
    "schedule": {"kind": "every", "everyMs": 3_600_000},
    "sessionTarget": "isolated",
    "payload": {"kind": "agentTurn", "message": "tell"},
    "delivery": {"mode": "announce", "channel": "memory", "to": "g1"},
}


async def test_a_job_goes_on_when_its_session_was_put_away(tmp_path: Path) -> None:
    chat, provider = MemoryChannel(), ScriptedProvider(lambda request: "the news")
    async with open_gateway(tmp_path, provider, channels=[chat]) as gateway:
        await call(gateway, "cron.add", **JOB)
        await anyio.sleep(3700)
        await chat.wait_sent(1)
        rows = (await call(gateway, "sessions.table"))["rows"]
        for row in rows:
            await call(gateway, "sessions.archive", key=row["key"])
        await anyio.sleep(3 * 3600)
    assert len(chat.sent) >= 3


async def test_other_jobs_go_on_when_the_session_of_one_was_put_away(tmp_path: Path) -> None:
    provider, told = ScriptedProvider(lambda request: "the news"), list[int]()
    async with open_gateway(tmp_path, provider, channels=[MemoryChannel()]) as gateway:
        one = await call(gateway, "cron.add", **JOB)
        two = await call(gateway, "cron.add", **{**JOB, "name": "other"})
        await anyio.sleep(3700)
        await call(gateway, "sessions.archive", key=f"cron:{one['id']}")
        for _ in range(3):
            await anyio.sleep(3600)
            told.append(len((await call(gateway, "cron.runs", id=two["id"]))["entries"]))
    assert told == [2, 3, 4]


async def test_a_hook_with_a_key_of_its_own_is_heard_when_its_session_was_put_away(
    tmp_path: Path,
) -> None:
    chat, provider = MemoryChannel(), ScriptedProvider(lambda request: "the news")
    config = msgspec.convert({"hooks": {"allowRequestSessionKey": True}}, Config)
    async with open_gateway(tmp_path, provider, config=config, channels=[chat]) as gateway:
        for n in range(2):
            run = await call(
                gateway,
                "hooks.agent",
                HOOK,
                message="x",
                sessionKey="hook:mail",
                idempotencyKey=f"i{n}",
            )
            await gateway.run_store.wait(run["runId"])
            if n == 0:
                await call(gateway, "sessions.archive", key="hook:mail")
        history = await call(gateway, "chat.history", sessionKey="hook:mail")
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"] * 2


async def test_a_repeated_or_refused_request_of_a_hook_leaves_its_session_archived(
    tmp_path: Path,
) -> None:
    config = msgspec.convert({"hooks": {"allowRequestSessionKey": True}}, Config)
    asked: dict[str, Any] = {"message": "x", "sessionKey": "hook:mail", "idempotencyKey": "i1"}
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda request: "ok"), config=config
    ) as gateway:
        run = await call(gateway, "hooks.agent", HOOK, **asked)
        await gateway.run_store.wait(run["runId"])
        await call(gateway, "sessions.archive", key="hook:mail")
        key = SessionKey.parse("agent:main:hook:mail")
        before = await gateway.ledger.find_session(key)

        again = await call(gateway, "hooks.agent", HOOK, **asked)
        with pytest.raises(KeyReused):
            await call(gateway, "hooks.agent", HOOK, **asked | {"message": "y"})

        assert again["runId"] == run["runId"]
        assert before is not None
        assert before.archived_at is not None
        assert await gateway.ledger.find_session(key) == before


@pytest.mark.parametrize("road", ["hook", "chat"])
async def test_a_message_that_brings_its_session_back_is_announced_and_begins_nothing_anew(
    tmp_path: Path, road: str
) -> None:
    """Though the session was last used long ago: whoever writes to it wants to go on."""
    settings = {"hooks": {"allowRequestSessionKey": True}, "session": {"reset": {"mode": "daily"}}}
    chat, changes = MemoryChannel(settings=OPEN_TO_ALL), list[Any]()
    config = msgspec.convert(settings, Config)
    provider = ScriptedProvider(lambda request: "ok")

    async def speak(gateway: Gateway, number: int) -> str:
        if road == "chat":
            return await chat.say("ana", f"hi {number}", group="g1")
        asked = {"message": "x", "sessionKey": "hook:mail", "idempotencyKey": f"i{number}"}
        return str((await call(gateway, "hooks.agent", HOOK, **asked))["runId"])

    async with open_gateway(tmp_path, provider, config=config, channels=[chat]) as gateway:
        await gateway.run_store.wait(await speak(gateway, 1))
        (first,) = await gateway.ledger.list_sessions(limit=9, sight=EVERYTHING)
        key = first.key
        await call(gateway, "sessions.archive", key=key.shown)
        await anyio.sleep(3 * 86_400)
        gateway.feed.subscribe(changes.append, SessionChanged)
        await gateway.run_store.wait(await speak(gateway, 2))

        session = await gateway.ledger.find_session(key)

    assert session is not None
    assert session.archived_at is None
    assert session.session_id == first.session_id
    assert [(each.key, each.reason) for each in changes] == [(key, "unarchive")]


async def test_a_command_and_a_message_are_heard_in_a_chat_that_was_put_away(
    tmp_path: Path,
) -> None:
    chat, provider = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(lambda request: "ok")
    async with open_gateway(tmp_path, provider, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await call(gateway, "sessions.archive", key="agent:main:memory:group:g1")
        run = await chat.say("ana", "/status", group="g1")
        await gateway.run_store.wait(run)
        run = await chat.say("ana", "hello", group="g1")
        await gateway.run_store.wait(run)
        await anyio.sleep(600)
    assert len(chat.sent) == 3


WORK = SessionKey.parse("agent:main:work")
COMMANDS = ("/status", "/think high", "/new", "/new hello", "/stop", "stop", "/send off", "/nosuch")


async def put_away(gateway: Gateway) -> None:
    await say(gateway, "work", "hi", "r1")
    await call(gateway, "sessions.archive", key="work")


@pytest.mark.parametrize("text", COMMANDS)
async def test_a_command_to_an_archived_session_is_refused_like_any_message_and_does_nothing(
    tmp_path: Path, text: str
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        await put_away(gateway)
        before = await gateway.ledger.find_session(WORK)
        for _ in range(2):
            with pytest.raises(Invalid, match="is archived: it can be read, not written to"):
                await call(
                    gateway, "chat.send", sessionKey="work", message=text, idempotencyKey="c1"
                )

        assert await gateway.ledger.find_session(WORK) == before
        assert await gateway.run_store.find("c1") is None


@pytest.mark.parametrize("text", COMMANDS)
async def test_a_command_asked_again_is_answered_as_before_although_its_session_was_archived_since(
    tmp_path: Path, text: str
) -> None:
    said: dict[str, Any] = {"sessionKey": "work", "message": text, "idempotencyKey": "c1"}
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        await say(gateway, "work", "hi", "r1")
        first = await call(gateway, "chat.send", **said)
        await gateway.run_store.wait("c1")
        await call(gateway, "sessions.archive", key="work")
        before = await gateway.ledger.find_session(WORK)

        again = await call(gateway, "chat.send", **said)

        assert again == first | ({"status": "ok"} if "status" in first else {})
        assert await gateway.ledger.find_session(WORK) == before


async def test_what_was_on_its_way_when_its_session_was_put_away_brings_it_back(
    tmp_path: Path,
) -> None:
    """Handed to the intake by the test: no client can say that it was resolved before and arrives after."""
    provider = ScriptedProvider(lambda request: "the news")
    config = msgspec.convert({"hooks": {"allowRequestSessionKey": True}}, Config)
    async with open_gateway(tmp_path, provider, config=config) as gateway:
        run = await call(gateway, "hooks.agent", HOOK, message="x", sessionKey="hook:mail")
        await gateway.run_store.wait(run["runId"])
        as_it_was = await gateway.resolver.resolve(OWNER, "hook:mail", "talk")
        await call(gateway, "sessions.archive", key="hook:mail")
        accepted = await gateway.intake.require(
            Arrival(
                road="hook",
                to=as_it_was,
                text="y",
                origin=Provenance("hook"),
                caller=Caller(principal=HOOK),
            )
        )
        await gateway.run_store.wait(accepted.run_id)
        rows = (await call(gateway, "sessions.list"))["sessions"]

    assert "hook:mail" in [row["key"] for row in rows]
