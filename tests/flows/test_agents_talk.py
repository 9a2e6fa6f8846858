"""Agents list sessions, read them and send into them, through the one door."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage, UserMessage
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.principal import Principal, person_principal
from crossclaw.ledger.operations import DeleteSession
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, results_of, say, two_agents

ASK = 'tool: sessions_send {"agentId": "librarian", "message": "say: shelf nine"}\nthen:\nsay: told'


@pytest.mark.spec("S1", "S2")
async def test_one_agent_asks_another_and_gets_its_reply(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "main", ASK, "r1")
        (result,) = await results_of(gateway, run)
        asked = await gateway.ledger.find_session(SessionKey.main("librarian"))
        entries = await gateway.ledger.list_entries(asked.session_id, limit=9)  # type: ignore[union-attr]

    assert run.reply == "told"
    assert (result["status"], result["reply"]) == ("ok", "shelf nine")
    question = entries[0].message
    assert isinstance(question, UserMessage)
    assert question.provenance is not None
    assert (question.provenance.kind, question.provenance.source_session_key) == (
        "inter_session",
        "agent:main:main",
    )


@pytest.mark.spec("S2")
async def test_a_send_without_waiting_is_accepted_and_runs_later(tmp_path: Path) -> None:
    ask = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 60", "timeoutSeconds": 0}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "main", ask, "r1")
        (result,) = await results_of(gateway, run)
        other = await gateway.run_store.wait(result["runId"], timeout_s=600)

    assert result["status"] == "accepted"
    assert other is not None
    assert other.status == "ok"
    assert run.ended_at < other.ended_at  # type: ignore[operator]


@pytest.mark.spec("S3")
async def test_a_wait_that_is_over_ends_only_the_wait(tmp_path: Path) -> None:
    ask = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 60", "timeoutSeconds": 5}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "main", ask, "r1")
        (result,) = await results_of(gateway, run)
        other = await gateway.run_store.wait(result["runId"], timeout_s=600)

    assert result["status"] == "timeout"
    assert "the run goes on" in result["error"]
    assert other is not None
    assert other.status == "ok"


@pytest.mark.spec("S3")
async def test_a_failed_run_is_an_error_to_the_one_who_asked(tmp_path: Path) -> None:
    ask = 'tool: sessions_send {"agentId": "librarian", "message": "fail: no light"}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "main", ask, "r1")
        (result,) = await results_of(gateway, run)

    assert (result["status"], result["error"]) == ("error", "no light")


@pytest.mark.spec("S1", "B1")
async def test_a_send_that_is_executed_again_after_a_crash_sends_once(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    slow = ASK.replace('"say: shelf nine"', '"wait: 100\\nsay: shelf nine", "timeoutSeconds": 300')
    async with open_gateway(folder, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message=slow, idempotencyKey="r1")
        await anyio.sleep(10)
        left = crashed_copy(folder)

    async with open_gateway(left, RehearsalProvider(), config=two_agents()) as gateway:
        run = await gateway.run_store.wait("r1", timeout_s=600)
        (result,) = await results_of(gateway, run)  # type: ignore[arg-type]
        asked = await gateway.ledger.find_session(SessionKey.main("librarian"))
        entries = await gateway.ledger.list_entries(asked.session_id, limit=9)  # type: ignore[union-attr]

    assert (result["status"], result["reply"]) == ("ok", "shelf nine")
    assert len([e for e in entries if isinstance(e.message, UserMessage)]) == 1


@pytest.mark.spec("S9")
async def test_a_session_cannot_send_to_itself(tmp_path: Path) -> None:
    ask = 'tool: sessions_send {"sessionKey": "main", "message": "hello me"}'
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        run = await say(gateway, "main", ask, "r1")
        (result,) = await results_of(gateway, run)

    assert "cannot send to itself" in result


@pytest.mark.spec("S9")
async def test_agents_that_ask_each_other_in_a_circle_are_told_so(tmp_path: Path) -> None:
    back = r"tool: sessions_send {\"agentId\": \"main\", \"message\": \"hi\"}"
    ask = f'tool: sessions_send {{"agentId": "librarian", "message": "{back}"}}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", ask, "r1")
        session = await gateway.ledger.find_session(SessionKey.main("librarian"))
        entries = await gateway.ledger.list_entries(session.session_id, limit=20)  # type: ignore[union-attr]

    (result,) = [e.message.content for e in entries if isinstance(e.message, ToolResultMessage)]
    assert result["status"] == "timeout"
    assert "main → agent:main:main → main wait for each other" in result["error"]


@pytest.mark.spec("B4")
async def test_a_cascade_of_sends_ends_with_its_hops(tmp_path: Path) -> None:
    principal_hops = (
        'tool: sessions_send {"agentId": "librarian", "message": "say: x", "timeoutSeconds": 0}'
    )
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "main", principal_hops, "r1")
        (result,) = await results_of(gateway, run)
        child = await gateway.run_store.wait(result["runId"], timeout_s=60)

    assert child is not None
    assert child.authority.hops_left == run.authority.hops_left - 1
    assert (child.cause.chain, child.cause.hops) == (("r1",), 1)


@pytest.mark.spec("L1", "L3", "L4")
async def test_an_agent_sees_the_sessions_with_their_last_words(tmp_path: Path) -> None:
    listing = 'tool: sessions_list {"messageLimit": 1, "limit": 500}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "agent:main:notes", "say: remembered", "r0")
        run = await say(gateway, "main", listing, "r1")
        (result,) = await results_of(gateway, run)

    assert result["count"] == 2
    assert result["clamped"] == ["limit is at most 200"]
    rows = {row["key"]: row for row in result["sessions"]}
    assert set(rows) == {"main", "agent:main:notes"}
    notes = rows["agent:main:notes"]
    assert (notes["kind"], notes["channel"], notes["model"]) == (
        "other",
        "webchat",
        "rehearsal/test",
    )
    assert [message["role"] for message in notes["messages"]] == ["assistant"]
    assert notes["transcriptPath"].endswith(f"/sessions/main/{notes['sessionId']}.jsonl")


@pytest.mark.spec("L1")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"kinds": ["mail"]}', "the kinds are main, group, cron, hook, node, other"),
        ('{"limit": 0}', "limit must be a number from 1 to 200"),
        ('{"activeMinutes": -1}', "activeMinutes must be more than 0"),
        ('{"colour": 1}', "it takes kinds, limit, activeMinutes, messageLimit"),
    ],
)
async def test_a_wrong_question_is_answered_with_what_would_work(
    tmp_path: Path, arguments: str, complaint: str
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        run = await say(gateway, "main", f"tool: sessions_list {arguments}", "r1")
        (result,) = await results_of(gateway, run)

    assert complaint in result


@pytest.mark.spec("S2", "S3")
async def test_every_answer_of_a_send_names_the_session(tmp_path: Path) -> None:
    async def send(**params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await call(
            gateway, "tool.sessions_send", sessionKey=NOTES, **params
        )
        assert answer.pop("runId")
        return answer

    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, NOTES, "say: hi", "r1")
        at_once = await send(message="say: one", timeoutSeconds=0)
        waited = await send(message="say: two")
        late = await send(message="wait: 60", timeoutSeconds=1)
        await call(gateway, "sessions.patch", key=NOTES, sendPolicy="deny")
        denied = await send(message="say: three")

    assert at_once == {"status": "accepted", "sessionKey": NOTES}
    assert waited == {"status": "ok", "reply": "two", "sessionKey": NOTES}
    assert (late["status"], late["sessionKey"]) == ("timeout", NOTES)
    assert denied == {
        "status": "error", "error": "send blocked by session policy", "sessionKey": NOTES,
    }  # fmt: skip


@pytest.mark.spec("L4")
async def test_the_last_messages_of_a_row_are_never_what_tools_answered(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, NOTES, "tool: agents_list {}\nthen:\nsay: done", "r1")
        (row,) = (await call(gateway, "tool.sessions_list", messageLimit=20))["sessions"]

    assert [each["role"] for each in row["messages"]] == ["user", "assistant", "assistant"]


@pytest.mark.spec("L1", "L2")
async def test_sessions_that_rested_longer_are_left_out(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "agent:main:old", "say: hi", "r1")
        await anyio.sleep(600)
        await say(gateway, "agent:main:new", "say: hi", "r2")
        recent = await call(gateway, "tool.sessions_list", activeMinutes=0.5)
        all_of_them = await call(gateway, "tool.sessions_list", activeMinutes=11)

    assert [row["key"] for row in recent["sessions"]] == ["agent:main:new"]
    assert all_of_them["count"] == 2


@pytest.mark.spec("H1", "H2", "H3")
async def test_an_agent_reads_a_history_page_by_page(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        for number in range(6):
            await say(gateway, "agent:main:notes", f"say: {number} " + "x" * 20_000, f"r{number}")
        newest = await call(gateway, "tool.sessions_history", sessionKey="agent:main:notes")
        older = await call(
            gateway, "tool.sessions_history", sessionKey="agent:main:notes", before=newest["before"]
        )

    assert newest["truncated"] is True
    assert newest["droppedMessages"] == 12 - len(newest["messages"])
    assert older["messages"][-1]["id"] != newest["messages"][0]["id"]
    ids = [message["id"] for message in older["messages"] + newest["messages"]]
    assert len(ids) == len(set(ids))


@pytest.mark.spec("H3")
async def test_one_huge_message_comes_as_its_beginning(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "say: " + "y" * 100_000, "r1")
        history = await call(gateway, "tool.sessions_history", sessionKey="main")

    big = history["messages"][-1]
    assert (big["omitted"], big["role"]) == (True, "assistant")
    assert big["bytes"] > 100_000
    assert history["truncated"] is True


@pytest.mark.spec("K6", "H4")
async def test_key_session_id_and_label_lead_to_one_session_and_unknown_ones_to_one_error(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "agent:main:notes", "say: hi", "r1")
        await call(gateway, "sessions.patch", key="agent:main:notes", label="diary")
        row = (await call(gateway, "sessions.describe", key="agent:main:notes"))["session"]
        by_key = await call(gateway, "sessions.resolve", key="agent:main:notes")
        by_id = await call(gateway, "sessions.resolve", sessionId=row["sessionId"])
        by_label = await call(gateway, "sessions.resolve", label="diary")
        with pytest.raises(NotFound, match="unknown session"):
            await call(gateway, "tool.sessions_history", sessionKey="agent:main:nothing")
        with pytest.raises(NotFound, match="unknown session"):
            await call(
                gateway, "tool.sessions_history", sessionKey="6374de98-20a9-4373-89f1-59b8eba01ca0"
            )

    assert by_key == by_id == by_label
    assert row["label"] == "diary"


@pytest.mark.spec("K7")
@pytest.mark.parametrize("text", ["MAIN", "ｍａｉｎ", "agent:main:MAIN"])
async def test_a_spelling_that_only_looks_right_creates_nothing(tmp_path: Path, text: str) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        with pytest.raises(Invalid):
            await call(gateway, "chat.send", sessionKey=text, message="hi", idempotencyKey="k")
        listed = await call(gateway, "sessions.list")

    assert listed["count"] == 0


NOTES = "agent:main:notes"


async def test_an_agent_that_is_not_configured_is_named_with_those_that_are(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        with pytest.raises(NotFound, match="librarian"):
            await call(
                gateway,
                "chat.send",
                sessionKey="agent:nobody:main",
                message="hi",
                idempotencyKey="k",
            )
        listed = await call(gateway, "sessions.list")

    assert listed["count"] == 0


@pytest.mark.spec("S8")
async def test_sends_between_agents_can_be_switched_off(tmp_path: Path) -> None:
    config = two_agents()
    rules = msgspec.structs.replace(config.tools.agent_to_agent, enabled=False)
    config = msgspec.structs.replace(
        config, tools=msgspec.structs.replace(config.tools, agent_to_agent=rules)
    )
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        run = await say(gateway, "main", ASK, "r1")
        (result,) = await results_of(gateway, run)

    assert "tools.agentToAgent.enabled=true" in result["error"]


@pytest.mark.spec("Y4")
async def test_a_denied_session_takes_no_message_and_the_owner_can_open_it_again(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        for method in ("chat.send", "agent"):
            with pytest.raises(Invalid, match="send blocked by session policy"):
                await call(
                    gateway,
                    method,
                    sessionKey="agent:main:main",
                    message="hi",
                    idempotencyKey=method,
                )
        await call(gateway, "sessions.patch", key="main", sendPolicy=None)
        run = await say(gateway, "main", "say: open", "r2")

    assert run.reply == "open"


async def test_a_reset_begins_anew_and_keeps_the_old_words(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        before = await say(gateway, "main", "say: old", "r1")
        await call(gateway, "sessions.reset", key="main")
        after = await say(gateway, "main", "say: new", "r2")
        fresh = await call(gateway, "chat.history", sessionKey="main")
        old = await gateway.ledger.list_entries(before.session_id, limit=9)

    assert before.session_id != after.session_id
    assert len(fresh["messages"]) == 2
    assert len(old) == 2


async def test_a_deleted_session_is_gone_and_its_copy_set_aside(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "agent:main:notes", "say: secret pangolin", "r1")
        deleted = await call(gateway, "sessions.delete", key="agent:main:notes")
        again = await call(gateway, "sessions.delete", key="agent:main:notes")
        hits = await gateway.ledger.search("pangolin", limit=9, sight=EVERYTHING)
        await say(gateway, "main", "say: hi", "r2")
        with pytest.raises(Invalid, match="Cannot delete the main session"):
            await call(gateway, "sessions.delete", key="main")

    assert deleted["deleted"] is True
    assert again["deleted"] is False
    assert hits == []
    (kept,) = deleted["archived"]
    assert ".deleted." in kept
    assert "secret pangolin" in await anyio.Path(kept).read_text("utf-8")
    assert not list((tmp_path / "state" / "sessions" / "main").glob("*notes*"))


@pytest.mark.spec("B1")
async def test_the_copy_of_a_deleted_session_is_set_aside_also_when_the_deleter_died(
    tmp_path: Path,
) -> None:
    key = SessionKey.parse("agent:main:notes")
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        run = await say(gateway, key.text, "say: secret pangolin", "r1")
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await gateway.ledger.do(DeleteSession(key=key, at=0))  # and no further
        await anyio.sleep(10)
        left = await gateway.ledger.count_timers()

    (kept,) = (tmp_path / "state" / "sessions" / "main").glob(f"{run.session_id}*")
    assert ".jsonl.deleted." in kept.name
    assert left == {}


@pytest.mark.spec("B3")
async def test_scopes_are_enforced_for_everybody(tmp_path: Path) -> None:
    reader = person_principal("reader", {"operator.read"})
    node = Principal(
        name="node", role="node", scopes=frozenset(), sight="node", authority=Authority()
    )
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        assert (await call(gateway, "health", reader))["ok"] is True
        with pytest.raises(MissingScope, match=r"missing scope: operator\.write"):
            await call(
                gateway, "chat.send", reader, sessionKey="main", message="hi", idempotencyKey="k"
            )
        with pytest.raises(MissingScope, match=r"missing scope: operator\.admin"):
            await call(gateway, "sessions.patch", reader, key="main")
        with pytest.raises(Forbidden, match="unauthorized role: node"):
            await call(gateway, "health", node)


async def test_stop_ends_what_runs_in_the_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(
            gateway, "chat.send", sessionKey="main", message="wait: 500", idempotencyKey="r1"
        )
        await anyio.sleep(1)
        stopped = await call(
            gateway, "chat.send", sessionKey="main", message="/stop", idempotencyKey="r2"
        )
        run = await gateway.run_store.wait("r1", timeout_s=5)

    assert (stopped["aborted"], stopped["runIds"]) == (True, ["r1"])
    assert run is not None
    assert run.status == "aborted"


async def test_the_same_idempotency_key_with_another_message_is_refused(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "say: one", "k")
        again = await call(
            gateway, "chat.send", sessionKey="main", message="say: one", idempotencyKey="k"
        )
        with pytest.raises(Invalid, match="idempotency key"):
            await call(
                gateway, "chat.send", sessionKey="main", message="say: two", idempotencyKey="k"
            )
        with pytest.raises(Invalid, match="idempotency key"):
            await call(
                gateway,
                "agent",
                sessionKey="agent:main:main",
                message="say: one",
                idempotencyKey="k",
            )

    assert (again["runId"], again["status"]) == ("k", "ok")


@pytest.mark.spec("V3")
async def test_an_agent_that_may_not_be_reached_and_one_that_is_not_there_are_refused_alike(
    tmp_path: Path,
) -> None:
    """Otherwise the refusal tells which agents there are."""
    raw = {
        "agents": {"list": [{"id": "main"}, {"id": "librarian"}]},
        "tools": {
            "sessions": {"visibility": "all"},
            "agentToAgent": {"enabled": True, "allow": ["main"]},
        },
    }
    config = msgspec.convert(raw, Config)
    refusals = []
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        for number, agent in enumerate(("librarian", "ghost")):
            ask = f'tool: sessions_send {{"agentId": "{agent}", "message": "hi"}}\nthen:\nsay: so'
            (result,) = await results_of(gateway, await say(gateway, "main", ask, f"r{number}"))
            refusals.append((result["status"], result["error"].replace(agent, "…")))
    assert refusals[0] == refusals[1]
    assert refusals[0][0] == "forbidden"


@pytest.mark.spec("S1")
async def test_an_agent_asks_the_main_one_by_its_name(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        run = await say(gateway, "agent:librarian:main", "ask: main say: Shelf nine.", "r1")
    assert run.reply is not None
    assert "Shelf nine." in run.reply
