"""What OpenClaw's clients ask beside talking."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import Invalid
from crossclaw.domain.models import ListedModel
from crossclaw.gateway.methods.clients import TailParams, read_tail
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents


@pytest.mark.spec("G2", "G4")
async def test_a_send_by_key_begins_a_run_and_one_by_session_key_waits(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        begun = await call(
            gateway, "sessions.send", key="agent:main:x", message="say: hi", idempotencyKey="k1"
        )
        run = await gateway.run_store.wait("k1", timeout_s=60)
        waited = await call(gateway, "sessions.send", sessionKey="agent:main:x", message="say: ho")
        with pytest.raises(Invalid, match="not several"):
            await call(gateway, "sessions.send", key="main", label="x", message="hi")

    assert begun == {"runId": "k1", "status": "started"}
    assert run is not None
    assert run.reply == "hi"
    assert (waited["status"], waited["reply"]) == ("ok", "ho")


@pytest.mark.spec("G2")
async def test_a_session_is_stopped_by_its_key(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "sessions.send", key="main", message="wait: 60", idempotencyKey="k1")
        stopped = await call(gateway, "sessions.abort", key="main", runId="k1")

    assert stopped == {"ok": True, "status": "aborted", "abortedRunId": "k1", "runIds": ["k1"]}


@pytest.mark.spec("G2", "G4")
async def test_commands_and_names_are_told(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        commands = await call(gateway, "commands.list", agentId="main", scope="text")
        by_key = await call(gateway, "agent.identity.get", sessionKey="agent:librarian:main")
        default = await call(gateway, "agent.identity.get")
        with pytest.raises(Exception, match="nobody"):
            await call(gateway, "agent.identity.get", agentId="nobody")
        await call(gateway, "chat.send", sessionKey="main", message="wait: 60", idempotencyKey="k1")
        stop = next(each for each in commands["commands"] if each["name"] == "stop")
        alias = stop["textAliases"][0]
        await call(gateway, "chat.send", sessionKey="main", message=alias, idempotencyKey="k2")
        run = await gateway.run_store.wait("k1", timeout_s=1)
        await say(gateway, "main", "say: still here", "k3")

    assert by_key["agentId"] == "librarian"
    assert default["agentId"] == "main"
    assert run is not None
    assert run.status == "aborted"


@pytest.mark.spec("G2")
async def test_the_log_is_told_where_there_is_one(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        empty = await call(gateway, "logs.tail")
        log = tmp_path / "state" / "logs" / "gateway.log"
        log.parent.mkdir()
        log.write_text("one\ntwo\nthr", "utf-8")
        some = await call(gateway, "logs.tail")
        log.write_text("one\ntwo\nthree\n", "utf-8")
        more = await call(gateway, "logs.tail", cursor=some["cursor"])

    assert empty["lines"] == []
    assert some["lines"] == ["one", "two"]
    assert more["lines"] == ["three"]
    assert more["cursor"] == more["size"] == 14


def test_a_long_log_is_cut_at_whole_lines_and_a_new_one_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(100)))

    few = read_tail(log, TailParams(limit=2))
    small = read_tail(log, TailParams(max_bytes=20))
    log.write_bytes(b"new\n")
    reset = read_tail(log, TailParams(cursor=few.cursor))

    assert (few.lines, few.truncated) == (["line 98", "line 99"], True)
    assert (small.lines, small.truncated) == (["line 98", "line 99"], True)
    assert (reset.lines, reset.reset) == (["new"], True)


@pytest.mark.spec("G2", "C2")
async def test_a_history_tells_how_much_is_older_and_reads_on_from_there(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        for number in range(5):
            await say(gateway, "main", f"say: {number}", f"k{number}")
        pages: list[list[str]] = []
        before: int | None = None
        while before != 1:
            more: dict[str, Any] = {} if before is None else {"before": before}
            page = await call(gateway, "chat.history", sessionKey="main", **{"limit": 4, **more})
            pages.append([message["content"][0]["text"] for message in page["messages"]])
            before = page.get("older", 0) + 1
        whole = await call(gateway, "chat.history", sessionKey="main")

    assert [text for page in reversed(pages) for text in page] == [
        text for number in range(5) for text in (f"say: {number}", str(number))
    ]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert "older" not in whole


@pytest.mark.spec("G2")
@pytest.mark.parametrize("method", ["sessions.patch", "sessions.create"])
async def test_a_model_that_nobody_answers_with_is_refused_and_others_by_any_name(
    tmp_path: Path, method: str
) -> None:
    own = {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": "qwen3"}, {"id": "both"}]}
    allowed = {"router/deep/seek-3": {"alias": "Deep"}, "router/*": {}, "ollama/*": {}}
    raw = {
        "agents": {"defaults": {"models": allowed}},
        "models": {
            "providers": {
                "ollama": own,
                "second": {**own, "models": [{"id": "both"}]},
                "router": {**own, "models": []},
            }
        },
    }
    config = msgspec.convert(raw, Config, dec_hook=lambda kind, value: kind(value))
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        for wrong in ("nobody/knows", "gpt", "both", "/x", "ollama/"):
            with pytest.raises(Invalid, match=r"invalid model.*ollama.*router"):
                await call(gateway, method, key="agent:main:x", model=wrong)
        assert (await call(gateway, "sessions.list"))["sessions"] == []
        chosen = {
            name: (await call(gateway, method, key="agent:main:x", model=name))["entry"]
            for name in ("ollama/both", "router/a/b:free", "deep", "qwen3")
        }

    assert {name: (row["modelProvider"], row["model"]) for name, row in chosen.items()} == {
        "ollama/both": ("ollama", "both"),
        "router/a/b:free": ("router", "a/b:free"),
        "deep": ("router", "deep/seek-3"),
        "qwen3": ("ollama", "qwen3"),
    }


@pytest.mark.spec("G2", "G4")
async def test_the_models_are_told_with_their_short_names_and_which_one_is_used(
    tmp_path: Path,
) -> None:
    near = {
        "baseUrl": "http://127.0.0.1:1/v1",
        "models": [{"id": "m1", "input": ["text", "image"]}],
    }
    raw = {
        "models": {"providers": {"near": near}},
        "agents": {"defaults": {"models": {"near/m1": {"alias": "Quick"}}}},
    }
    config = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        told = (await call(gateway, "models.list", includeDetails=True, view="default"))["models"]
        some = (await call(gateway, "models.list", provider="near", view="all"))["models"]

    assert [(m["provider"], m.get("tags"), m.get("alias")) for m in told] == [
        ("rehearsal", ["default"], None),
        ("near", None, "quick"),
    ]
    assert [(m["id"], m["input"]) for m in some] == [("m1", ["text", "image"])]


@pytest.mark.spec("G2", "G4")
async def test_the_doctor_of_2026_9_gets_the_status_it_asks_for(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        told = await call(gateway, "status", includeChannelSummary=False)

    assert told["rehearsal"] is True


async def test_lists_tell_the_window_of_a_model_as_its_server_has_told_it_last(
    tmp_path: Path,
) -> None:
    windows = []
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "hi", "r1")
        for window in (4_000, 8_000):
            defaults = (await call(gateway, "sessions.list"))["defaults"]
            model = f"{defaults['modelProvider']}/{defaults['model']}"
            gateway.config.listed[model] = ListedModel(id=defaults["model"], window=window)
            listed = await call(gateway, "sessions.list")
            (row,) = listed["sessions"]
            windows.append((listed["defaults"]["contextTokens"], row["contextTokens"]))

    assert windows == [(4_000, 4_000), (8_000, 8_000)]


# As OpenClaw 2026.9.6 publishes them (protocol 4); both are closed: a strict client refuses anything else.
JOB_FIELDS = {
    "id", "agentId", "sessionKey", "name", "displayName", "description", "enabled", "deleteAfterRun", "createdAtMs", "updatedAtMs",
    "schedule", "sessionTarget", "wakeMode", "payload", "delivery", "state",
}  # fmt: skip
HEALTH_FIELDS = {
    "ok", "ts", "durationMs", "channels", "channelOrder", "channelLabels", "heartbeatSeconds", "defaultAgentId", "agents", "sessions",
}  # fmt: skip


@pytest.mark.spec("G2")
async def test_a_job_and_the_health_have_only_the_fields_that_openclaw_s_clients_know(
    tmp_path: Path,
) -> None:
    job: dict[str, Any] = {
        "name": "now and then",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "payload": {"kind": "agentTurn", "message": "say: ticked"},
    }
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        added = await call(gateway, "cron.add", **job)
        changed = await call(gateway, "cron.update", id=added["id"], patch={"enabled": False})
        (listed,) = (await call(gateway, "cron.list", includeDisabled=True))["jobs"]
        health = await call(gateway, "health")

    assert {*added, *changed, *listed} <= JOB_FIELDS
    assert {*health} <= HEALTH_FIELDS
