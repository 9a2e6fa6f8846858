"""Calls that need a person's yes: they wait durably, are answered once, and what was shown is what runs.

Mostly with a tool that only counts its calls, in virtual time; commands run for real in the last part.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.approvals import Approval
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError, NotFound
from crossclaw.domain.events import ApprovalAsked, ApprovalSettled, FeedEvent
from crossclaw.domain.messages import ToolUse
from crossclaw.domain.tools import ToolDeclaration
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.principal import person_principal
from crossclaw.ledger.approvals import AnswerApproval
from crossclaw.runs.approvals import LOOK_AGAIN_S
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    VirtualClock,
    open_gateway,
)
from crossclaw.tools.approving import ApprovalGate
from crossclaw.tools.contract import Tool, ToolContext
from tests.configs import config_of
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, results_of, say

ASKING = {"tools": {"ask": ["stamp"]}}


class StampParams(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""


class Stamp(Tool[StampParams]):
    """Has an effect: it counts."""

    declared = ToolDeclaration(name="stamp", group="other", effect="effects", children=True)
    description = "Stamps."
    params = StampParams

    def __init__(self) -> None:
        self.stamped: list[str] = []

    async def call(self, context: ToolContext, params: StampParams) -> str:
        self.stamped.append(params.text)
        return f"stamped {params.text}"


def asks(text: str = "a", call_id: str = "c1") -> ToolUse:
    return ToolUse(call_id, "stamp", {"text": text})


async def begun(gateway: Gateway, run_id: str, key: str = "main") -> Approval:
    """A message whose run comes to ask: what it asks."""
    asked = anyio.Event()
    end = gateway.feed.subscribe(lambda _event: asked.set(), ApprovalAsked)
    await call(gateway, "chat.send", sessionKey=key, message="go", idempotencyKey=run_id)
    with anyio.fail_after(60):
        await asked.wait()
    end()
    (waiting,) = await gateway.ledger.list_waiting_approvals()
    return waiting


async def ended(gateway: Gateway, run_id: str) -> list[Any]:
    run = await gateway.run_store.wait(run_id, timeout_s=7_200)
    assert run is not None
    assert run.status == "ok", run.error
    return await results_of(gateway, run)


@pytest.mark.spec("B9")
async def test_a_call_waits_for_a_yes_and_is_made_once_it_is_there(tmp_path: Path) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks("letter"), "done"])
    heard: list[FeedEvent] = []

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        gateway.feed.subscribe(heard.append, ApprovalAsked, ApprovalSettled)
        asked = await begun(gateway, "r1")
        run = await gateway.ledger.find_run("r1")
        (shown,) = await call(gateway, "exec.approval.list")
        one = await call(gateway, "exec.approval.get", id=asked.approval_id[:6])
        (row,) = (await call(gateway, "sessions.table"))["rows"]
        (needed,) = (await call(gateway, "attention.list", kinds=["approval"]))["rows"]
        before = list(stamp.stamped)
        await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once")
        results = await ended(gateway, "r1")
        left = await call(gateway, "exec.approval.list")

    assert run is not None
    assert (run.status, before, stamp.stamped) == ("waiting", [], ["letter"])
    assert shown["request"]["command"] == 'stamp {"text":"letter"}'
    assert shown["request"]["sessionKey"] == "agent:main:main"
    assert shown["request"]["allowedDecisions"] == ["allow-once", "allow-always", "deny"]
    assert (one["id"], one["agentId"]) == (asked.approval_id, "main")
    assert (row["standing"]["name"], row["standing"]["why"]) == (
        "needs approval",
        'stamp {"text":"letter"}',
    )
    assert (needed["key"], needed["why"]) == ("agent:main:main", 'stamp {"text":"letter"}')
    assert [each["label"] for each in needed["actions"]] == ["Allow once", "Always allow", "Deny"]
    assert (results, left) == (["stamped letter"], [])
    assert [type(each).__name__ for each in heard] == ["ApprovalAsked", "ApprovalSettled"]


@pytest.mark.spec("B9")
async def test_a_no_is_an_answer_to_the_model_and_nothing_happens(tmp_path: Path) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks(), "I will not then"])

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        asked = await begun(gateway, "r1")
        await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="deny")
        (result,) = await ended(gateway, "r1")
        with pytest.raises(NotFound, match="unknown or expired"):
            await call(
                gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once"
            )

    assert result.startswith("Denied by owner. Nothing was done.")
    assert stamp.stamped == []


@pytest.mark.spec("B9")
async def test_nobody_answers_in_time_and_that_is_a_no_though_the_run_has_less_time(
    tmp_path: Path,
) -> None:
    """The run's own ten minutes do not pass while a person is waited for."""
    stamp, clock = Stamp(), VirtualClock()
    model = ScriptedProvider([asks(), "well"])
    raw = ASKING | {"agents": {"defaults": {"timeoutSeconds": 60}}}

    async with open_gateway(
        tmp_path, model, config=config_of(raw), tools=[stamp], clock=clock
    ) as gateway:
        asked = await begun(gateway, "r1")
        decided = call(gateway, "exec.approval.waitDecision", id=asked.approval_id)
        (result,) = await ended(gateway, "r1")
        settled = await gateway.ledger.find_approval(asked.approval_id)
        decision = await decided

    assert result.startswith("Denied: nobody answered within 30 minutes.")
    assert settled is not None
    assert (settled.status, settled.answered_at) == ("timeout", asked.expires_at)
    assert (decision["decision"], stamp.stamped) == (None, [])


@pytest.mark.spec("B9")
async def test_an_answer_that_another_gateway_took_is_seen_although_nobody_tells_of_it(
    tmp_path: Path,
) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks("letter"), "done"], delay_s=0)
    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        asked = await begun(gateway, "r1")
        answer = AnswerApproval(
            approval_id=asked.approval_id, answer="allow-once", by="ana", makers=(), at=2
        )
        await gateway.ledger.do(answer)
        await anyio.sleep(LOOK_AGAIN_S + 1)
        run = await gateway.ledger.find_run("r1")

    assert run is not None
    assert (run.status, stamp.stamped) == ("ok", ["letter"])


@pytest.mark.spec("B9", "B1")
@pytest.mark.parametrize("answered", [False, True], ids=["waiting", "answered"])
async def test_a_crash_loses_neither_the_question_nor_its_answer(
    tmp_path: Path, answered: bool
) -> None:
    folder = tmp_path / "before"
    model = ScriptedProvider([asks()], delay_s=0)

    class Stuck(Stamp):
        async def call(self, context: ToolContext, params: StampParams) -> str:
            raise AssertionError("it was not begun before the crash")

    async with open_gateway(folder, model, config=config_of(ASKING), tools=[Stuck()]) as gateway:
        asked = await begun(gateway, "r1")
        if answered:  # in the very step; the run has not been told when the process dies
            await gateway.ledger.do(
                AnswerApproval(
                    approval_id=asked.approval_id, answer="allow-once", by="ana", makers=(), at=2
                )
            )
        copy = crashed_copy(folder)

    stamp, again = Stamp(), ScriptedProvider(["done"])
    async with open_gateway(copy, again, config=config_of(ASKING), tools=[stamp]) as gateway:
        if not answered:
            with anyio.fail_after(60):
                while not await _is_waiting(gateway, "r1"):  # noqa: ASYNC110  it may be told already
                    await anyio.sleep(0.1)
            (still,) = await gateway.approvals.waiting()
            assert still.approval_id == asked.approval_id
            await call(
                gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once"
            )
        results = await ended(gateway, "r1")
        run = await gateway.ledger.find_run("r1")

    assert results == ["stamped a"]
    assert stamp.stamped == ["a"]
    assert run is not None
    assert run.attempt <= 1, "to wait uses up no attempt"


async def _is_waiting(gateway: Gateway, run_id: str) -> bool:
    run = await gateway.ledger.find_run(run_id)
    return run is not None and run.status == "waiting"


@pytest.mark.spec("B9")
async def test_a_run_that_ends_withdraws_what_it_asked_for(tmp_path: Path) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks()])
    settled: list[str] = []

    def hear(event: FeedEvent) -> None:
        if isinstance(event, ApprovalSettled):
            settled.append(event.approval.status)

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        gateway.feed.subscribe(hear, ApprovalSettled)
        asked = await begun(gateway, "r1")
        await call(gateway, "chat.abort", sessionKey="main")
        row = await gateway.ledger.find_approval(asked.approval_id)
        with pytest.raises(NotFound):
            await call(
                gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once"
            )

    assert row is not None
    assert (row.status, settled, stamp.stamped) == ("withdrawn", ["withdrawn"], [])


@pytest.mark.spec("B9")
async def test_always_is_kept_for_the_agent_shown_and_can_be_taken_back(tmp_path: Path) -> None:
    stamp = Stamp()
    model = ScriptedProvider([asks("1"), "a", asks("2"), "b", asks("3"), "c", asks("4"), "d"])
    raw = ASKING | {"agents": {"list": [{"id": "main"}, {"id": "ops"}]}}

    async with open_gateway(tmp_path, model, config=config_of(raw), tools=[stamp]) as gateway:
        first = await begun(gateway, "r1")
        await call(gateway, "exec.approval.resolve", id=first.approval_id, decision="allow-always")
        await ended(gateway, "r1")
        await say(gateway, "main", "again", "r2")
        (listed,) = (await call(gateway, "approvals.allowed"))["allowed"]
        other = await begun(gateway, "r3", "agent:ops:main")
        await call(gateway, "exec.approval.resolve", id=other.approval_id, decision="deny")
        await ended(gateway, "r3")
        await call(gateway, "approvals.revoke", id=listed["id"])
        with pytest.raises(NotFound, match="nothing is allowed for good"):
            await call(gateway, "approvals.revoke", id=listed["id"])
        asked_again = await begun(gateway, "r4")
        await call(gateway, "exec.approval.resolve", id=asked_again.approval_id, decision="deny")
        await ended(gateway, "r4")

    assert stamp.stamped == ["1", "2"]
    assert (listed["agentId"], listed["tool"], listed["grantedBy"]) == ("main", "stamp", "owner")
    assert listed["counts"] is True
    assert other.key.agent_id == "ops"


@pytest.mark.spec("B9", "B3")
async def test_who_may_only_write_cannot_answer_and_neither_can_an_agent(tmp_path: Path) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks(), "no"])
    writer = person_principal("device:w", {"operator.write"})
    approver = person_principal("device:a", {"operator.approvals"})

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        asked = await begun(gateway, "r1")
        for method, params in (
            ("exec.approval.list", {}),
            ("exec.approval.resolve", {"id": asked.approval_id, "decision": "allow-once"}),
        ):
            with pytest.raises(MissingScope):
                await call(gateway, method, writer, **params)
        said = await call(
            gateway,
            "chat.send",
            writer,
            sessionKey="main",
            message=f"/approve {asked.approval_id} allow-once",
            idempotencyKey="w1",
        )
        still = await gateway.approvals.waiting()
        await call(
            gateway, "exec.approval.resolve", approver, id=asked.approval_id, decision="deny"
        )
        await ended(gateway, "r1")

    assert said["status"] in ("ok", "started")
    assert len(still) == 1
    assert stamp.stamped == []


@pytest.mark.spec("B9", "B3")
async def test_a_yes_of_a_credential_that_was_taken_away_meanwhile_is_none(tmp_path: Path) -> None:
    """At the moment of use; and what it had allowed for good is asked about again."""
    stamp = Stamp()
    model = ScriptedProvider([asks("1"), "a", asks("2"), "b"])
    device = person_principal("device:x", {"operator.approvals"}, [CredentialRef("device:x", 1)])

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        gateway.credentials.put("device:x", 1)
        first = await begun(gateway, "r1")
        gateway.feed.subscribe(lambda _event: gateway.credentials.drop("device:x"), ApprovalSettled)
        await call(
            gateway, "exec.approval.resolve", device, id=first.approval_id, decision="allow-always"
        )
        (result,) = await ended(gateway, "r1")
        (listed,) = (await call(gateway, "approvals.allowed"))["allowed"]
        again = await begun(gateway, "r2")
        await call(gateway, "exec.approval.resolve", id=again.approval_id, decision="deny")
        await ended(gateway, "r2")

    assert "the credential that it was allowed by has been taken away" in result
    assert listed["counts"] is False
    assert stamp.stamped == []


@pytest.mark.spec("B9", "B3")
async def test_a_sub_agent_asks_as_whoever_it_works_for_would(tmp_path: Path) -> None:
    """A child of an agent that is asked about is asked about too, whatever its own agent's rules say."""
    stamp = Stamp()

    def answer(request: Any) -> Any:
        text = str(request.turns)
        if "an errand" not in text:
            return "child" if "stamped" in text else asks("child")
        spawn = ToolUse("s1", "sessions_spawn", {"task": "stamp it", "agentId": "ops"})
        return "sent" if "accepted" in text else spawn

    raw = {
        "agents": {
            "list": [
                {"id": "main", "tools": {"ask": ["stamp"]}, "subagents": {"allowAgents": ["*"]}},
                {"id": "ops"},
            ]
        }
    }
    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=config_of(raw), tools=[stamp]) as gateway:
        direct = await say(gateway, "agent:ops:main", "stamp it", "r0")
        asked = anyio.Event()
        gateway.feed.subscribe(lambda _event: asked.set(), ApprovalAsked)
        await call(
            gateway, "chat.send", sessionKey="main", message="an errand", idempotencyKey="r1"
        )
        with anyio.fail_after(60):
            await asked.wait()
        (waiting,) = await gateway.approvals.waiting()

    assert direct.status == "ok"
    assert stamp.stamped == ["child"]
    assert waiting.key.agent_id == "ops"
    assert set(waiting.agents) == {"main", "ops"}


@pytest.mark.spec("B9")
async def test_the_owners_chat_is_told_and_the_owner_answers_there(tmp_path: Path) -> None:
    stamp, chat = Stamp(), MemoryChannel(settings=OPEN_TO_ALL)
    model = ScriptedProvider([asks("x"), "done"])
    raw = ASKING | {"commands": {"ownerAllowFrom": ["memory:ana"]}}

    async with open_gateway(
        tmp_path, model, config=config_of(raw), tools=[stamp], channels=[chat]
    ) as gateway:
        run_id = await chat.say("ana", "stamp it")
        await chat.wait_sent(1)
        (to, text), *_ = chat.sent
        (waiting,) = await gateway.approvals.waiting()
        stranger = await chat.say("ben", f"/approve {waiting.approval_id} allow-once")
        await gateway.run_store.wait(stranger)
        for unclear in ("/approve", f"/approve {waiting.approval_id}", "/approve  allow-once"):
            await gateway.run_store.wait(await chat.say("ana", unclear))
        await chat.wait_sent(4)
        still = await gateway.approvals.waiting()
        await chat.say("ana", f"/approve {waiting.approval_id[:8]} allow-once")
        results = await ended(gateway, run_id)

    assert to == "ana"
    assert "may it run this?" in text
    assert f"/approve {waiting.approval_id[:8]} allow-once" in text
    assert sum("Usage: /approve" in text for _, text in chat.sent) == 3, chat.sent
    assert len(still) == 1
    assert results == ["stamped x"]


@pytest.mark.spec("B9", "B3")
async def test_rules_that_change_while_somebody_is_asked_hold_when_the_yes_comes(
    tmp_path: Path,
) -> None:
    stamp, model = Stamp(), ScriptedProvider([asks(), "well"])

    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        asked = await begun(gateway, "r1")
        fresh = msgspec.structs.replace(gateway.config.tools, deny=("stamp",))
        assert gateway.config.take_rules(msgspec.structs.replace(_plain(gateway), tools=fresh))
        await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once")
        (result,) = await ended(gateway, "r1")

    assert "tools denies stamp" in result
    assert stamp.stamped == []


def _plain(gateway: Gateway) -> Config:
    return msgspec.convert(msgspec.to_builtins(ASKING), Config)


# ── commands, for real ─────────────────────────────────────────────────────────────────────────


def with_commands(
    folder: Path,
    model: ScriptedProvider,
    story: Callable[[Gateway], Awaitable[None]],
    **settings: Any,
) -> None:
    async def tell() -> None:
        config, clock = config_of({"tools": {"exec": settings}}), SystemClock()
        environ = {"PATH": "/usr/bin:/bin"}
        async with open_gateway(
            folder, model, config=config, clock=clock, inline=False, environ=environ
        ) as gateway:
            await story(gateway)

    anyio.run(tell)


def runs(command: str, call_id: str = "c1", **more: str) -> ToolUse:
    return ToolUse(call_id, "exec", {"command": command, **more})


@pytest.mark.spec("B9")
def test_always_is_for_one_program_with_these_arguments_and_run_without_a_shell(
    tmp_path: Path,
) -> None:
    """A chain with the same beginning is asked about, and so is the same in another folder; what was shown is run, not what
    a shell makes of it."""
    model = ScriptedProvider(
        [
            *(runs("echo 'two  words' x"), "1"),
            *(runs("echo  'two  words'   x", workdir="./"), "2"),
            *(runs("echo 'two  words' y"), "3"),
            *(runs("echo 'two  words' x; touch made"), "4"),
            *(runs("echo 'two  words' x", workdir="sub"), "5"),
        ]
    )

    async def story(gateway: Gateway) -> None:
        first = await begun(gateway, "r1")
        assert first.wish.program == "/usr/bin/echo"
        assert first.wish.arguments == ("two  words", "x")
        await call(gateway, "exec.approval.resolve", id=first.approval_id, decision="allow-always")
        assert await ended(gateway, "r1") == ["two  words x\n[exit code 0]"]
        assert (await say(gateway, "main", "again", "r2")).reply == "2"
        (tmp_path / "state" / "workspace" / "sub").mkdir()
        for run_id, answers in (("r3", 3), ("r4", 2), ("r5", 3)):
            asked = await begun(gateway, run_id)
            assert len(asked.answers) == answers
            await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="deny")
            (result,) = await ended(gateway, run_id)
            assert result.startswith("Denied by owner.")

    with_commands(tmp_path, model, story, security="allowlist")
    assert not (tmp_path / "state" / "workspace" / "made").exists()


@pytest.mark.spec("B9")
def test_what_only_a_shell_can_read_is_allowed_once_and_run_as_it_was_shown(tmp_path: Path) -> None:
    model = ScriptedProvider([runs("echo a > made; cat made"), "1"])

    async def story(gateway: Gateway) -> None:
        asked = await begun(gateway, "r1")
        assert asked.wish.why_unlisted == "a redirection"
        with pytest.raises(CrossclawError, match="only this once"):
            await call(
                gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-always"
            )
        await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once")
        assert await ended(gateway, "r1") == ["a\n[exit code 0]"]

    with_commands(tmp_path, model, story, ask="always")


@pytest.mark.spec("B9")
def test_a_program_that_changed_while_somebody_was_asked_is_not_run(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho shown\n", "utf-8")
    tool.chmod(0o755)
    model = ScriptedProvider([runs(str(tool)), "1"])

    async def story(gateway: Gateway) -> None:
        asked = await begun(gateway, "r1")
        tool.write_text("#!/bin/sh\necho other\n", "utf-8")
        await call(gateway, "exec.approval.resolve", id=asked.approval_id, decision="allow-once")
        (result,) = await ended(gateway, "r1")
        assert "What would be run now is not what was shown" in result

    with_commands(tmp_path, model, story, security="allowlist")


@pytest.mark.spec("B9")
def test_with_ask_off_what_is_not_in_the_list_is_refused_with_the_reason(tmp_path: Path) -> None:
    model = ScriptedProvider([runs("echo a | cat"), "1"])

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "go", "r1")
        (result,) = await results_of(gateway, run)
        assert "not in the list of agent main: it has a pipe" in result
        context, tool = ToolContext(run.key, run.authority), gateway.toolsets.known["write"]
        asking_config = CurrentConfig.of(config_of({"tools": {"ask": ["write"]}}))
        asking = ApprovalGate(asking_config, gateway.approvals)
        with pytest.raises(CrossclawError, match="only a run can wait"):
            await asking.admit(context, tool, tool.read({"path": "x", "content": "y"}))

    with_commands(tmp_path, model, story, security="allowlist", ask="off")
