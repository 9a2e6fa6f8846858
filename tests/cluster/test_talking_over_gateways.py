"""Agents whose runs are on different gateways talk, wait, spawn and are asked for a yes as on one."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.providers.contract import ModelRequest
from crossclaw.schedule import clockwork
from crossclaw.testing import ScriptedProvider, instructions_of, message_texts
from tests.cluster.linked import until
from tests.cluster.test_two_gateways import apart, cut_off, one_gateway
from tests.databases import databases
from tests.ending import SOON_S
from tests.flows import test_exchanges as exchanges
from tests.flows.spawning import announces_in, children, family
from tests.flows.talking import call, results_of, say
from tests.flows.test_approvals import ASKING, Stamp, asks, begun

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
AGENTS = {
    "agents": {
        "list": [{"id": "main", "subagents": {"allowAgents": ["librarian"]}}, {"id": "librarian"}]
    }
}
MAIN, LIBRARIAN = SessionKey.main("main"), SessionKey.main("librarian")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases().url(tmp_path / "ledger")


Pair = Callable[..., Awaitable[tuple[Gateway, Gateway]]]


@pytest.fixture
async def pair(tmp_path: Path, url: str) -> AsyncGenerator[Pair]:
    """Two gateways: one takes the runs of main, the other those of the librarian."""
    async with AsyncExitStack() as closing:

        async def open_pair(model: Any, raw: Any = None, **more: Any) -> tuple[Gateway, Gateway]:
            a, b = [
                await closing.enter_async_context(
                    one_gateway(tmp_path, url, name, each, AGENTS | (raw or {}), [agent], **more)
                )
                for name, each, agent in (("a", model[0], "main"), ("b", model[1], "librarian"))
            ]
            return a, b

        yield open_pair


@pytest.mark.spec("S6", "S2")
async def test_the_rounds_of_an_exchange_go_back_and_forth_between_gateways(pair: Pair) -> None:
    models = exchanges.talkative(), exchanges.talkative()
    a, b = await pair(models)
    await say(a, "main", "ask", "r1")

    async def is_over() -> bool:
        found = await b.ledger.find_exchange(await exchanges.exchange_id(b, "r1"))
        return found is not None and found.state == "over"

    await until(is_over)
    assert await exchanges.heard(b, MAIN) == ["shelf nine", "turn 2", "turn 4"]
    to_librarian = await exchanges.heard(a, LIBRARIAN)
    assert to_librarian[:3] == ["where?", "turn 1", "turn 3"]
    assert len(to_librarian) == 4, "and the announce step"
    assert (len(models[0].seen), len(models[1].seen)) == (5, 4), "each on its own gateway, once"


@pytest.mark.spec("S2", "S9")
async def test_a_send_that_does_not_wait_and_a_circle_of_waits_are_as_on_one_gateway(
    pair: Pair,
) -> None:
    def answer(request: ModelRequest) -> Any:
        words = message_texts(request.turns[-1])
        last = words[-1] if words else ""
        to_librarian = {"sessionKey": LIBRARIAN.text, "timeoutSeconds": 600}
        if last == "tell":
            return ToolUse(
                "c1", "sessions_send", {**to_librarian, "message": "note", "timeoutSeconds": 0}
            )
        if last == "ask":
            return ToolUse("c2", "sessions_send", {**to_librarian, "message": "ask back"})
        if any("ask back" in each for each in words) and "announce step" not in str(words):
            back = {"sessionKey": MAIN.text, "message": "hello", "timeoutSeconds": 600}
            return ToolUse("c3", "sessions_send", back)
        return "noted"

    raw = {"session": {"agentToAgent": {"maxPingPongTurns": 0}}}
    models = ScriptedProvider(answer), ScriptedProvider(answer)
    a, b = await pair(models, raw)
    run = await say(a, "main", "tell", "r1")
    (result,) = await results_of(b, run)
    assert result["status"] == "accepted"
    sent = await a.run_store.wait(result["runId"], SOON_S)
    assert sent is not None
    assert (sent.status, sent.reply) == ("ok", "noted")

    with anyio.fail_after(SOON_S):  # far sooner than any of the waits would end
        run = await say(a, "main", "ask", "r2")
    assert run.status == "ok"
    session = await a.ledger.find_session(LIBRARIAN)
    assert session is not None
    entries = await a.ledger.list_entries(session.session_id, limit=50)
    said = msgspec.json.encode([each.message for each in entries]).decode()
    assert "waiting would never end" in said, said


@pytest.mark.spec("P2", "P5")
async def test_a_child_on_another_gateway_reports_to_its_parent(pair: Pair) -> None:
    models = [family(arguments={"agentId": "librarian"}) for _ in "ab"]
    a, b = await pair(models)
    await say(a, "main", "go", "r1")

    async def is_reported() -> bool:
        found = await children(a)
        return bool(found) and found[0].state == "over"

    await until(is_reported)
    (spawn,) = await children(b)
    assert spawn.child_key.startswith("agent:librarian:subagent:")
    assert any("You are a sub-agent" in instructions_of(each) for each in models[1].seen)
    assert not any("You are a sub-agent" in instructions_of(each) for each in models[0].seen)
    (report,) = await announces_in(b)
    assert "it is 42" in report


@pytest.mark.spec("P8")
async def test_children_on_another_gateway_stop_with_their_parent(pair: Pair) -> None:
    models = [family(arguments={"agentId": "librarian"}, child_s=600) for _ in "ab"]
    a, b = await pair(models)
    await say(a, "main", "go", "r1")
    (spawn,) = await children(a)

    async def is_at_work() -> bool:
        run = await a.ledger.find_run(spawn.run_id)
        return run is not None and run.status == "running"

    await until(is_at_work)
    with anyio.fail_after(SOON_S):
        await call(a, "chat.send", sessionKey="main", message="/stop", idempotencyKey="r2")
        run = await a.run_store.wait(spawn.run_id, SOON_S)
    assert run is not None
    assert run.status == "aborted"
    await until(lambda: b.slots.taken == 0)


@pytest.mark.spec("B9")
async def test_a_yes_is_asked_on_one_gateway_and_given_on_the_other_once(
    tmp_path: Path, url: str
) -> None:
    stamps = Stamp(), Stamp()
    raw = AGENTS | ASKING
    async with (
        one_gateway(
            tmp_path,
            url,
            "a",
            ScriptedProvider([asks("letter"), "done"]),
            raw,
            ["main"],
            tools=[stamps[0]],
        ) as a,
        one_gateway(
            tmp_path, url, "b", ScriptedProvider([]), raw, ["librarian"], tools=[stamps[1]]
        ) as b,
    ):
        asked = await begun(a, "r1")
        (shown,) = await call(b, "exec.approval.list")
        assert shown["id"] == asked.approval_id
        await call(b, "exec.approval.resolve", id=asked.approval_id, decision="allow-once")
        run = await b.run_store.wait("r1", SOON_S)
        assert run is not None
        assert run.status == "ok"
        assert (stamps[0].stamped, stamps[1].stamped) == (["letter"], [])
        assert await call(a, "exec.approval.list") == []


async def test_what_was_said_on_one_gateway_is_found_on_the_other(pair: Pair) -> None:
    a, b = await pair([ScriptedProvider(lambda _: "an albatross"), ScriptedProvider([])])
    await say(a, "main", "which bird?", "r1")
    found = (await call(b, "sessions.search", query="albatross"))["results"]
    assert [(each["sessionKey"], each["role"]) for each in found] == [
        ("agent:main:main", "assistant")
    ]
    assert (await call(b, "sessions.entries.search", query="bird"))["hits"]
    (row,) = [
        each for each in (await call(b, "sessions.list"))["sessions"] if "main" in each["key"]
    ]
    assert row["key"] == "agent:main:main"


@pytest.mark.spec("K3")
async def test_each_tick_of_a_job_runs_once_and_the_jobs_move_when_their_gateway_dies(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clockwork, "LOOK_AGAIN_S", 600.0)  # a job of the other is heard of
    models = {name: ScriptedProvider(lambda _: "done") for name in "ab"}
    async with (
        apart(tmp_path, url, "a", models["a"]) as (a, _ended),
        one_gateway(tmp_path, url, "b", models["b"]) as b,
    ):
        await until(lambda: a.roles.has("cron"))
        job = await call(
            b,
            "cron.add",
            name="report",
            schedule={"kind": "every", "everyMs": 1_000},
            payload={"kind": "agentTurn", "message": "write it"},
        )

        async def ticks() -> list[Any]:
            found = (await call(b, "cron.runs", id=job["id"], limit=100))["entries"]
            return [each for each in found if each["status"] == "ok"]

        async def at_least(count: int) -> None:
            async def are_there() -> bool:
                return len(await ticks()) >= count

            await until(are_there)

        await at_least(2)
        assert not b.roles.has("cron")
        cut_off(url, "a")
        before = len(await ticks())
        await until(lambda: b.roles.has("cron"))
        await at_least(before + 2)
        await call(b, "cron.remove", id=job["id"])
        done = await ticks()
        assert len({each["runAtMs"] for each in done}) == len(done)
        assert len({each["sessionId"] for each in done}) == len(done), "a run each"


async def test_a_session_that_goes_from_gateway_to_gateway_is_one_conversation(
    tmp_path: Path, url: str
) -> None:
    """What a gateway remembers of a session is not all of it, once another has answered there."""
    models = {name: ScriptedProvider(lambda _, name=name: f"by {name}") for name in "ab"}  # type: ignore[misc]
    async with (
        one_gateway(tmp_path, url, "a", models["a"]) as a,
        one_gateway(tmp_path, url, "b", models["b"]) as b,
    ):
        await until(lambda: all(each.claiming and not each.claiming.why_not for each in (a, b)))
        for number, (gateway, name) in enumerate([(a, "a"), (b, "b"), (a, "a"), (b, "b")]):
            run = await say(gateway, "main", f"word {number}", f"r{number}")
            assert run.reply == f"by {name}"
        await call(a, "chat.inject", sessionKey="main", message="a note by hand")
        await say(b, "main", "word 4", "r4")
    last = [words for turn in models["b"].seen[-1].turns for words in _words(turn)]
    assert [each for each in last if each.startswith(("word", "by", "a note"))] == [
        *("word 0", "by a", "word 1", "by b", "word 2", "by a", "word 3", "by b"),
        *("a note by hand", "word 4"),
    ]


def _words(turn: Any) -> list[str]:
    blocks = turn.content if hasattr(turn, "content") else turn.message.content
    return [block.text.strip() for block in blocks if hasattr(block, "text")]


async def test_a_message_by_one_gateway_steers_a_run_on_the_other(pair: Pair) -> None:
    go, asked = anyio.Event(), anyio.Event()

    class Counting(Stamp):
        async def call(self, context: Any, params: Any) -> str:
            asked.set()
            await go.wait()
            return await super().call(context, params)

    def answer(request: ModelRequest) -> Any:
        last = request.turns[-1]
        if last.results:  # type: ignore[union-attr]
            return f"done, {', '.join(message_texts(last))}"
        return asks("one")

    raw = {"messages": {"queue": {"mode": "steer"}}}
    a, b = await pair([ScriptedProvider(answer), ScriptedProvider([])], raw, tools=[Counting()])
    first: dict[str, Any] = {"sessionKey": "main", "message": "go", "idempotencyKey": "r1"}
    await call(a, "chat.send", **first)
    with anyio.fail_after(SOON_S):
        await asked.wait()
        await call(b, "chat.send", **first | {"message": "also this", "idempotencyKey": "r2"})
        go.set()
        runs = [await b.run_store.wait(run_id, SOON_S) for run_id in ("r1", "r2")]
    assert [run and run.reply for run in runs] == ["done, also this"] * 2
    assert runs[1] is not None
    assert runs[1].merged_into == "r1"
