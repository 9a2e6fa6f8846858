"""Agents outside of the gateway: they have a session, hear what is sent to it, and answer."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.config.gateway import GatewayConfig
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import (
    Busy,
    CredentialEnded,
    CrossclawError,
    Forbidden,
    Invalid,
    NotFound,
)
from crossclaw.domain.events import RunStarted
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, UserMessage
from crossclaw.door.principal import Principal, person_principal, session_principal
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.sessions import guest_names, newest
from crossclaw.sessions.guest_names import guest_name
from crossclaw.sessions.guest_run import AT_WORK_S, AWAY_S, GuestPresence
from crossclaw.sessions.guests import WAIT_MAX_S
from crossclaw.testing import VirtualClock, open_gateway
from crossclaw.tools.guests import GuestTools
from crossclaw.tools.invoke import ToolNotAvailable
from tests.flows.crashing import crashed_copy
from tests.flows.talking import OWNER, call, results_of, say
from tests.flows.talking import two_agents as only_two_agents

ASK = 'tool: sessions_send {"label": "bob", "message": "two and two?", "timeoutSeconds": 300}\nthen:\nsay: told'


def two_agents(**session: Any) -> Config:
    """Guests see whom a session of the default agent sees, unless a test is about that."""
    gateway = msgspec.convert({"guests": {"sessions": {"*": ["*"]}}}, GatewayConfig)
    return msgspec.structs.replace(only_two_agents(**session), gateway=gateway)


class Guest:
    """An MCP client's agent, without the wire."""

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        config: Config | None = None,
        client_id: str | None = None,
    ) -> None:
        context = gateway.context
        if config is not None:
            context = msgspec.structs.replace(context, config=CurrentConfig.of(config))
        self._tools = GuestTools(
            context,
            gateway.door,
            gateway.toolsets,
            gateway.guests,
            gateway.guest_names,
            lambda agent_id: "x/y",
        )
        self.name = name
        self.client_id = client_id

    def leave(self) -> None:
        assert self.client_id is not None
        self._tools.left(self.client_id)

    async def call(self, tool: str, principal: Principal = OWNER, **arguments: Any) -> Any:
        result = await self._tools.call(principal, self.name, tool, arguments, self.client_id)
        return msgspec.json.decode(msgspec.json.encode(result))

    async def come(self) -> None:
        await self._tools.list(OWNER, self.name)

    async def wait(self, seconds: float = 600) -> Any:
        return await self.call("sessions_wait", timeoutSeconds=seconds)

    async def reply(self, run_id: str, words: str) -> Any:
        return await self.call("sessions_reply", runId=run_id, reply=words)


@pytest.mark.spec("G5")
async def test_an_agent_asks_a_guest_by_its_name_and_gets_its_answer(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        async with anyio.create_task_group() as tasks:

            async def answer() -> None:
                asked = await bob.wait()
                assert (asked["message"], asked["sender"]) == ("two and two?", "agent:main:main")
                assert await bob.reply(asked["runId"], "four") == {
                    "runId": asked["runId"],
                    "status": "ok",
                }

            tasks.start_soon(answer)
            run = await say(gateway, "main", ASK, "r1")
        (result,) = await results_of(gateway, run)
        session = await gateway.ledger.find_session(SessionKey.guest("main", "bob"))

    assert (result["status"], result["reply"]) == ("ok", "four")
    assert session is not None
    assert (session.label, session.display_name) == ("bob", "bob")


@pytest.mark.spec("G5", "B1")
async def test_a_message_comes_again_until_it_is_answered_and_then_never(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        handed = [(await bob.wait())["runId"] for _ in range(3)]
        await bob.reply(sent["runId"], "done")
        after = await bob.wait(1)

    assert handed == [sent["runId"]] * 3
    assert after == {"status": "nothing"}


@pytest.mark.spec("G5", "B1")
async def test_a_message_survives_the_death_of_gateway_and_guest(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    async with open_gateway(folder, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        left = crashed_copy(folder)

    async with open_gateway(left, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        asked = await bob.wait()
        await bob.reply(asked["runId"], "done")
        run = await gateway.run_store.find(sent["runId"])
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]

    assert asked["runId"] == sent["runId"]
    assert run is not None
    assert (run.status, run.reply) == ("ok", "done")
    assert [type(entry.message).__name__ for entry in entries] == [
        "UserMessage",
        "AssistantMessage",
    ]


@pytest.mark.spec("G5", "B1")
async def test_an_answer_counts_once(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        await bob.reply(sent["runId"], "yes")
        again = await bob.reply(sent["runId"], "yes")
        with pytest.raises(Invalid, match="answered before"):
            await bob.reply(sent["runId"], "no")
        run = await gateway.run_store.find(sent["runId"])

    assert again["status"] == "ok"
    assert run is not None
    assert run.reply == "yes"


@pytest.mark.spec("G5")
async def test_nobody_answers_for_somebody_else(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob, eve = Guest(gateway, "bob"), Guest(gateway, "eve")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        with pytest.raises(NotFound) as foreign:
            await eve.reply(sent["runId"], "mine")
        with pytest.raises(NotFound) as missing:
            await eve.reply("no-such-run", "mine")
        with pytest.raises(Invalid, match="only a guest"):
            await call(gateway, "tool.sessions_wait")

    assert str(foreign.value).replace(sent["runId"], "X") == str(missing.value).replace(
        "no-such-run", "X"
    )


@pytest.mark.spec("G5", "S3")
async def test_a_guest_that_stays_silent_costs_its_time_and_nothing_else(tmp_path: Path) -> None:
    config = msgspec.convert({"agents": {"defaults": {"timeoutSeconds": 60}}}, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        bob = Guest(gateway, "bob", config)
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=300)
        later = await call(gateway, "sessions.send", label="bob", message="two", timeoutSeconds=0)
        with pytest.raises(Invalid, match="no longer be answered: the run was stopped after 60 s"):
            await bob.reply(sent["runId"], "too late")
        asked = await bob.wait()

    assert sent["status"] == "error"
    assert (asked["runId"], asked["message"]) == (later["runId"], "two")


@pytest.mark.spec("G5", "S3", "B1")
async def test_whoever_sends_to_a_guest_that_left_is_told_so_soon(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        began = anyio.current_time()

        async def ask(words: str) -> None:
            sent = await call(
                gateway, "sessions.send", label="bob", message=words, timeoutSeconds=500
            )
            told.append((sent["error"], anyio.current_time() - began))

        async with anyio.create_task_group() as tasks:
            for words in ("one", "two", "three"):
                tasks.start_soon(ask, words)
        later = await call(gateway, "sessions.send", label="bob", message="four", timeoutSeconds=0)
        asked = await bob.wait()
        await bob.reply(asked["runId"], "back again")
        kept = await call(gateway, "chat.history", sessionKey="agent:main:mcp:bob")

    assert asked["runId"] == later["runId"]
    assert all("the guest bob is away" in error for error, _ in told)
    assert all(AWAY_S <= took < AWAY_S + 10 for _, took in told)  # not one after the other
    said = [m["content"][0]["text"] for m in kept["messages"] if m["role"] == "user"]
    assert sorted(said) == ["four", "one", "three", "two"]


@pytest.mark.spec("G5", "S3")
async def test_a_guest_that_has_been_silent_for_long_still_has_its_time_for_a_new_message(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        await anyio.sleep(AWAY_S + 10)
        began = anyio.current_time()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=500)
        took_s = anyio.current_time() - began

    assert "the guest bob is away" in sent["error"]
    assert AWAY_S <= took_s < AWAY_S + 10


@pytest.mark.spec("G5")
async def test_a_guests_run_that_is_stopped_says_so_in_its_transcript(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        await call(gateway, "chat.abort", sessionKey="agent:main:mcp:bob")
        run = await gateway.run_store.wait(sent["runId"], timeout_s=60)
        assert run is not None
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)

    message = entries[-1].message
    assert isinstance(message, AssistantMessage)
    assert (run.status, message.stop_reason) == ("aborted", "aborted")


@pytest.mark.spec("G5", "S3")
async def test_a_guest_that_answered_and_then_fell_silent_has_its_time_too(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.reply((await bob.wait())["runId"], "here")
        await anyio.sleep(AWAY_S + 10)
        began = anyio.current_time()
        sent = await call(gateway, "sessions.send", label="bob", message="two", timeoutSeconds=500)
        took_s = anyio.current_time() - began

    assert "the guest bob is away" in sent["error"]
    assert AWAY_S <= took_s < AWAY_S + 10


@pytest.mark.spec("G5", "S3")
async def test_a_guest_at_work_has_its_time_as_long_as_it_is_heard_of(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        asked = await bob.wait()
        await anyio.sleep(AT_WORK_S - 1)
        await bob.call("sessions_list")
        await anyio.sleep(AT_WORK_S - 1)
        answered = await bob.reply(asked["runId"], "done")
        lost = await call(gateway, "sessions.send", label="bob", message="two", timeoutSeconds=0)
        await bob.wait()
        await anyio.sleep(AT_WORK_S + 1)
        with pytest.raises(Invalid, match="no longer be answered: the guest bob is away"):
            await bob.reply(lost["runId"], "too late")

    assert answered["status"] == "ok"


@pytest.mark.spec("G5", "B1")
async def test_a_guest_that_was_at_work_when_the_gateway_died_still_is(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    async with open_gateway(folder, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        left = crashed_copy(folder)

    async with open_gateway(left, RehearsalProvider(), config=two_agents()) as gateway:
        await anyio.sleep(AT_WORK_S - 1)
        answered = await Guest(gateway, "bob").reply(sent["runId"], "done")

    assert answered["status"] == "ok"


@pytest.mark.spec("G5", "B1")
async def test_a_message_that_others_stand_behind_is_found_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "ENTRIES_A_PAGE", 1)
    folder = tmp_path / "gateway"
    folder.mkdir()
    async with open_gateway(folder, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        key = SessionKey.guest("main", "bob").text
        for number in range(2):
            await call(gateway, "chat.inject", sessionKey=key, message=f"a note {number}")
        left = crashed_copy(folder)

    async with open_gateway(left, RehearsalProvider(), config=two_agents()) as gateway:
        with anyio.fail_after(60):
            again = await Guest(gateway, "bob").wait()

    assert (again["runId"], again["message"]) == (sent["runId"], "one")
    assert again["context"].startswith("This message was sent into your session from the outside")


@pytest.mark.spec("G5")
async def test_a_guest_with_a_message_in_its_hands_is_there_for_longer_without_a_word() -> None:
    presence, bob = GuestPresence(VirtualClock(), lambda: None), SessionKey.guest("main", "bob")
    with presence.heard_of(bob):
        pass
    here = list[tuple[bool, bool]]()
    for pause_s in (AWAY_S - 1, 2, AT_WORK_S - AWAY_S):
        await anyio.sleep(pause_s)
        here.append(tuple(presence.is_here(bob, has_message=each) for each in (False, True)))  # type: ignore[arg-type]

    assert here == [(True, True), (False, True), (False, False)]


@pytest.mark.spec("G5", "B6")
async def test_that_a_guest_is_there_is_told_when_it_comes_and_not_at_every_call() -> None:
    """The other gateways hear of it: they know then where it is. Whoever was away comes once more."""
    came = list[float]()
    presence = GuestPresence(VirtualClock(), lambda: came.append(anyio.current_time()))
    began = anyio.current_time()
    for pause_s in (0, AWAY_S - 1, AWAY_S - 1, AWAY_S + 1):
        await anyio.sleep(pause_s)
        with presence.heard_of(SessionKey.guest("main", "bob")):
            pass

    assert [at - began for at in came] == pytest.approx([0, 3 * AWAY_S - 1])


@pytest.mark.spec("G5")
async def test_a_guest_that_was_woken_for_nothing_waits_on_until_its_time_is_over(
    tmp_path: Path,
) -> None:
    """Another gateway says that a run has begun for it, which is over when it looks."""
    heard: list[Any] = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob, run = Guest(gateway, "bob"), await say(gateway, "main", "say: hi", "r1")
        over = msgspec.structs.replace(run, key=SessionKey.guest("main", "bob"))

        async def wait() -> None:
            heard.append(await bob.wait(5))

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(1)
            gateway.guests.on_event(RunStarted(over))

    assert heard[0]["status"] == "nothing"
    assert anyio.current_time() - began == pytest.approx(5, abs=0.1)


@pytest.mark.spec("G5", "S9")
async def test_a_guest_that_asks_back_whoever_waits_for_it_hears_of_the_circle(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, gateway, "main", ASK, "r1")
            asked = await bob.wait()
            back = await bob.call(
                "sessions_send", agentId="main", message="say: what?", timeoutSeconds=300
            )
            await bob.reply(asked["runId"], "never mind")
        sent = await gateway.run_store.find(back["runId"])

    assert back["status"] == "timeout"
    assert "wait for each other" in back["error"]
    assert sent is not None
    assert sent.cause.chain[-1] == asked["runId"]
    assert sent.cause.hops == 2


@pytest.mark.spec("G5", "B4")
async def test_what_a_guest_does_for_a_message_has_that_messages_hops(tmp_path: Path) -> None:
    config = two_agents(agentToAgent={"maxHops": 1})
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        bob = Guest(gateway, "bob", config)
        await bob.come()
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await anyio.sleep(1)
        free = await bob.call("sessions_send", agentId="librarian", message="hi", timeoutSeconds=0)
        asked = await bob.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, gateway, "main", ASK, "r1")
            await bob.reply(asked["runId"], "ok")
            await bob.wait()
            bound = await bob.call("sessions_send", agentId="librarian", message="hi")
            await bob.reply((await bob.wait())["runId"], "REPLY_SKIP")

    assert free["status"] == "accepted"
    assert bound["status"] == "error"
    assert "hops" in bound["error"]


@pytest.mark.spec("G5")
async def test_what_a_guest_has_under_way_ends_with_its_answer(tmp_path: Path) -> None:
    cut: list[CrossclawError] = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        asked = await bob.wait()

        async def ask_and_wait() -> None:
            try:
                await bob.call(
                    "sessions_send", agentId="librarian", message="wait: 60", timeoutSeconds=100
                )
            except CrossclawError as error:
                cut.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_and_wait)
            await anyio.sleep(1)
            await bob.reply(asked["runId"], "done")
        await anyio.sleep(1)
        taken = gateway.slots.taken

    assert "has ended, and this call with it" in str(cut[0])
    assert taken == 1  # the librarian's run goes on; bob's slot was not taken for ever


@pytest.mark.spec("G5")
async def test_a_client_that_waits_anew_is_heard_by_its_newer_call(tmp_path: Path) -> None:
    older: list[Any] = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob", client_id="one")

        async def wait_first() -> None:
            older.append(await bob.wait())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_first)
            await anyio.sleep(1)
            newer = await bob.wait(5)

    assert (older[0]["status"], newer["status"]) == ("replaced", "nothing")


@pytest.mark.spec("G5")
@pytest.mark.parametrize("known", [("one", "two"), ("one", None), (None, "two"), (None, None)])
async def test_a_second_client_under_a_name_hears_nothing_while_the_first_waits(
    tmp_path: Path, known: tuple[str | None, str | None]
) -> None:
    heard: list[Any] = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        first, second = (Guest(gateway, "bob", client_id=each) for each in known)

        async def wait_first() -> None:
            heard.append(await first.wait())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_first)
            await anyio.sleep(1)
            with pytest.raises(Busy, match="connect under another name"):
                await second.wait(5)
            await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)

    assert heard[0]["message"] == "one"


@pytest.mark.spec("G5")
@pytest.mark.parametrize("known", [("one", "two"), ("one", None), (None, "two")])
async def test_a_message_in_a_clients_hands_is_not_for_the_second_under_its_name(
    tmp_path: Path, known: tuple[str | None, str | None]
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        first, second = (Guest(gateway, "bob", client_id=each) for each in known)
        await first.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await first.wait()
        await anyio.sleep(AT_WORK_S - 1)
        with pytest.raises(Busy, match="connect under another name"):
            await second.wait(0)
        with pytest.raises(Busy, match="connect under another name"):
            await second.reply(sent["runId"], "mine")
        apart = await second.call(
            "sessions_send", agentId="librarian", message="say: hi", timeoutSeconds=0
        )
        own = await gateway.run_store.find(apart["runId"])
        answered = await first.reply(sent["runId"], "done")
        if known[0] is not None:  # by which it is known again, also when it has nothing to answer
            with pytest.raises(Busy, match="connect under another name"):
                await second.wait(0)

    assert answered["status"] == "ok"
    assert own is not None
    assert sent["runId"] not in own.cause.chain


@pytest.mark.spec("G5", "B1")
@pytest.mark.parametrize("how", ["says so", "its connection ends", "is not heard of"])
async def test_a_name_is_free_when_its_client_is_gone(tmp_path: Path, how: str) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        first, second = (
            Guest(gateway, "bob", client_id="one"),
            Guest(gateway, "bob", client_id="two"),
        )
        await first.wait(0)
        if how == "says so":
            first.leave()
        elif how == "its connection ends":
            with anyio.move_on_after(1):
                await first.wait()
        else:
            await anyio.sleep(AWAY_S)
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        asked = await second.wait()
        with pytest.raises(Busy, match="connect under another name"):
            await first.wait(0)

    assert asked["message"] == "one"


@pytest.mark.spec("G5")
async def test_a_run_that_waits_for_a_guest_leaves_its_place_to_others(tmp_path: Path) -> None:
    config = msgspec.convert({"agents": {"defaults": {"maxConcurrent": 1}}}, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        bob = Guest(gateway, "bob", config)
        await bob.come()
        await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        asked = await bob.wait()
        run = await say(gateway, "main", "say: hello", "r1")
        await bob.reply(asked["runId"], "and good bye")

    assert run.reply == "hello"


@pytest.mark.spec("G5", "S6", "S7")
async def test_two_guests_speak_in_turn_and_announce_nothing(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        ann, bob = Guest(gateway, "ann"), Guest(gateway, "bob")
        await bob.come()
        sent = await ann.call("sessions_send", label="bob", message="hi", timeoutSeconds=0)
        await bob.reply((await bob.wait())["runId"], "hi yourself")
        turn = await ann.wait()
        await ann.reply(turn["runId"], "REPLY_SKIP")
        await anyio.sleep(1)
        exchange = await gateway.ledger.find_exchange(sent["runId"])
        entries = await gateway.ledger.list_entries(
            (await gateway.ledger.find_session(SessionKey.guest("main", "bob"))).session_id,  # type: ignore[union-attr]
            limit=9,
        )

    assert (turn["kind"], turn["message"]) == ("round", "hi yourself")
    assert exchange is not None
    assert (exchange.state, exchange.announce) == ("over", "silent")
    assert sum(isinstance(entry.message, UserMessage) for entry in entries) == 2


@pytest.mark.spec("G5")
async def test_a_stopped_message_is_taken_from_its_guest(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        await bob.wait()
        await call(gateway, "chat.abort", sessionKey="agent:main:mcp:bob")
        after = await bob.wait(0)
        with pytest.raises(Invalid, match="stopped by the client"):
            await bob.reply(sent["runId"], "done")

    assert after == {"status": "nothing"}


@pytest.mark.spec("G5")
async def test_a_guest_has_the_session_tools_as_far_as_they_are_given(tmp_path: Path) -> None:
    config = msgspec.convert({"gateway": {"tools": {"deny": ["sessions_history"]}}}, Config)
    reader = person_principal("reader", {"operator.read"})
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        bob = Guest(gateway, "bob", config)
        listed = await bob.call("sessions_list", reader)
        for tool in ("sessions_history", "read", "nope"):
            with pytest.raises(ToolNotAvailable):
                await bob.call(tool)
        with pytest.raises(Forbidden, match=r"operator\.write"):
            await bob.call("sessions_send", reader, agentId="main", message="hi")
        for seconds in (-1, float("nan")):
            with pytest.raises(Invalid, match="timeoutSeconds"):
                await bob.wait(seconds)
        for words in ("", "  "):
            with pytest.raises(Invalid, match="empty"):
                await bob.reply("x", words)

    assert [row["key"] for row in listed["sessions"]] == ["agent:main:mcp:bob"]
    assert WAIT_MAX_S == 3600


@pytest.mark.parametrize(
    ("said", "name"),
    [("codex", "codex"), (" Claude Code ", "Claude-Code"), ("a:b", "a-b"), ("x" * 64, "x" * 64)],
)
def test_a_guests_name_is_a_part_of_a_key(said: str, name: str) -> None:
    assert guest_name(said) == name


@pytest.mark.parametrize("said", ["", " ", ":", "a\x00b"])
def test_a_guest_without_a_name_is_refused(said: str) -> None:
    with pytest.raises(Invalid, match="needs a name"):
        guest_name(said)


@pytest.mark.spec("G5", "B3")
@pytest.mark.parametrize(
    "raw",
    [
        {"gateway": {"tools": {"deny": ["group:sessions"]}}},
        {"tools": {"deny": ["sessions_spawn", "sessions_list"]}},
    ],
)
async def test_guests_stand_under_the_same_tool_policy(tmp_path: Path, raw: dict[str, Any]) -> None:
    config = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        bob = Guest(gateway, "bob", config)
        with pytest.raises(Exception, match="Tool not available: sessions_spawn"):
            await bob.call("sessions_spawn", task="say: hi")
        with pytest.raises(Exception, match="Tool not available: sessions_list"):
            await bob.call("sessions_list")


@pytest.mark.spec("G5", "B3")
async def test_what_a_guest_spawns_has_nothing_of_this_machine_either(tmp_path: Path) -> None:
    """Whoever writes into the child later."""
    task = 'tool: exec {"command": "echo ran > ran"}\nthen:\nsay: done'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        bob = Guest(gateway, "bob")
        spawned = await bob.call("sessions_spawn", task=task)
        first = await gateway.run_store.wait(spawned["runId"], timeout_s=3_600)
        again = await say(gateway, spawned["childSessionKey"], task, "r2")
        assert first is not None
        results = [*await results_of(gateway, first), *await results_of(gateway, again)]

    assert len(results) >= 2
    assert all("'exec' is not available here" in str(each) for each in results)
    assert not (tmp_path / "state" / "workspace" / "ran").exists()


@pytest.mark.spec("G5", "B3")
async def test_a_guest_sets_no_session_but_its_own_and_its_childrens(tmp_path: Path) -> None:
    """To see a session and to send to it is not to choose its model; an agent with a stranger's words does not either."""
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", "say: hello", "r1")
        await say(gateway, "agent:librarian:main", "say: hello", "r2")
        bob, librarian = Guest(gateway, "bob"), SessionKey.main("librarian")
        child = (await bob.call("sessions_spawn", task="say: done"))["childSessionKey"]
        refused = await bob.call("session_status", sessionKey="main", model="rehearsal/other")
        chosen = await bob.call("session_status", sessionKey=child, model="rehearsal/other")
        asked = {"sessionKey": "agent:main:main", "model": "rehearsal/mine"}
        stranger, owner = (
            session_principal(librarian, Authority(owner=owner)) for owner in (False, True)
        )
        with pytest.raises(Forbidden, match="not yours to change"):
            await call(gateway, "tool.session_status", stranger, **asked)
        before = await gateway.ledger.find_session(SessionKey.main("main"))
        told = await call(gateway, "tool.session_status", owner, **asked)

    assert (refused["status"], "not yours to change" in refused["error"]) == ("forbidden", True)
    assert before is not None
    assert before.model is None
    assert told["changedModel"] is True
    assert chosen["changedModel"] is True


@pytest.mark.spec("G5", "L3", "V3")
async def test_no_path_of_this_machine_is_told_to_a_guest(tmp_path: Path) -> None:
    """Whatever tool it calls, and in what comes back from its child."""
    told: dict[str, Any] = {}
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", "say: hello", "r1")
        bob = Guest(gateway, "bob")
        spawned = await bob.call("sessions_spawn", task="say: done")
        await gateway.run_store.wait(spawned["runId"], timeout_s=3_600)
        await bob.wait(60)
        own = "agent:main:mcp:bob"
        told["history"] = await bob.call("sessions_history", sessionKey=own, includeTools=True)
        told["list"] = await bob.call("sessions_list", messageLimit=20)
        told["status"] = await bob.call("session_status", sessionKey="main")
        told["agents"] = await bob.call("agents_list")
        seen = msgspec.json.encode(told).decode()

    assert "Status: success" in seen
    assert [row["key"] for row in told["list"]["sessions"] if "transcriptPath" in row] == []
    assert str(tmp_path) not in seen


@pytest.mark.spec("G5")
async def test_a_guest_whose_name_is_somebodys_label_has_it_too(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "sessions.patch", key="agent:main:desk", label="bob")
        bob = Guest(gateway, "bob")
        rows = (await bob.call("sessions_list"))["sessions"]

    by_key = {row["key"]: row.get("label") for row in rows}
    assert by_key["agent:main:desk"] == "bob"
    assert by_key["agent:main:mcp:bob"] == "bob"


@pytest.mark.spec("G5")
async def test_two_long_names_are_never_one_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        with pytest.raises(Exception, match="at most 64"):
            await Guest(gateway, "x" * 65).call("sessions_list")


# ── whose name it is, and whom a guest sees ────────────────────────────────────────────────────

ANOTHER = person_principal("device:x", {"operator.write"}, [CredentialRef("device:operator:x", 1)])


@pytest.mark.spec("G5", "V3", "B3")
async def test_a_guest_sees_itself_and_its_partners(tmp_path: Path) -> None:
    """Partners are those that were given to it, and those that have sent to it."""
    guests = msgspec.convert(
        {"guests": {"sessions": {"bob": ["agent:librarian:main"]}}}, GatewayConfig
    )
    config = msgspec.structs.replace(only_two_agents(), gateway=guests)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        for number, key in enumerate(("main", "agent:librarian:main", "agent:main:secret")):
            await say(gateway, key, f"say: word {number}", f"r{number}")
        bob = Guest(gateway, "bob", config)
        before = [row["key"] for row in (await bob.call("sessions_list"))["sessions"]]
        with pytest.raises(NotFound, match="unknown session: main"):
            await bob.call("sessions_history", sessionKey="main")
        with pytest.raises(NotFound, match="unknown session: agent:main:secret"):
            await bob.call("sessions_send", sessionKey="agent:main:secret", message="hello")
        with pytest.raises(NotFound):
            await bob.call("sessions_send", agentId="main", message="hello")
        sent = ASK.replace("300", "0")
        await say(gateway, "main", sent, "asks")
        after = [row["key"] for row in (await bob.call("sessions_list"))["sessions"]]
        read = await bob.call("sessions_history", sessionKey="main")

    assert sorted(before) == ["agent:librarian:main", "agent:main:mcp:bob"]
    assert sorted(after) == ["agent:librarian:main", "agent:main:mcp:bob", "main"]
    assert "word 0" in str(read)


@pytest.mark.spec("G5", "B3")
async def test_another_client_under_the_same_name_does_not_take_its_messages(
    tmp_path: Path,
) -> None:
    config = two_agents()
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        gateway.credentials.put("device:operator:x", 1)
        bob = Guest(gateway, "bob", config)
        await bob.come()
        sent = await call(gateway, "sessions.send", label="bob", message="one", timeoutSeconds=0)
        for tool, arguments in (
            ("sessions_wait", {"timeoutSeconds": 0}),
            ("sessions_reply", {"runId": sent["runId"], "reply": "mine now"}),
            ("sessions_list", {}),
        ):
            with pytest.raises(Forbidden, match="another client is here under the name bob"):
                await bob.call(tool, ANOTHER, **arguments)
        assert (await bob.wait(0))["message"] == "one"
        await gateway.guest_names.remove("bob")
        assert (await bob.call("sessions_wait", ANOTHER, timeoutSeconds=0))["message"] == "one"


@pytest.mark.spec("G5", "B3")
async def test_a_guests_own_token_is_for_its_name_alone_and_ends_with_it(tmp_path: Path) -> None:
    config = two_agents()
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        token = (await call(gateway, "guests.add", name="bob"))["token"]
        own = gateway.guest_names.find_token(token)
        assert own is not None
        bob, ann = Guest(gateway, "bob", config), Guest(gateway, "ann", config)
        assert (await bob.call("sessions_wait", own, timeoutSeconds=0))["status"] == "nothing"
        with pytest.raises(Forbidden, match="this token is for the guest bob, not for ann"):
            await ann.call("sessions_wait", own, timeoutSeconds=0)
        with pytest.raises(Forbidden, match="the guest bob has a token of its own"):
            await bob.wait(0)
        (listed,) = (await call(gateway, "guests.list"))["guests"]
        await call(gateway, "guests.remove", name="bob")
        assert gateway.guest_names.find_token(token) is None
        with pytest.raises(CredentialEnded):
            await bob.call("sessions_wait", own, timeoutSeconds=0)

    assert (listed["name"], listed["ownToken"]) == ("bob", True)
    assert token not in str(listed)


@pytest.mark.spec("G5")
async def test_there_are_only_so_many_guests_and_those_who_are_there_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_names, "GUESTS_MAX", 2)
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        for name in ("bob", "eve", "bob"):
            await Guest(gateway, name).come()
        with pytest.raises(Busy, match="there are 2 guests"):
            await Guest(gateway, "mallory").come()
