"""Who sees whom, in the whole gateway: invisible and unknown are one answer, by every spelling."""

from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import Principal, session_principal
from crossclaw.ledger.operations import EnsureSession
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import OWNER, call, results_of, say
from tests.stores import look_into

MAIN = SessionKey.main("main")
CHILD = SessionKey.subagent("main", "1")
COUSIN = SessionKey.subagent("ops", "2")
BOXED = session_principal(MAIN, Authority(sandboxed=True))
FREE = session_principal(MAIN, Authority())


def config(**tools: Any) -> Config:
    raw = {"agents": {"list": [{"id": "main"}, {"id": "ops"}]}, "tools": tools}
    return msgspec.convert(raw, Config)


def id_of(key: SessionKey) -> str:
    return str(uuid5(NAMESPACE_URL, key.text))


async def settle(gateway: Gateway) -> None:
    """main ── child, ops' main ── cousin, and two sessions that share a label."""
    family = [
        (MAIN, None, None),
        (CHILD, MAIN, "helper"),
        (SessionKey.main("ops"), None, None),
        (COUSIN, SessionKey.main("ops"), "helper"),
        (SessionKey.named("main", "notes"), None, "papers"),
    ]
    for key, parent, label in family:
        new = NewSession(
            key=key, session_id=id_of(key), label=label, spawned_by=parent.text if parent else None
        )
        await gateway.ledger.do(EnsureSession(new=new, at=1))


def archive(folder: Path, key: SessionKey) -> None:
    db = look_into(folder / "state" / "crossclaw.sqlite")
    db.execute("UPDATE sessions SET archived_at = 9 WHERE key = ?", (key.text,))
    db.close()


async def refusal(
    gateway: Gateway, who: Principal, tool: str, **params: Any
) -> tuple[str, str, str]:
    try:
        answer = await call(gateway, f"tool.{tool}", who, **params)
    except CrossclawError as error:
        return type(error).__name__, error.code, str(error)
    raise AssertionError(f"not refused: {answer}")


@pytest.mark.spec("V1", "L7", "L3")
async def test_a_sandboxed_session_lists_what_it_spawned_and_no_paths(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        boxed = await call(gateway, "tool.sessions_list", BOXED)
        free = await call(gateway, "tool.sessions_list", FREE)

    assert [row["key"] for row in boxed["sessions"]] == [CHILD.text]
    assert boxed["count"] == 1
    assert free["count"] == 5
    assert "transcriptPath" not in boxed["sessions"][0]
    assert all("transcriptPath" in row for row in free["sessions"])


@pytest.mark.spec("V1", "V3", "H4", "K6")
@pytest.mark.parametrize("tool", ["sessions_history", "sessions_send"])
async def test_invisible_and_unknown_are_the_same_answer(tmp_path: Path, tool: str) -> None:
    more = {"message": "hi"} if tool == "sessions_send" else {}
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        hidden = ["main", "agent:ops:main", COUSIN.text, "agent:main:notes", id_of(MAIN)]
        nowhere = ["agent:nope:main", "agent:main:subagent:9", "cron:9", str(uuid4())]
        for name in [*hidden, id_of(COUSIN).upper(), *nowhere]:
            answer = await refusal(gateway, BOXED, tool, sessionKey=name, **more)
            assert answer == ("NotFound", "INVALID_REQUEST", f"unknown session: {name}")


@pytest.mark.spec("V1", "V3")
async def test_a_repeated_request_does_not_tell_whether_an_unseen_session_exists(
    tmp_path: Path,
) -> None:
    repeated: dict[str, Any] = {
        "message": "say: hi",
        "earlier": "user: hello",
        "idempotencyKey": "k1",
    }
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        await call(gateway, "agent", sessionKey=COUSIN.text, **repeated)
        for name in (COUSIN.text, "agent:main:subagent:9", id_of(COUSIN), str(uuid4())):
            with pytest.raises(CrossclawError) as refused:
                await call(gateway, "agent", BOXED, sessionKey=name, **repeated)
            assert str(refused.value) == f"unknown session: {name}"


@pytest.mark.spec("V1", "S1")
async def test_a_sandboxed_session_reads_and_sends_to_its_child(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        for name in (CHILD.text, id_of(CHILD), id_of(CHILD).upper()):
            sent = await call(
                gateway, "tool.sessions_send", BOXED, sessionKey=name, message="say: yes"
            )
            assert (sent["status"], sent["reply"]) == ("ok", "yes")
        run = await gateway.run_store.find(sent["runId"])
        history = await call(gateway, "tool.sessions_history", BOXED, sessionKey=CHILD.text)

    assert history["messages"][0]["content"] == "say: yes"
    assert run is not None
    assert run.authority.sandboxed  # what it causes is locked in as well


@pytest.mark.spec("V3")
async def test_a_sandboxed_session_cannot_begin_or_guess_agents(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await gateway.ledger.do(EnsureSession(new=NewSession(key=MAIN, session_id="m"), at=1))
        there = await refusal(gateway, BOXED, "sessions_send", agentId="ops", message="x")
        not_there = await refusal(gateway, BOXED, "sessions_send", agentId="opz", message="x")
        listed = await call(gateway, "sessions.list")

    assert there[2] == "unknown session: agent:ops:main"
    assert not_there[2] == "unknown session: agent:opz:main"
    assert listed["count"] == 1


@pytest.mark.spec("V3", "K6")
async def test_a_label_is_ambiguous_only_among_what_is_seen(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        both = await refusal(gateway, FREE, "sessions_send", label="helper", message="x")
        mine = await call(
            gateway,
            "tool.sessions_send",
            BOXED,
            label="helper",
            message="say: me",
            timeoutSeconds=9,
        )
        hidden = await refusal(gateway, BOXED, "sessions_send", label="papers", message="x")
        nowhere = await refusal(gateway, BOXED, "sessions_send", label="nothing", message="x")

    assert CHILD.text in both[2]
    assert COUSIN.text in both[2]
    assert mine["sessionKey"] == CHILD.text
    assert hidden[2].replace("papers", "nothing") == nowhere[2]


@pytest.mark.spec("S8", "V3")
async def test_what_the_spelling_alone_tells_is_forbidden_to_sandboxed_ones_too(
    tmp_path: Path,
) -> None:
    rules = config(agentToAgent={"enabled": False})
    async with open_gateway(tmp_path, RehearsalProvider(), config=rules) as gateway:
        await settle(gateway)
        for who in (BOXED, FREE):
            there = await refusal(gateway, who, "sessions_history", sessionKey="agent:ops:main")
            nowhere = await refusal(gateway, who, "sessions_history", sessionKey="agent:ops:none")
            by_id = await refusal(
                gateway, who, "sessions_history", sessionKey=id_of(SessionKey.main("ops"))
            )
            by_label = await refusal(
                gateway, who, "sessions_send", label="helper", agentId="ops", message="x"
            )
            assert there == nowhere
            assert (there[0], by_label[0]) == ("Forbidden", "Forbidden")
            assert "tools.agentToAgent.enabled" in there[2]
            assert by_id[0] == "NotFound"


@pytest.mark.spec("V2")
@pytest.mark.parametrize(
    ("visibility", "count"), [("self", 1), ("tree", 2), ("agent", 3), ("all", 5)]
)
async def test_the_visibility_setting_bounds_the_list(
    tmp_path: Path, visibility: str, count: int
) -> None:
    rules = config(sessions={"visibility": visibility})
    async with open_gateway(tmp_path, RehearsalProvider(), config=rules) as gateway:
        await settle(gateway)
        listed = await call(gateway, "tool.sessions_list", FREE)
        short = await call(gateway, "tool.sessions_list", FREE, limit=1, messageLimit=1)
        own = await call(gateway, "tool.sessions_history", FREE, sessionKey="main")

    assert listed["count"] == len(listed["sessions"]) == count
    assert short["count"] == 1
    assert own["sessionKey"] == "main"


@pytest.mark.spec("P7")
async def test_an_archived_session_is_read_but_not_listed_nor_sent_to(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        archive(tmp_path, CHILD)
        listed = await call(gateway, "tool.sessions_list", BOXED)
        read = await call(gateway, "tool.sessions_history", BOXED, sessionKey=CHILD.text)
        by_id = await call(gateway, "tool.sessions_history", FREE, sessionKey=id_of(CHILD))
        for who in (BOXED, FREE, OWNER):
            sent = await refusal(gateway, who, "sessions_send", sessionKey=CHILD.text, message="x")
            assert sent[2] == f"unknown session: {CHILD}"
            by_its_id = {"sessionKey": id_of(CHILD), "message": "x"}
            again = await refusal(gateway, who, "sessions_send", **by_its_id)
            assert again[2] == f"unknown session: {id_of(CHILD)}"  # and not which one that was
        labelled = await refusal(gateway, BOXED, "sessions_send", label="helper", message="x")
        with pytest.raises(CrossclawError, match="archived"):
            await call(
                gateway, "chat.send", sessionKey=CHILD.text, message="x", idempotencyKey="archived"
            )

    assert listed == {"count": 0, "sessions": []}
    assert read["sessionKey"] == by_id["sessionKey"] == CHILD.text
    assert labelled[2] == "unknown session: helper"


@pytest.mark.spec("V1", "B3")
async def test_a_run_that_a_sandboxed_principal_began_sees_as_a_sandboxed_one(
    tmp_path: Path,
) -> None:
    limited = Principal(
        name="boxed", role="operator", scopes=frozenset({"operator.write"}), sight="everything",
        authority=Authority(sandboxed=True),
    )  # fmt: skip
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        asked = {
            "sessionKey": "main",
            "message": "tool: sessions_list {}",
            "idempotencyKey": "r1",
        }
        await call(gateway, "chat.send", limited, **asked)
        run = await gateway.run_store.wait("r1", timeout_s=600)
        assert run is not None
        (result,) = await results_of(gateway, run)

    assert [row["key"] for row in result["sessions"]] == [CHILD.text]


@pytest.mark.spec("V1", "B3")
async def test_a_session_that_the_config_locks_in_sees_so_and_locks_in_what_it_causes(
    tmp_path: Path,
) -> None:
    """Whether a sandbox for its other tools is there is another question, asked when a gateway opens."""
    raw = {"agents": {"defaults": {"sandbox": {"mode": "all"}}, "list": [{"id": "main"}]}}
    asked = (
        "tool: sessions_list {}\n"
        f'tool: sessions_send {{"sessionKey": "{CHILD}", "message": "say: x", "timeoutSeconds": 0}}'
    )
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=msgspec.convert(raw, Config)
    ) as gateway:
        await settle(gateway)
        run = await say(gateway, "main", asked, "r1")
        results = await results_of(gateway, run)
        listed = next(result for result in results if "sessions" in result)
        sent = next(result for result in results if "runId" in result)
        caused = await gateway.run_store.find(sent["runId"])

    assert [row["key"] for row in listed["sessions"]] == [CHILD.text]
    assert caused is not None
    assert caused.authority.sandboxed


@pytest.mark.spec("S9", "V3")
async def test_a_circle_does_not_name_sessions_that_the_caller_cannot_see(tmp_path: Path) -> None:
    limited = Principal(
        name="boxed", role="operator", scopes=frozenset({"operator.write"}), sight="everything",
        authority=Authority(sandboxed=True),
    )  # fmt: skip

    def send(to: str) -> str:
        return f'tool: sessions_send {{"sessionKey": "{to}", "message": "say: x"}}'

    given_back = config(subagents={"tools": {"alsoAllow": ["sessions_send"]}})
    async with open_gateway(tmp_path, RehearsalProvider(), config=given_back) as gateway:
        await settle(gateway)
        begin: list[tuple[Principal, str, str]] = [
            (limited, "main", f"wait: 20\n{send(CHILD.text)}"),
            (OWNER, "agent:main:notes", send("main")),
            (OWNER, CHILD.text, send("agent:main:notes")),
        ]
        for number, (who, key, text) in enumerate(begin):
            params = {"sessionKey": key, "message": text, "idempotencyKey": f"r{number}"}
            await call(gateway, "chat.send", who, **params)
        run = await gateway.run_store.wait("r0", timeout_s=600)
        assert run is not None
        (result,) = await results_of(gateway, run)

    assert result["status"] == "timeout"
    assert "another session" in result["error"]
    assert "notes" not in result["error"]
    assert CHILD.text in result["error"]


async def test_a_person_sees_everything_whatever_the_settings(tmp_path: Path) -> None:
    rules = config(sessions={"visibility": "self"}, agentToAgent={"enabled": False})
    async with open_gateway(tmp_path, RehearsalProvider(), config=rules) as gateway:
        await settle(gateway)
        listed = await call(gateway, "sessions.list")
        run = await say(gateway, COUSIN.text, "say: hi", "r1")

    assert listed["count"] == 5
    assert run.reply == "hi"


@pytest.mark.spec("V1", "V3", "K6")
@pytest.mark.parametrize("spelled", [None, "main", " main ", MAIN.text, id_of(MAIN)])
async def test_a_sandboxed_session_knows_how_it_stands_itself(
    tmp_path: Path, spelled: str | None
) -> None:
    asked = {} if spelled is None else {"sessionKey": spelled}
    narrow = session_principal(MAIN, Authority(sandboxed=True, roots=frozenset({CHILD.text})))
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        for who in (BOXED, narrow):
            told = await call(gateway, "tool.session_status", who, **asked)

            assert told["sessionKey"] == "main"
            assert "State: idle" in told["statusText"]


@pytest.mark.spec("V1", "V3")
async def test_knowing_itself_shows_a_sandboxed_session_nobody_else(tmp_path: Path) -> None:
    notes = SessionKey.named("main", "notes")
    boxed = session_principal(notes, Authority(sandboxed=True))
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        hidden = ["main", MAIN.text, id_of(MAIN), CHILD.text]
        nowhere = ["agent:main:nothing", str(uuid4())]
        told = {
            spelled: await refusal(gateway, boxed, "session_status", sessionKey=spelled)
            for spelled in [*hidden, *nowhere]
        }

    assert {(kind, code) for kind, code, _ in told.values()} == {("NotFound", "INVALID_REQUEST")}
    assert {text.replace(spelled, "…") for spelled, (_, _, text) in told.items()} == {
        "unknown session: …"
    }


@pytest.mark.spec("V1", "V3")
async def test_former_transcripts_are_told_to_whoever_sees_the_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        ops = SessionKey.main("ops")
        for name in (ops.text, id_of(ops), COUSIN.text, "agent:main:nobody", str(uuid4())):
            with pytest.raises(CrossclawError, match="^unknown session: " + name):
                await call(gateway, "sessions.transcripts", BOXED, key=name)
        (own,) = (await call(gateway, "sessions.transcripts", BOXED, key=CHILD.text))["transcripts"]
        assert own["sessionId"] == id_of(CHILD)
        assert (await call(gateway, "sessions.transcripts", FREE, key=ops.text))["transcripts"]
