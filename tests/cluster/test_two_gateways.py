"""Two whole gateways on one database: whatever is asked of one is true on the other, and either may go."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import TaskStatus

from crossclaw.app import Gateway
from crossclaw.config import Config, Loaded
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CredentialEnded, CrossclawError, is_of_the_ledger
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse
from crossclaw.door.principal import person_principal
from crossclaw.ledger.operations import DeleteCredential, Op, PutCredential, ResetSession
from crossclaw.ledger.postgres import listener
from crossclaw.providers.contract import ModelRequest, Provider, TellPiece
from crossclaw.runs import lanes
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    message_texts,
    open_gateway,
)
from tests.cluster.devices import device_of_an_owner
from tests.cluster.test_gateways import ask
from tests.ending import SOON_S
from tests.flows.interposing import Step, interpose
from tests.flows.talking import call, results_of, say
from tests.flows.test_guests import Guest

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
MAIN = SessionKey.main("main")


TOKEN = "the-one-token-of-all-gateways-in-this-test"
Open = Callable[..., Awaitable[Gateway]]


@pytest.fixture
async def opened(tmp_path: Path, url: str) -> AsyncGenerator[Open]:
    """Opens a gateway of this name; all end with the test."""
    async with AsyncExitStack() as closing:

        async def open_as(name: str, model: Provider, **more: Any) -> Gateway:
            return await closing.enter_async_context(
                one_gateway(tmp_path, url, name, model, **more)
            )

        yield open_as


@asynccontextmanager
async def one_gateway(
    folder: Path,
    url: str,
    name: str,
    model: Provider,
    raw: Any = None,
    served: Any = None,
    **more: Any,
) -> AsyncGenerator[Gateway]:
    """`served`: the agents whose workspaces it has."""
    ledger = {"url": url, "shared": True, "gateway": name, "agents": served}
    config = msgspec.convert(
        {**(raw or {}), "ledger": ledger}, Config, dec_hook=lambda kind, value: kind(value)
    )
    place = folder / name
    place.mkdir(exist_ok=True)
    more["environ"] = {"OPENCLAW_GATEWAY_TOKEN": TOKEN, **more.get("environ", {})}
    async with open_gateway(
        place, model, config=config, inline=False, clock=SystemClock(), **more
    ) as gateway:
        yield gateway


def cut_off(url: str, name: str) -> None:
    """As another gateway does when the lease of this one is over."""
    ask(url, "DELETE FROM gateways WHERE gateway_id = $1", name)


@asynccontextmanager
async def apart(*of_gateway: Any, **more: Any) -> AsyncGenerator[tuple[Gateway, list[Exception]]]:
    """A gateway that may come to its end by itself; with what ended it."""
    ended: list[Exception] = []

    async def serve(*, task_status: TaskStatus[Gateway]) -> None:
        try:
            async with one_gateway(*of_gateway, **more) as gateway:
                task_status.started(gateway)
                await anyio.sleep_forever()
        except Exception as error:  # noqa: BLE001  looked at by the test
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        yield await tasks.start(serve), ended
        tasks.cancel_scope.cancel()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(SOON_S):
        while not await holds():  # noqa: ASYNC110  another gateway's doing
            await anyio.sleep(0.02)


class Waiting:
    """A model that answers when it is let, and knows who was asked."""

    name = "waiting"

    def __init__(self, words: str = "done") -> None:
        self.go, self.asked = anyio.Event(), anyio.Event()
        self.times, self.cut_off, self._words = 0, 0, words

    async def wait_asked(self) -> None:
        with anyio.fail_after(SOON_S):
            await self.asked.wait()

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self.times += 1
        self.asked.set()
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.cut_off += 1
            raise
        text = f"{self._words}: {message_texts(request.turns[-1])[-1]}"
        return AssistantMessage([Text(text)], stop_reason="end_turn")

    async def close(self) -> None:
        pass


async def begin(gateway: Gateway, run_id: str, text: str = "hello", key: str = "main") -> None:
    """Whichever gateway is faster takes it: a test that means one of them opens the other afterwards, or closes its slots."""
    await call(gateway, "chat.send", sessionKey=key, message=text, idempotencyKey=run_id)


async def test_a_run_on_one_gateway_is_waited_for_and_read_on_the_other(opened: Open) -> None:
    model = Waiting()
    a = await opened("a", model)
    await begin(a, "r1")
    await model.wait_asked()
    b = await opened("b", ScriptedProvider([]))
    waited: list[Any] = []

    async def wait() -> None:
        waited.append(await call(b, "agent.wait", runId="r1", timeoutMs=20_000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.1)
        model.go.set()
    assert waited[0]["status"] == "ok"
    history = await call(b, "chat.history", sessionKey="main")
    assert [each["role"] for each in history["messages"]] == ["user", "assistant"]
    assert model.times == 1


async def test_messages_by_two_gateways_are_answered_one_after_the_other(opened: Open) -> None:
    first, second = Waiting("a"), Waiting("b")
    a = await opened("a", first)
    await begin(a, "r1", "one")
    await first.wait_asked()
    b = await opened("b", second)
    await begin(b, "r2", "two")
    await anyio.sleep(1.5)  # longer than the look at what nobody has taken
    assert second.times == 0, "the session has a run under way, on the other gateway"
    first.go.set()
    second.go.set()
    for run_id in ("r1", "r2"):
        run = await b.run_store.wait(run_id, SOON_S)
        assert run is not None
        assert run.status == "ok"
    assert first.times + second.times == 2


@pytest.mark.spec("P8")
async def test_a_run_is_stopped_by_way_of_the_other_gateway(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "ABORT_PATIENCE_S", 600.0)  # it is told, and not passed over
    model = Waiting()
    a = await opened("a", model)
    await begin(a, "r1")
    await model.wait_asked()
    b = await opened("b", ScriptedProvider([]))
    with anyio.fail_after(SOON_S):
        answer = await call(b, "chat.abort", sessionKey="main")
    assert answer["aborted"]
    run = await a.run_store.wait("r1", 0)
    assert run is not None
    assert run.status == "aborted"
    await until(lambda: _is(model.cut_off == 1))


async def _is(what: bool) -> bool:
    return what


async def test_a_message_that_will_not_wait_interrupts_a_run_on_the_other_gateway(
    opened: Open,
) -> None:
    raw = {"messages": {"queue": {"mode": "interrupt"}}}
    first, second = Waiting("a"), Waiting("b")
    a = await opened("a", first, raw=raw)
    await begin(a, "r1", "one")
    await first.wait_asked()
    b = await opened("b", second, raw=raw)
    first.asked = anyio.Event()
    await begin(b, "r2", "two")
    run = await b.run_store.wait("r1", SOON_S)
    assert run is not None
    assert (run.status, run.error) == ("aborted", "interrupted by a newer message")
    first.go.set()
    second.go.set()
    run = await b.run_store.wait("r2", SOON_S)
    assert run is not None
    assert run.status == "ok"


@pytest.mark.spec("B1")
async def test_what_a_gateway_had_under_way_goes_on_when_its_lease_is_over_and_it_writes_nothing(
    tmp_path: Path, url: str
) -> None:
    lost, model = Waiting("too late"), Waiting("in time")
    async with apart(tmp_path, url, "a", lost) as (a, ended), AsyncExitStack() as later:
        await begin(a, "r1")
        await lost.wait_asked()
        b = await later.enter_async_context(one_gateway(tmp_path, url, "b", model))
        cut_off(url, "a")
        await model.wait_asked()
        model.go.set()
        lost.go.set()
        run = await b.run_store.wait("r1", SOON_S)
        assert run is not None
        assert (run.status, run.reply) == ("ok", "in time: hello")
        await until(lambda: _is(bool(ended)))
        assert is_of_the_ledger(ended[0]), "it drops everything, and its gateway opens anew"
        entries = await b.ledger.list_entries(run.session_id, limit=10)
        assert len([each for each in entries if isinstance(each.message, AssistantMessage)]) == 1


@pytest.mark.parametrize("text", ["/new hello", "/new"])
async def test_a_request_repeated_by_the_other_gateway_stops_and_resets_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The other one begins to carry it out as well, and is the later one at the ledger."""
    model = ScriptedProvider(lambda _request: "answer", delay_s=0.5)
    a, b = await opened("a", model), await opened("b", model)
    await say(a, "main", "hi", "k0")
    changes: list[Any] = []

    async def late(commit: Step, *ops: Op[Any]) -> list[Any]:
        await anyio.sleep(0.2)
        return await commit(*ops)

    interpose(monkeypatch, b, ResetSession, late)
    for gateway in (a, b):
        gateway.feed.subscribe(changes.append, SessionChanged)

    async def send(gateway: Gateway) -> None:
        await call(gateway, "chat.send", sessionKey="main", message=text, idempotencyKey="k1")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, a)
        tasks.start_soon(send, b)
    run = await a.run_store.wait("k1", timeout_s=SOON_S)

    assert run is not None
    assert (run.status, run.error) == ("ok", None)
    assert [each.reason for each in changes] == ["reset"]


@pytest.mark.spec("S2", "S6")
async def test_agents_talk_over_gateways(opened: Open) -> None:
    """Wherever each run is carried out: the wait, the rounds and the announce are the ledger's."""
    raw = {
        "agents": {"list": [{"id": "main"}, {"id": "librarian"}]},
        "session": {"agentToAgent": {"maxPingPongTurns": 0}},
    }

    def answer(request: ModelRequest) -> Any:
        said = message_texts(request.turns[-1])
        if said and said[-1] == "ask the librarian":
            params = {"sessionKey": "agent:librarian:main", "message": "which book?"}
            return ToolUse("c1", "sessions_send", {**params, "timeoutSeconds": 20})
        return "the red one"

    a = await opened("a", ScriptedProvider(answer), raw=raw)
    b = await opened("b", ScriptedProvider(answer), raw=raw)
    a.slots._free = 1  # the target's run has to be taken by the other one
    run = await say(a, "main", "ask the librarian", "r1")
    assert run.status == "ok"
    (result,) = await results_of(a, run)
    assert "the red one" in msgspec.json.encode(result).decode()
    assert await b.ledger.find_session(SessionKey.main("librarian"))


@pytest.mark.spec("N9", "B2")
async def test_an_account_is_one_gateways_and_replies_of_the_other_go_out_by_it(
    url: str, tmp_path: Path
) -> None:
    chats = {name: MemoryChannel(knows_key_s=1e9, settings=OPEN_TO_ALL) for name in "ab"}
    models = {name: ScriptedProvider(lambda _request: "hi there") for name in "ab"}
    async with (
        apart(tmp_path, url, "a", models["a"], channels=[chats["a"]]) as (a, _ended),
        one_gateway(tmp_path, url, "b", models["b"], channels=[chats["b"]]) as b,
    ):
        await until(lambda: _is(chats["a"].host is not None))
        assert chats["b"].host is None, "the other one waits"
        a.slots.close()  # so that the other gateway answers
        await chats["a"].say("bob", "hello")
        with anyio.fail_after(SOON_S):
            await chats["a"].wait_sent()
        assert chats["a"].sent == [("bob", "hi there")]
        assert (models["a"].seen, len(models["b"].seen)) == ([], 1)
        cut_off(url, "a")
        await until(lambda: _is(chats["b"].host is not None))
        assert b.roles.has("channel:memory:default")


async def test_jobs_copies_and_upkeep_are_one_gateways(opened: Open, tmp_path: Path) -> None:
    a, b = (
        await opened("a", ScriptedProvider(["one"])),
        await opened("b", ScriptedProvider(["two"])),
    )

    async def roles() -> bool:
        listed = await call(b, "gateways.list")
        return sum(len(each["roles"]) for each in listed["gateways"]) == 3

    await until(roles)
    run = await say(b, "main", "hello", "r1")
    copies = {name: tmp_path / name / "state" / "sessions" / "main" for name in "ab"}
    (holder,) = [name for name, gateway in (("a", a), ("b", b)) if gateway.roles.has("transcripts")]
    await until(lambda: _is((copies[holder] / f"{run.session_id}.jsonl").exists()))
    other = "b" if holder == "a" else "a"
    assert not copies[other].exists()


@pytest.mark.spec("B3")
@pytest.mark.parametrize("channel", [listener.CHANNEL, "nobody"], ids=["hints", "no hints"])
async def test_a_credential_that_is_removed_on_one_gateway_counts_nowhere(
    opened: Open, monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    """Also when no hint is heard: credentials are read again each second."""
    monkeypatch.setattr(listener, "CHANNEL", channel)
    model = Waiting()
    a, b = await opened("a", ScriptedProvider([])), await opened("b", model)
    a.slots.close()  # so that the other gateway answers
    device = device_of_an_owner()
    who = person_principal("device:x", {"operator.admin"}, [CredentialRef(device.credential_id, 7)])
    await a.ledger.do(PutCredential(credential=device))
    await until(lambda: _is(b.credentials.stands(who.authority.made_by)))
    await call(b, "chat.send", who, sessionKey="main", message="go", idempotencyKey="r1")
    await model.wait_asked()
    await a.ledger.do(DeleteCredential(credential_id=device.credential_id))
    run = await b.run_store.wait("r1", SOON_S)
    assert run is not None
    assert run.status == "aborted"
    with pytest.raises(CredentialEnded):
        await call(b, "sessions.list", who)


async def test_a_gateway_that_drains_leaves_its_queue_to_the_other(opened: Open) -> None:
    first, second = Waiting("a"), Waiting("b")
    a = await opened("a", first)
    await begin(a, "r1", "one")
    await first.wait_asked()
    b = await opened("b", second)
    listed = await call(b, "gateways.list")
    assert [(each["id"], each["here"], each["runs"]) for each in listed["gateways"]] == [
        ("a", False, 1),
        ("b", True, 0),
    ]
    await call(b, "gateways.drain", id="a")
    await until(lambda: _is(a.slots.closed))
    await begin(a, "r2", "two", key="agent:main:other")
    second.go.set()
    run = await a.run_store.wait("r2", SOON_S)
    assert run is not None
    assert run.reply == "b: two"
    first.go.set()
    run = await b.run_store.wait("r1", SOON_S)
    assert run is not None
    assert run.reply == "a: one", "what was under way ends where it began"
    with pytest.raises(CrossclawError, match="crossclaw gateways list"):
        await call(b, "gateways.drain", id="nobody")


async def test_a_gateway_whose_config_differs_takes_no_runs_and_names_the_setting(
    opened: Open,
) -> None:
    def loaded(**raw: Any) -> Loaded:
        return Loaded(Config(), Path("openclaw.json"), False, raw, (), ())

    first, second = Waiting("a"), Waiting("b")
    a = await opened("a", first)
    b = await opened("b", second, loaded=loaded(tools={"exec": {"security": "deny"}}))
    await until(lambda: _is(b.claiming is not None and "tools.exec" in (b.claiming.why_not or "")))
    listed = await call(b, "gateways.list")
    assert "tools.exec.security" in listed["whyNoRuns"]
    first.go.set()
    second.go.set()
    for run_id in ("r1", "r2"):
        await begin(b, run_id, run_id)
        run = await b.run_store.wait(run_id, SOON_S)
        assert run is not None
        assert run.reply == f"a: {run_id}", "accepted by any, carried out where the config is right"
    assert b.shared_config is not None
    b.shared_config.take_config(loaded())  # its file was put right
    await until(lambda: _is(b.claiming is not None and b.claiming.why_not is None))
    a.slots.close()
    await begin(b, "r3", "r3")
    run = await b.run_store.wait("r3", SOON_S)
    assert run is not None
    assert run.reply == "b: r3"


async def test_runs_of_an_agent_go_where_its_workspace_is(opened: Open) -> None:
    agents = {"list": [{"id": "main"}, {"id": "librarian"}]}
    first, second = Waiting("a"), Waiting("b")
    first.go.set()
    second.go.set()
    a = await opened("a", first, raw={"agents": agents}, served=["main"])
    await opened("b", second, raw={"agents": agents}, served=["librarian"])
    for agent_id, gateway_id in (("main", "a"), ("librarian", "b")):
        run = await say(a, f"agent:{agent_id}:main", "hello", f"r-{agent_id}")
        assert run.reply == f"{gateway_id}: hello"


async def test_an_agents_runs_go_where_its_folder_is_and_to_anybody_when_that_gateway_is_gone(
    tmp_path: Path, url: str, opened: Open
) -> None:
    first, second = Waiting("a"), Waiting("b")
    first.go.set()
    second.go.set()
    b = await opened("b", second)
    (tmp_path / "a" / "state" / "workspace").mkdir(parents=True, mode=0o700)
    (tmp_path / "a" / "state").chmod(0o700)

    async def knows(agents: list[str]) -> bool:
        listed = await call(b, "gateways.list")
        has = {each["id"]: each.get("agents", []) for each in listed["gateways"]}
        return has.get("a") == ["main"] and has["b"] == agents and b.claiming is not None

    async with apart(tmp_path, url, "a", first) as (a, _ended):
        await until(lambda: knows([]))
        await until(lambda: _is(b.claiming is not None and b.claiming.is_elsewhere("main")))
        run = await say(b, "main", "one", "r1")
        assert run.reply == "a: one", "accepted by one, carried out where the files are"
        (tmp_path / "b" / "state" / "workspace").mkdir(mode=0o700)  # as when it is mounted
        await until(lambda: knows(["main"]))
        a.slots.close()
        assert (await say(b, "main", "two", "r2")).reply == "b: two"
        (tmp_path / "b" / "state" / "workspace").rmdir()
        await until(lambda: _is(b.claiming is not None and b.claiming.is_elsewhere("main")))
    assert (await say(b, "main", "three", "r3")).reply == "b: three"


@pytest.mark.spec("G5")
async def test_what_is_sent_to_a_guest_is_taken_where_the_guest_is(opened: Open) -> None:
    ask_bob = {"label": "bob", "message": "two and two?", "timeoutSeconds": 30}

    def answer(request: ModelRequest) -> Any:
        if message_texts(request.turns[-1]) == ["ask"]:
            return ToolUse("c1", "sessions_send", ask_bob)
        return "told"

    raw = {
        "agents": {"list": [{"id": "main"}, {"id": "librarian"}]},
        "gateway": {"guests": {"sessions": {"*": ["*"]}}},
        "session": {"agentToAgent": {"maxPingPongTurns": 0}},
    }
    a = await opened("a", ScriptedProvider(answer), raw=raw)
    b = await opened("b", ScriptedProvider(answer), raw=raw)
    bob = Guest(b, "bob")
    await bob.come()

    async def reply() -> None:
        waited = await bob.wait(SOON_S)
        await bob.reply(waited["runId"], "four")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reply)
        run = await say(a, "main", "ask", "r1")
    (result,) = await results_of(a, run)
    assert "four" in msgspec.json.encode(result).decode()


async def test_a_gateway_that_does_not_heed_a_stop_is_passed_over(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "ABORT_PATIENCE_S", 0.2)
    model = Waiting()
    a = await opened("a", model)
    monkeypatch.setattr(a.lanes._under_way, "find", lambda _run_id: None)  # as if it heard nothing
    await begin(a, "r1")
    await model.wait_asked()
    b = await opened("b", ScriptedProvider([]))
    assert (await call(b, "chat.abort", sessionKey="main"))["aborted"]
    model.go.set()
    run = await a.run_store.wait("r1", SOON_S)
    assert run is not None
    assert (run.status, run.reply) == ("aborted", None), "what it says afterwards is void"
