"""What a denied session has still to say is not said, whoever deleted it and whoever sends in its place."""

from math import inf
from pathlib import Path
from typing import Any, get_args

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import DeliveryError, Invalid
from crossclaw.domain.events import FeedEvent, RunEnded, SpeechAllowed
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Cause, Outcome, Run, RunKind, RunPlan
from crossclaw.door.registry import Caller, Listening
from crossclaw.ledger.operations import Delivery
from crossclaw.policy.send import BLOCKED
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import OWNER, call
from tests.flows.test_runs_keep_their_order import Recording

GROUP = "agent:main:memory:group:g1"
GONE = "the session was deleted before this was delivered"


def down(seconds: float = 60) -> DeliveryError:
    return DeliveryError("503", retryable=True, retry_after_s=seconds)


async def delivery(gateway: Gateway, key: str) -> Delivery:
    found = await gateway.ledger.find_delivery(key)
    assert found is not None
    return found


@pytest.mark.spec("Y4")
@pytest.mark.parametrize("policy", ["deny", None])
async def test_a_reply_that_waits_for_its_platform_ends_with_its_session(
    tmp_path: Path, policy: str | None
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.append(down())
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi", group="g1")
        await gateway.run_store.wait(run_id)
        await anyio.sleep(1)
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy=policy)
        await call(gateway, "sessions.delete", key=GROUP)
        await anyio.sleep(3600)
        ended = await delivery(gateway, f"reply:{run_id}")

    assert (ended.state, ended.error) == ("failed", GONE)
    assert chat.sent == []


@pytest.mark.spec("Y4", "B2")
@pytest.mark.parametrize(
    ("then", "state", "sent"),
    [
        ("fails", "failed", []),
        ("arrives", "delivered", [("g1", "re: hi")]),
        ("dies", "uncertain", []),
    ],
)
async def test_an_attempt_under_way_when_its_session_is_deleted_is_the_last_one(
    tmp_path: Path, then: str, state: str, sent: list[tuple[str, str]]
) -> None:
    class Slow(MemoryChannel):
        async def send(self, *args: Any) -> str | None:
            await go_on.wait()
            return await super().send(*args)

    folder, go_on = tmp_path / "gateway", anyio.Event()
    folder.mkdir()
    chat: MemoryChannel = Slow(knows_key_s=inf, settings=OPEN_TO_ALL)
    chat.faults.extend([down()] if then == "fails" else [])
    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi", group="g1")
        await gateway.run_store.wait(run_id)
        await anyio.sleep(1)
        await call(gateway, "sessions.delete", key=GROUP)
        left = crashed_copy(folder)
        go_on.set()
        await anyio.sleep(3600)
        ended = await delivery(gateway, f"reply:{run_id}")
    if then == "dies":
        chat = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
        async with open_gateway(left, Recording(), channels=[chat]) as gateway:
            await anyio.sleep(3600)
            ended = await delivery(gateway, f"reply:{run_id}")

    assert ended.state == state
    assert chat.sent == sent


@pytest.mark.spec("Y4")
async def test_a_message_to_a_group_is_judged_by_the_groups_own_policy(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await chat.wait_sent(1)
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy="deny")
        with pytest.raises(Invalid, match="send blocked by session policy"):
            await call(gateway, "send", to="g1", message="news", idempotencyKey="n1")
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy="allow")
        await call(gateway, "send", to="g1", message="good news", idempotencyKey="n2")
        await chat.wait_sent(2)
        await anyio.sleep(60)

    assert [text for _, text in chat.sent] == ["re: hi", "good news"]


@pytest.mark.spec("Y1", "Y4")
@pytest.mark.parametrize("session_key", [None, "main"])
async def test_a_rule_about_groups_holds_for_messages_sent_to_one(
    tmp_path: Path, session_key: str | None
) -> None:
    rules = [{"match": {"chatType": "group"}, "action": "deny"}]
    config = msgspec.convert({"session": {"sendPolicy": {"rules": rules}}}, Config)
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), config=config, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        with pytest.raises(Invalid, match="send blocked by session policy"):
            await call(
                gateway,
                "send",
                to="g1",
                message="news",
                idempotencyKey="n1",
                sessionKey=session_key,
            )
        await call(gateway, "send", to="user:ana", message="news", idempotencyKey="n2")
        await chat.wait_sent(1)
        await anyio.sleep(60)

    assert chat.sent == [("user:ana", "news")]


JOB: dict[str, Any] = {
    "name": "news",
    "enabled": False,
    "schedule": {"kind": "every", "everyMs": 3_600_000},
    "sessionTarget": "isolated",
    "payload": {"kind": "agentTurn", "message": "tell"},
    "delivery": {"mode": "announce", "channel": "memory", "to": "g1"},
}


async def tell(gateway: Gateway, job_id: str) -> None:
    begun = await call(gateway, "cron.run", id=job_id, mode="force")
    await gateway.run_store.wait(begun["runId"])
    await anyio.sleep(1)


@pytest.mark.spec("Y4")
async def test_a_job_says_nothing_in_a_group_that_is_denied(tmp_path: Path) -> None:
    chat, provider = (
        MemoryChannel(settings=OPEN_TO_ALL),
        ScriptedProvider(lambda request: "the news"),
    )
    async with open_gateway(tmp_path, provider, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await chat.wait_sent(1)
        job_id = (await call(gateway, "cron.add", **JOB))["id"]
        await tell(gateway, job_id)
        await chat.wait_sent(2)
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy="deny")
        await tell(gateway, job_id)
        await anyio.sleep(600)

    assert len(chat.sent) == 2


@pytest.mark.spec("Y4")
@pytest.mark.parametrize(("policy", "sent"), [("deny", 1), ("allow", 2)])
async def test_a_denial_is_not_forgotten_with_the_group_that_it_protected(
    tmp_path: Path, policy: str, sent: int
) -> None:
    chat, provider = (
        MemoryChannel(settings=OPEN_TO_ALL),
        ScriptedProvider(lambda request: "the news"),
    )
    async with open_gateway(tmp_path, provider, channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "hi", group="g1"))
        await chat.wait_sent(1)
        chat.faults.append(down())
        await tell(gateway, (await call(gateway, "cron.add", **JOB))["id"])
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy=policy)
        await call(gateway, "sessions.delete", key=GROUP)
        await anyio.sleep(3600)

    assert len(chat.sent) == sent


@pytest.mark.spec("Y4")
async def test_listeners_are_told_when_a_session_may_not_speak_and_when_it_may_again(
    tmp_path: Path,
) -> None:
    told: list[FeedEvent] = []
    chat, provider = MemoryChannel(settings=OPEN_TO_ALL), Recording(10.0)
    async with open_gateway(tmp_path, provider, channels=[chat]) as gateway:
        gateway.feed.subscribe(told.append)
        run_id = await chat.say("ana", "hi", group="g1")
        await anyio.sleep(5)  # its reply takes ten
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy="deny")
        await gateway.run_store.wait(run_id)
        await gateway.run_store.wait(await chat.say("ana", "still there?", group="g1"))
        await call(gateway, "sessions.patch", key=GROUP, sendPolicy=None)
        await gateway.run_store.wait(await chat.say("ana", "and now?", group="g1"))

    speech = [event.allowed for event in told if isinstance(event, SpeechAllowed)]
    assert speech == [False, False, True]
    assert [event.withheld for event in told if isinstance(event, RunEnded)] == [True, True, False]


@pytest.mark.spec("Y4", "B1")
@pytest.mark.parametrize("method", ["chat.send", "agent", "sessions.send"])
async def test_what_was_accepted_is_acknowledged_again_whatever_was_forbidden_since(
    tmp_path: Path, method: str
) -> None:
    """Clients that lost the connection ask again under the same key, and go on listening to that run."""
    model, work = ScriptedProvider(lambda request: "hello"), "agent:main:work"
    said: dict[str, Any] = {"sessionKey": work, "message": "hi", "idempotencyKey": "r1"}
    async with open_gateway(tmp_path, model) as gateway:
        await call(gateway, "sessions.create", key=work)
        await call(gateway, method, **said)
        await gateway.run_store.wait("r1")
        await call(gateway, "sessions.patch", key=work, sendPolicy="deny")
        again = [await call(gateway, method, **said)]
        ears = Listening()
        await gateway.door.dispatch(Caller(principal=OWNER, listening=ears), method, said)
        assert list(ears.runs) == ([] if method == "sessions.send" else ["r1"])
        new = {**said, "idempotencyKey": "r2"}
        if method == "sessions.send":
            refused = await call(gateway, method, **new)
            assert (refused["status"], refused["error"]) == ("error", BLOCKED)
        else:
            with pytest.raises(Invalid, match=BLOCKED):
                await call(gateway, method, **new)
        if method != "sessions.send":  # to which an archived session is none
            await call(gateway, "sessions.archive", key=work)
            again.append(await call(gateway, method, **said))
            with pytest.raises(Invalid, match="is archived"):
                await call(gateway, method, **{**said, "message": "other words"})

    assert {(each["runId"], each["status"]) for each in again} == {("r1", "ok")}
    assert len(model.seen) == 1


@pytest.mark.spec("Y4")
@pytest.mark.parametrize("kind", get_args(RunKind))
async def test_whether_a_reply_is_withheld_is_decided_in_one_place_for_every_kind_of_run(
    tmp_path: Path, kind: RunKind
) -> None:
    policy = {"sendPolicy": {"default": "deny"}}
    config = msgspec.convert({"session": policy}, Config)
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "hi"), config=config) as gateway:
        await call(gateway, "sessions.patch", key="main", label="here")
        session = await gateway.ledger.find_session(SessionKey.main("main"))
        assert session is not None
        run = Run(run_id="r1", key=session.key, session_id=session.session_id, kind=kind, status="ok",
                  attempt=1, epoch=1, plan=RunPlan(), authority=Authority(), cause=Cause(), created_at=1)  # fmt: skip
        follow = await gateway.endings.finished(run, Outcome("ok", reply="hi"))

        assert gateway.endings.is_withheld(run, session) is follow.withheld
        assert follow.withheld is (kind in ("chat", "announce", "cron", "hook", "node"))
