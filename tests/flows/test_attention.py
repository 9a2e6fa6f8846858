"""What needs attention is found, says why, offers what helps, and goes away when its cause does."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.errors import ChannelDown, DeliveryUncertain, Invalid, NotFound
from crossclaw.domain.messages import ToolUse, UserMessage
from crossclaw.ledger.channels import ChatPairingRequest, RequestPairing
from crossclaw.ledger.jobs import SwitchOffJob
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.configs import config_of
from tests.flows.crashing import crashed_copy
from tests.flows.spending import config_with, costing
from tests.flows.talking import call, say, two_agents
from tests.flows.test_approvals import ASKING, Stamp, asks

pytestmark = pytest.mark.spec("B7")


async def rows(gateway: Gateway, *kinds: str) -> list[dict[str, Any]]:
    answer = await call(gateway, "attention.list", kinds=list(kinds) or None)
    assert answer["count"] == len(answer["rows"])
    found: list[dict[str, Any]] = answer["rows"]
    return found


async def add_job(gateway: Gateway, words: str) -> Any:
    return await call(
        gateway,
        "cron.add",
        name="news",
        schedule={"kind": "cron", "expr": "0 7 * * *"},
        sessionTarget="isolated",
        wakeMode="now",
        payload={"kind": "agentTurn", "message": words},
    )


async def do(gateway: Gateway, action: dict[str, Any]) -> Any:
    """As a button does."""
    return await call(gateway, action["method"], **action["params"])


async def test_a_failed_run_is_there_until_its_session_has_answered_since(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        assert await rows(gateway) == []
        await say(gateway, "main", "fail: the model is on holiday", "r1")
        (row,) = await rows(gateway)
        (retry,) = row["actions"]
        first, again = await do(gateway, retry), await do(gateway, retry)
        await gateway.run_store.wait(first["runId"], timeout_s=60)
        (still,) = await rows(gateway)
        await say(gateway, "main", "say: back", "r2")
        healed = await rows(gateway)
        with pytest.raises(Invalid, match="has not failed"):
            await call(gateway, "runs.retry", runId="r2")

    assert (row["kind"], row["key"], row["what"], row["runId"]) == (
        "run", "agent:main:main", "failed", "r1",
    )  # fmt: skip
    assert "on holiday" in row["why"]
    assert first["runId"] == again["runId"] != "r1"  # a second click is not a second run
    assert still["runId"] == first["runId"]  # the same words failed again, which is news
    assert healed == []


async def test_a_run_that_ran_out_of_time_is_told_apart_from_one_that_failed(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(
            gateway, "chat.send", sessionKey="main", message="wait: 60", idempotencyKey="r1", timeoutMs=9000
        )  # fmt: skip
        await gateway.run_store.wait("r1", timeout_s=60)
        (row,) = await rows(gateway)

    assert row["what"] == "ran out of time"


async def test_a_retry_gives_the_words_of_others_no_owners_rights_and_no_other_name(
    tmp_path: Path,
) -> None:
    """Whoever presses the button has not written the words: a stranger's stay a stranger's, an agent's an agent's."""
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), RehearsalProvider()
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        failed = [await chat.say("7", "fail: give me all files")]
        await gateway.run_store.wait(failed[0], timeout_s=60)
        own = await say(gateway, "agent:main:own", "fail: mine", "r1")
        again = [
            (await call(gateway, "runs.retry", runId=each))["runId"] for each in (*failed, "r1")
        ]
        runs = [await gateway.run_store.wait(each, timeout_s=60) for each in again]
        entries = [
            (await gateway.ledger.monitoring.entries_of_run(run.run_id, limit=1))[0]
            for run in runs
            if run is not None
        ]

    said = [each.message.provenance for each in entries if isinstance(each.message, UserMessage)]
    assert [run.authority.owner for run in runs if run is not None] == [False, True]
    assert own.authority.owner
    assert [(each.kind, each.source_channel, each.sender) for each in said if each] == [
        ("person", "memory", "7"),
        ("person", "webchat", None),
    ]


async def test_what_is_dismissed_stays_away_over_a_restart_and_comes_back_as_something_new(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "fail: one", "r1")
        (row,) = await rows(gateway)
        await call(gateway, "attention.dismiss", ids=[row["id"]])
        copy = crashed_copy(tmp_path, f"{tmp_path.name} later")
    async with open_gateway(copy, RehearsalProvider()) as gateway:
        dismissed = await rows(gateway)
        await say(gateway, "main", "fail: two", "r2")
        (anew,) = await rows(gateway)

    assert dismissed == []
    assert "two" in anew["why"]


async def test_a_call_that_needs_a_yes_is_there_and_is_answered_from_there(tmp_path: Path) -> None:
    stamp = Stamp()
    model = ScriptedProvider([[asks()], "done"])
    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[stamp]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(1)
        (row,) = await rows(gateway, "approval")
        (session,) = (await call(gateway, "sessions.table", key="agent:main:main"))["rows"]
        await do(gateway, row["actions"][0])
        await gateway.run_store.wait("r1", timeout_s=60)
        after = await rows(gateway)

    assert row["key"] == "agent:main:main"
    assert row["helps"].endswith("Without an answer it is a no after 30 minutes.")
    assert row["actions"][0]["label"] == "Allow once"
    assert session["standing"]["name"] == "needs approval"
    assert stamp.stamped == ["a"]
    assert after == []


class Unplugged(MemoryChannel):
    """A platform that cannot be reached."""

    async def serve(self, *given: Any, **named: Any) -> None:
        raise ChannelDown("no route to the platform")


async def test_a_channel_that_is_down_is_there_with_its_reason(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[Unplugged()]) as gateway:
        await anyio.sleep(1)
        (row,) = await rows(gateway, "channel")

    assert row["what"] == "is not connected"
    assert "no route to the platform" in row["why"]
    assert row["actions"][0]["method"] == "channels.start"


async def test_a_stranger_who_asks_to_talk_is_there_and_is_let_in_from_there(
    tmp_path: Path,
) -> None:
    asking = ChatPairingRequest(
        channel="memory", account_id="default", sender="42", sender_name="Ana", code="ABCD2345",
        created_at=1, last_seen_at=1, expires_at=2**52,
    )  # fmt: skip
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[MemoryChannel()]) as gateway:
        await gateway.ledger.do(RequestPairing(request=asking, pending_max=3))
        (row,) = await rows(gateway, "chat")
        await do(gateway, row["actions"][0])
        after = await rows(gateway)

    assert (row["subject"], row["what"]) == ("Ana (42)", "asks on memory to talk with your agents")
    assert after == []


class Doubtful(MemoryChannel):
    """Of its first delivery nobody knows whether it arrived."""

    def __init__(self) -> None:
        super().__init__(settings=OPEN_TO_ALL)
        self.doubts = 1

    async def send(self, *given: Any, **named: Any) -> Any:
        if self.doubts:
            self.doubts -= 1
            raise DeliveryUncertain("the line was cut after the words were out")
        return await super().send(*given, **named)


async def test_an_uncertain_reply_is_there_until_it_was_sent_again(tmp_path: Path) -> None:
    chat = Doubtful()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "say: hello")
        await anyio.sleep(5)
        (row,) = await rows(gateway, "delivery")
        resend = next(each for each in row["actions"] if each["method"] == "deliveries.resend")
        await do(gateway, resend)
        await chat.wait_sent(1)
        await anyio.sleep(1)
        after = await rows(gateway)
        with pytest.raises(NotFound):
            await do(gateway, resend)

    assert "may have arrived or not" in row["what"]
    assert row["runId"] == run_id
    assert [each["label"] for each in row["actions"]] == ["Send again", "It has arrived"]
    assert "the line was cut" in row["why"]
    assert "twice" in row["helps"]
    assert after == []


async def test_a_long_wait_names_who_is_waited_for_and_can_be_ended(tmp_path: Path) -> None:
    send = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 900", "timeoutSeconds": 900}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        words = f"{send}\nthen:\nsay: so be it"
        await call(gateway, "chat.send", sessionKey="main", message=words, idempotencyKey="r1")
        await anyio.sleep(55)
        early = await rows(gateway)
        await anyio.sleep(70)
        (row,) = await rows(gateway)
        await do(gateway, row["actions"][0])
        await gateway.run_store.wait("r1", timeout_s=60)
        after = await rows(gateway)

    assert early == []
    assert (row["key"], row["other"]) == ("agent:main:main", "agent:librarian:main")
    assert row["what"] == "has waited 2 min for"
    assert after == []


async def test_a_job_that_failed_is_there_with_its_reason(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        job = await add_job(gateway, "fail: no paper today")
        await call(gateway, "cron.run", id=job["id"], mode="force")
        await anyio.sleep(10)
        (row,) = await rows(gateway, "job")

    assert (row["subject"], row["what"]) == ("The job news", "failed")
    assert "no paper today" in row["why"]
    assert row["actions"][0]["method"] == "cron.run"


async def test_a_job_that_the_gateway_switched_off_says_why_and_is_switched_on_from_there(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        asked = await add_job(gateway, "say: no news")
        (job,) = await gateway.ledger.list_jobs()
        await gateway.ledger.do(
            SwitchOffJob(job=job, reason="its device is gone", at=job.updated_at)
        )
        (row,) = await rows(gateway, "job")
        await do(gateway, row["actions"][0])
        (again,) = await gateway.ledger.list_jobs()
        after = await rows(gateway)

    assert row["id"].startswith(f"job:{asked['id']}:off:")
    assert (row["subject"], row["what"]) == ("The job news", "was switched off by the gateway")
    assert row["why"] == "its device is gone"
    assert again.enabled
    assert after == []


async def test_a_budget_that_is_nearly_spent_is_there_while_its_run_works(tmp_path: Path) -> None:
    send = ToolUse(
        "c1", "sessions_send", {"agentId": "librarian", "message": "x", "timeoutSeconds": 900}
    )
    model = ScriptedProvider([costing([send], 45_000, 100), "late", "later"], delay_s=30)
    async with open_gateway(tmp_path, model, config=config_with({"tokens": 50_000})) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(20)
        early = await rows(gateway, "budget")
        await anyio.sleep(20)
        (row,) = await rows(gateway, "budget")
        await do(gateway, row["actions"][0])
        await anyio.sleep(60)  # the other one has answered too
        after = await rows(gateway, "budget")

    assert early == after == []
    assert (row["id"], row["key"]) == ("budget:r1", "agent:main:main")
    assert row["why"] == "45,100 of 50,000 tokens"
