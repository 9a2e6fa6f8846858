"""Looking at the whole gateway: the table, the search, the map and the traces say what the ledger has."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, Invalid, NotFound
from crossclaw.domain.messages import ToolUse
from crossclaw.door.principal import session_principal
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.spawning import family, reported
from tests.flows.talking import call, say, two_agents
from tests.flows.test_exchanges import LIBRARIAN, MAIN, exchange_id, settled, talkative
from tests.flows.test_guests import Guest
from tests.flows.test_guests import two_agents as with_guests


@pytest.mark.spec("B7")
async def test_the_map_shows_every_message_between_agents_with_its_direction(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=3), config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        seen = await call(gateway, "map.get", sinceMs=0)

    edges = [(run["kind"], run.get("source"), run["key"]) for run in seen["runs"]]
    main, librarian = MAIN.text, LIBRARIAN.text
    assert edges == [
        ("chat", None, main),
        ("send", main, librarian),
        ("round", librarian, main),
        ("round", main, librarian),
        ("round", librarian, main),
        ("announce", main, librarian),
    ]
    assert {node["key"] for node in seen["nodes"]} == {main, librarian}
    assert seen["open"] == seen["waits"] == []


@pytest.mark.spec("B7")
async def test_who_looks_again_gets_only_what_is_new(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await say(gateway, "main", "one", "r1")
        first = await call(gateway, "map.get", sinceMs=0)
        await say(gateway, "agent:main:other", "two", "r2")
        second = await call(gateway, "map.get", sinceMs=0, after=first["cursor"])
        third = await call(gateway, "map.get", sinceMs=0, after=second["cursor"])

    assert [run["runId"] for run in second["runs"]] == ["r2"]
    assert [node["key"] for node in second["nodes"]] == ["agent:main:other"]
    assert third["runs"] == third["nodes"] == []
    assert third["cursor"] == second["cursor"]


def slow_librarian() -> ScriptedProvider:
    """The librarian thinks for a minute; main waits for it."""

    def answer(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        if "ask" in str(last.content) and not last.results:
            arguments = {"agentId": "librarian", "message": "where?", "timeoutSeconds": 3000}
            return [ToolUse("c1", "sessions_send", arguments)]
        return "REPLY_SKIP"

    return ScriptedProvider(answer, delay_s=60)


async def waiting(gateway: Gateway) -> dict[str, Any]:
    for _ in range(400):
        seen: dict[str, Any] = await call(gateway, "map.get", sinceMs=0)
        if seen["waits"]:
            return seen
        await anyio.sleep(1)
    raise AssertionError("nobody waits")


@pytest.mark.spec("B7")
async def test_the_map_and_the_table_say_who_waits_for_whom(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, slow_librarian(), config=two_agents()) as gateway:
        for number in (1, 2):
            await call(
                gateway, "chat.send", sessionKey="main", message="ask", idempotencyKey=f"r{number}"
            )
        seen = await waiting(gateway)
        table = await call(gateway, "sessions.table")

    (wait,) = seen["waits"]
    assert (wait["key"], wait["targetKey"]) == (MAIN.text, LIBRARIAN.text)
    lanes = {row["key"]: row["lane"] for row in table["rows"]}
    assert lanes[MAIN.text]["status"] == "waiting"
    assert lanes[MAIN.text]["waitsFor"] == [LIBRARIAN.text]
    assert lanes[MAIN.text]["queued"] == 1
    assert lanes[LIBRARIAN.text]["status"] == "running"


async def test_the_table_pages_filters_and_counts(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        for number in range(7):
            await call(gateway, "sessions.create", key=f"desk-{number}", label=f"label {number}")
        first = await call(gateway, "sessions.table", limit=3)
        last = await call(gateway, "sessions.table", limit=3, offset=6)
        found = await call(gateway, "sessions.table", search="LABEL 4")
        none = await call(gateway, "sessions.table", kinds=["cron"])
        await anyio.sleep(600)
        await call(gateway, "sessions.patch", key="agent:main:desk-1", label="awake")
        recent = await call(gateway, "sessions.table", activeMinutes=5)
        with pytest.raises(Invalid, match="the kinds are main, group"):
            await call(gateway, "sessions.table", kinds=["odd"])

    assert (first["total"], len(first["rows"]), len(last["rows"])) == (7, 3, 1)
    assert [row["key"] for row in found["rows"]] == ["agent:main:desk-4"]
    assert (found["total"], none["total"], none["rows"]) == (1, 0, [])
    assert ([row["key"] for row in recent["rows"]], recent["total"]) == (["agent:main:desk-1"], 1)


async def test_settings_of_a_session_are_in_its_row(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        await call(gateway, "sessions.patch", key="main", thinkingLevel="high", sendPolicy="deny")
        (row,) = (await call(gateway, "sessions.table"))["rows"]

    assert row["overrides"] == {"thinkingLevel": "high", "sendPolicy": "deny"}
    assert "lane" not in row


async def test_words_are_found_in_every_session_and_shown_with_their_surroundings(
    tmp_path: Path,
) -> None:
    long = f"{'before ' * 60}the lighthouse {'after ' * 60}"
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "noted")) as gateway:
        await say(gateway, "main", long, "r1")
        await say(gateway, "agent:main:other", "nothing here", "r2")
        answer = await call(gateway, "sessions.entries.search", query="lighth")
        nothing = await call(gateway, "sessions.entries.search", query='"unbalanced AND (')

    (hit,) = answer["hits"]
    assert (hit["key"], hit["role"], hit["runId"], hit["seq"]) == (MAIN.text, "user", "r1", 1)
    assert "the lighthouse" in hit["text"]
    assert len(hit["text"]) < 300
    assert nothing["hits"] == []


@pytest.mark.spec("G2", "G4")
async def test_openclaws_clients_find_what_was_said_the_newest_first(tmp_path: Path) -> None:
    provider = RehearsalProvider()
    async with open_gateway(tmp_path, provider) as gateway:
        await say(gateway, "main", "say: the lighthouse", "r1")
        await say(
            gateway, "agent:main:other", "tool: sessions_list {}\nthen:\nsay: lighthouse", "r2"
        )
        both = await call(gateway, "sessions.search", query="lighthouse")
        newest = await call(gateway, "sessions.search", query="lighthouse", limit=1)
        tools = await call(gateway, "sessions.entries.search", query="sessions")
        said = await call(gateway, "sessions.search", query="sessions")
        with pytest.raises(Invalid, match="limit"):
            await call(gateway, "sessions.search", query="lighthouse", limit=26)

    assert [(hit["sessionKey"], hit["role"]) for hit in both["results"]] == [
        ("agent:main:other", "assistant"),
        ("agent:main:other", "user"),
        (MAIN.text, "assistant"),
        (MAIN.text, "user"),
    ]
    assert [hit["score"] for hit in both["results"]] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert (newest["results"], newest["truncated"]) == (both["results"][:1], True)
    assert both["truncated"] is False
    assert "toolResult" in {hit["role"] for hit in tools["hits"]}
    assert {hit["role"] for hit in said["results"]} <= {"user", "assistant"}


async def test_a_transcript_is_read_backwards_and_onwards_by_number(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        for number in range(4):
            await say(gateway, "main", f"message {number}", f"r{number}")
        newest = await call(gateway, "sessions.entries", key="main", limit=3)
        older = await call(
            gateway, "sessions.entries", key="main", limit=3, before=newest["before"]
        )
        onwards = await call(gateway, "sessions.entries", key="main", after=6)

    assert [entry["seq"] for entry in newest["entries"]] == [6, 7, 8]
    assert [entry["seq"] for entry in older["entries"]] == [3, 4, 5]
    assert [entry["seq"] for entry in onwards["entries"]] == [7, 8]
    assert "before" not in onwards
    assert newest["entries"][-1]["message"]["content"] == [{"type": "text", "text": "yes"}]


async def test_a_slow_reader_who_pages_forward_skips_nothing(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        for number in range(5):
            await say(gateway, "main", f"message {number}", f"r{number}")
        read, cursor = list[int](), 0
        while True:
            page = await call(gateway, "sessions.entries", key="main", after=cursor, limit=3)
            read += [entry["seq"] for entry in page["entries"]]
            assert "before" not in page
            if (cursor := page.get("after")) is None:
                break
        within = await call(gateway, "sessions.entries", key="main", after=2, before=8, limit=3)

    assert read == list(range(1, 11))
    assert [entry["seq"] for entry in within["entries"]] == [3, 4, 5]
    assert within["after"] == 5


@pytest.mark.spec("K6")
async def test_a_session_names_the_transcripts_that_resets_have_closed(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await say(gateway, "main", "before", "r1")
        await call(gateway, "sessions.reset", key="main")
        await say(gateway, "main", "after", "r2")
        listed = await call(gateway, "sessions.transcripts", key="main")
        old, now = listed["transcripts"]
        by_id = await call(gateway, "sessions.transcripts", key=old["sessionId"])
        rest = await call(gateway, "sessions.transcripts", key="main", offset=1)
        read = await call(gateway, "sessions.entries", key=old["sessionId"])
        with pytest.raises(NotFound):
            await call(gateway, "sessions.transcripts", key="agent:main:nobody")

    assert (old["current"], now["current"]) == (False, True)
    assert (old["entries"], now["entries"]) == (2, 2)
    assert old["createdAt"] <= now["createdAt"]
    assert by_id == listed
    assert rest["transcripts"] == [now]
    assert "before" in str(read["entries"][0]["message"])


async def test_messages_that_wait_are_shown_with_the_open_runs(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes", delay_s=60)) as gateway:
        for number in (1, 2):
            await call(
                gateway,
                "chat.send",
                sessionKey="main",
                message=f"message {number}",
                idempotencyKey=f"r{number}",
            )
        await anyio.sleep(1)
        read = await call(gateway, "sessions.entries", key="main")
        unborn = await call(gateway, "sessions.entries", key="agent:main:later")

    first, second = read["open"]
    assert (first["runId"], first["status"]) == ("r1", "running")
    assert second["message"]["content"][0]["text"] == "message 2"
    assert [entry["runId"] for entry in read["entries"]] == ["r1"]
    assert unborn["entries"] == unborn["open"] == []


@pytest.mark.spec("B7")
async def test_a_send_is_shown_step_by_step_with_what_each_step_cost(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=2), config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        name = await exchange_id(gateway, "r1")
        trace = await call(gateway, "exchanges.trace", id=name)
        (listed,) = (await call(gateway, "exchanges.list"))["exchanges"]
        same = await call(gateway, "exchanges.trace", id=trace["steps"][2]["run"]["runId"])
        with pytest.raises(NotFound, match="no exchange, run or child session"):
            await call(gateway, "exchanges.trace", id="nothing")

    assert same == trace
    assert (listed["id"], listed["kind"], listed["request"]) == (name, "send", "where?")
    assert (trace["requester"], trace["target"]) == (MAIN.text, LIBRARIAN.text)
    assert trace["state"] == "over"
    told = [(step["run"]["kind"], step["text"], step["reply"]) for step in trace["steps"][:3]]
    assert told == [
        ("send", "where?", "shelf nine"),
        ("round", "shelf nine", "turn 1"),
        ("round", "turn 1", "REPLY_SKIP"),
    ]
    assert all(step["spent"]["inputTokens"] > 0 for step in trace["steps"])


@pytest.mark.spec("B7", "B4")
async def test_a_run_is_traced_to_what_began_it_and_to_what_it_brought_about(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=2), config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        first = await call(gateway, "runs.trace", runId="r1")
        announce = f"{await exchange_id(gateway, 'r1')}::announce"
        last = await call(gateway, "runs.trace", runId=announce)
        with pytest.raises(NotFound):
            await call(gateway, "runs.trace", runId="nobody")

    assert first["asked"]["content"][0]["text"] == "ask"
    assert first["chain"] == []
    assert [run["kind"] for run in first["caused"]] == ["send"]
    roles = [entry["message"]["role"] for entry in first["entries"]]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert first["spent"]["turns"] == 2
    assert [run["kind"] for run in last["chain"]] == ["chat", "send", "round", "round"]
    assert last["chain"][0]["runId"] == "r1"


@pytest.mark.spec("B7")
async def test_a_spawn_is_shown_with_its_child_s_work_and_its_report(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        (listed,) = (await call(gateway, "exchanges.list"))["exchanges"]
        trace = await call(gateway, "exchanges.trace", id=spawn.child_key)
        by_run = await call(gateway, "exchanges.trace", id="r1::c1")
        seen = await call(gateway, "map.get", sinceMs=0)

    assert (listed["kind"], listed["requester"], listed["target"]) == (
        "spawn",
        MAIN.text,
        spawn.child_key,
    )
    assert by_run == trace
    assert [step["run"]["kind"] for step in trace["steps"]] == ["spawn", "announce"]
    assert trace["steps"][0]["reply"] == "forty-two"
    assert trace["spawn"]["announcedAt"]
    (child,) = [node for node in seen["nodes"] if node["key"] == spawn.child_key]
    assert child["spawnedBy"] == MAIN.text
    (begun,) = [run for run in seen["runs"] if run["kind"] == "spawn"]
    assert (begun["source"], begun["key"]) == (MAIN.text, spawn.child_key)


@pytest.mark.spec("B7", "V3")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("map.get", {}),
        ("exchanges.list", {}),
        ("exchanges.list", {"ids": ["r1"]}),
        ("sessions.entries", {"key": "main", "exchanges": True}),
        ("exchanges.trace", {"id": "r1"}),
        ("runs.trace", {"runId": "r1"}),
    ],
)
async def test_the_whole_gateway_is_shown_to_people_only(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    agent = session_principal(MAIN, Authority())
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await say(gateway, "main", "hello", "r1")
        with pytest.raises(Forbidden, match="only a person's client"):
            await call(gateway, method, agent, **params)


async def test_one_session_is_found_by_its_key_archived_or_not(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        for name in ("desk", "desk-2"):
            await call(gateway, "sessions.create", key=name)
        await call(gateway, "sessions.archive", key="desk")
        away = await call(gateway, "sessions.table", key="agent:main:desk")
        here = await call(gateway, "sessions.table", key="agent:main:desk-2")
        none = await call(gateway, "sessions.table", key="agent:main:desk-3")

    (row,) = away["rows"]
    assert row["archivedAt"] >= row["createdAt"]
    assert [("archivedAt" in row, row["key"]) for row in here["rows"]] == [
        (False, "agent:main:desk-2")
    ]
    assert none["rows"] == []


@pytest.mark.spec("B7", "G5")
async def test_a_guest_that_asks_is_on_the_map_as_whoever_asked(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=with_guests()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.call("sessions_send", sessionKey=LIBRARIAN.text, message="say: yes")
        await bob.call("sessions_spawn", task="say: done")
        seen = await call(gateway, "map.get", sinceMs=0)

    sources = {
        run["kind"]: run["source"] for run in seen["runs"] if run["kind"] in ("send", "spawn")
    }
    assert sources == {"send": "agent:main:mcp:bob", "spawn": "agent:main:mcp:bob"}
