"""The same message of a platform, delivered twice at one moment: it and all that came with it is stored and answered once."""

from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import Invalid, StoreFull
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage, words_of
from crossclaw.domain.runs import NewRun
from crossclaw.ledger.operations import ArchiveSession, Claim, Op, ResetSession, Submit
from crossclaw.sessions.arrivals import RequestId
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.interposing import Step, interpose
from tests.flows.talking import call

MAIN = SessionKey.main("main")


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


OWNED = msgspec.convert({"commands": {"ownerAllowFrom": ["memory:ana"]}}, Config)


@pytest.mark.parametrize("by", ["channel", "chat.send"])
@pytest.mark.parametrize("text", ["/new", "/new hello", "/stop", "/think high", "/nosuch"])
async def test_a_command_of_the_owner_is_carried_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, text: str
) -> None:
    """The second one is a moment later than the first at whatever it does in the ledger."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    model = ScriptedProvider(lambda request: "answer", delay_s=2)
    async with open_gateway(tmp_path, model, config=OWNED, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", message_id="m0"))
        changes: list[Any] = []
        gateway.feed.subscribe(changes.append, SessionChanged)
        late = ContextVar("late", default=False)

        async def slowed(commit: Step, *ops: Op[Any]) -> list[Any]:
            await anyio.sleep(0.1 if late.get() else 0.01)
            return await commit(*ops)

        interpose(monkeypatch, gateway, Op, slowed)
        heard: list[str] = []

        async def say(is_late: bool) -> None:
            late.set(is_late)
            if by == "channel":
                heard.append(await chat.say("ana", text, message_id="m1"))
            else:
                await call(
                    gateway, "chat.send", sessionKey="main", message=text, idempotencyKey="k1"
                )
                heard.append("k1")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, False)
            tasks.start_soon(say, True)
        run = await gateway.run_store.wait(heard[0], timeout_s=20)
        await anyio.sleep(0.3)

    expected = {"/new": ["reset"], "/new hello": ["reset"], "/think high": ["patch"]}
    assert heard == [heard[0]] * 2
    assert run is not None
    assert (run.status, run.kind) == ("ok", "chat" if text == "/new hello" else "command")
    assert [each.reason for each in changes] == expected.get(text, [])
    assert len(chat.sent) == (2 if by == "channel" else 1)


@pytest.mark.parametrize("text", ["/new hello", "/new"])
async def test_a_request_that_another_gateway_has_accepted_meanwhile_stops_and_resets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The other one is a step of the ledger that comes while this one is about to begin anew; its run is at work then."""
    model = ScriptedProvider(lambda request: "answer", delay_s=2)
    async with open_gateway(tmp_path, model) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="k0")
        await gateway.run_store.wait("k0", timeout_s=20)
        before = await gateway.ledger.find_session(MAIN)
        steps: list[str] = []
        request = RequestId(id="k1", words=("chat", text))

        async def accepted_meanwhile(commit: Step, *ops: Op[Any]) -> list[Any]:
            steps.append("reset")
            run = NewRun(run_id="k1", key=MAIN, kind="chat", message=UserMessage("hello", 1))
            await commit(
                Submit(new=run, at=1, dedupe=request.dedupe(MAIN)),
                Claim(key=MAIN, owner="another", at=1),
            )
            return await commit(*ops)

        interpose(monkeypatch, gateway, ResetSession, accepted_meanwhile)
        await call(gateway, "chat.send", sessionKey="main", message=text, idempotencyKey="k1")
        run = await gateway.run_store.find("k1")
        after = await gateway.ledger.find_session(MAIN)

    assert steps == ["reset"]
    assert run is not None
    assert run.status == "running"
    assert before is not None
    assert after is not None
    assert after.session_id == before.session_id


async def test_a_message_that_comes_while_a_session_begins_anew_is_stopped_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedProvider(lambda request: "answer", delay_s=2)
    async with open_gateway(tmp_path, model) as gateway:
        steps: list[str] = []

        async def busy_once(commit: Step, *ops: Op[Any]) -> list[Any]:
            steps.append("reset")
            if len(steps) == 1:
                await call(
                    gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="k0"
                )
            return await commit(*ops)

        interpose(monkeypatch, gateway, ResetSession, busy_once)
        await call(gateway, "chat.send", sessionKey="main", message="/new", idempotencyKey="k1")
        between = await gateway.run_store.wait("k0", timeout_s=20)
        command = await gateway.run_store.wait("k1", timeout_s=20)

    assert steps == ["reset"] * 2
    assert between is not None
    assert command is not None
    assert (between.status, command.status) == ("aborted", "ok")


@pytest.mark.parametrize("text", ["/status", "/new", "/new hello", "hello"])
async def test_what_is_said_in_a_chat_that_is_archived_in_that_moment_brings_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(lambda request: "answer")
    key = SessionKey.parse("agent:main:memory:group:g1")
    async with open_gateway(tmp_path, model, config=OWNED, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        archived: list[Any] = []

        async def archived_before(commit: Step, *ops: Op[Any]) -> list[Any]:
            if not archived:
                archived.extend(await commit(ArchiveSession(key=key, at=1)))
            return await commit(*ops)

        interpose(monkeypatch, gateway, Submit, archived_before)
        await gateway.run_store.wait(await chat.say("ana", text, group="g1"))
        session = await gateway.ledger.find_session(key)

    assert archived != [None]
    assert session is not None
    assert session.archived_at is None


@pytest.mark.parametrize("text", ["/new hello", "/new", "/think high", "/stop"])
async def test_a_command_whose_key_is_refused_changes_nothing(tmp_path: Path, text: str) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "answer")) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="k0")
        await gateway.run_store.wait("k0")
        before = await gateway.ledger.find_session(MAIN)

        with pytest.raises(Invalid, match="must not contain '::'"):
            await call(
                gateway, "chat.send", sessionKey="main", message=text, idempotencyKey="k0::wake"
            )

        assert await gateway.ledger.find_session(MAIN) == before


async def test_a_full_store_refuses_a_new_session_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "answer")) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="k0")
        await gateway.run_store.wait("k0")
        before = await gateway.ledger.find_session(MAIN)

        async def full(commit: Step, *ops: Op[Any]) -> list[Any]:
            raise StoreFull("the disk is full")

        with monkeypatch.context() as meanwhile:
            interpose(meanwhile, gateway, Submit, full)
            with pytest.raises(StoreFull):
                await call(
                    gateway,
                    "chat.send",
                    sessionKey="main",
                    message="/new hello",
                    idempotencyKey="k",
                )

        assert await gateway.ledger.find_session(MAIN) == before


async def test_what_was_said_before_in_a_group_begins_a_session_that_begins_anew(
    tmp_path: Path,
) -> None:
    """Where the session is due to begin anew, also what came before the message stands in the new transcript."""
    settings = msgspec.structs.replace(OPEN_TO_ALL, require_mention=True, history_limit=5)
    chat, model = MemoryChannel(settings=settings), ScriptedProvider(lambda request: "answer")
    config = msgspec.convert({"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}, Config)
    key = SessionKey.parse("agent:main:memory:group:g1")

    async def bring(message_id: str, text: str, *, mentioned: bool) -> None:
        inbound = Inbound(
            address=Address("memory", "g1"), sender="ana", text=text, message_id=message_id,
            chat_type="group", chat_id="g1", mentioned=mentioned,
        )  # fmt: skip
        await chat.bring(inbound)

    async with open_gateway(tmp_path, model, config=config, channels=[chat]) as gateway:
        await bring("m0", "hi", mentioned=True)
        await chat.wait_sent(1)
        first = await gateway.ledger.find_session(key)
        await anyio.sleep(2 * 3600)
        await bring("m1", "lunch is at noon", mentioned=False)
        await bring("m2", "when is lunch?", mentioned=True)
        await chat.wait_sent(2)
        second = await gateway.ledger.find_session(key)
        assert first is not None
        assert second is not None
        entries = await gateway.ledger.list_entries(second.session_id, limit=50)

    assert second.session_id != first.session_id
    said = [words_of(entry.message) for entry in entries if entry.message]
    assert [("lunch is at noon" in each, "when is lunch?" in each) for each in said[:2]] == [
        (True, False),
        (False, True),
    ]


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
