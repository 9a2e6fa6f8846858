"""Which models may be chosen: the allow list, the providers' own lists, and what the config names."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.events import CallRepeated
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.principal import person_principal
from crossclaw.ledger.operations import PatchSession
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.spawning import children, family
from tests.flows.talking import OWNER, call, say
from tests.flows.test_spawns import spawn_result

HOOK = person_principal("hook", {"hook"})
REFUSED = "model not allowed: scripted/dear"
ANYTIME = {"kind": "every", "everyMs": 60_000}


def config_with(raw: dict[str, Any] | None = None, **defaults: Any) -> Config:
    """`scripted/test`, the primary model of every test, is named by the config and so allowed."""
    given = {"models": {"scripted/cheap": {"alias": "small"}}, **defaults}
    whole = {"agents": {"defaults": given, "list": [{"id": "main"}, {"id": "helper"}]}}
    return msgspec.convert({**whole, **(raw or {})}, Config, dec_hook=lambda kind, v: kind(v))


def talker() -> ScriptedProvider:
    return ScriptedProvider(lambda _request: "ok")


async def models_of(gateway: Gateway) -> set[str]:
    listed = (await call(gateway, "models.list"))["models"]
    return {f"{each['provider']}/{each['id']}" for each in listed}


@pytest.mark.spec("P1")
async def test_a_spawn_with_a_model_off_the_allow_list_is_forbidden_and_nothing_starts(
    tmp_path: Path,
) -> None:
    model = family(arguments={"model": "scripted/dear"})
    async with open_gateway(tmp_path, model, config=config_with()) as gateway:
        await say(gateway, "main", "go", "r1")
        refusal = await spawn_result(gateway)

        assert REFUSED in str(refusal)
        assert "scripted/cheap" in str(refusal)
        assert "scripted/test" in str(refusal)
        assert await children(gateway) == []
        assert len(await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)) == 1


@pytest.mark.spec("P1", "G2")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sessions.patch", {"key": "main", "model": "scripted/dear"}),
        ("sessions.create", {"key": "agent:main:x", "model": "scripted/dear"}),
        ("sessions.spawn", {"task": "x", "model": "scripted/dear"}),
        ("agent", {"message": "x", "idempotencyKey": "a1", "model": "scripted/dear"}),
        (
            "cron.add",
            {
                "name": "j",
                "schedule": ANYTIME,
                "payload": {"kind": "agentTurn", "message": "x", "model": "scripted/dear"},
            },
        ),
        ("hooks.agent", {"message": "x", "model": "scripted/dear"}),
        ("tool.session_status", {"model": "scripted/dear"}),
    ],
)
async def test_every_door_refuses_a_model_off_the_allow_list_and_says_what_is_on_it(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    async with open_gateway(tmp_path, talker(), config=config_with()) as gateway:
        await say(gateway, "main", "hello", "r1")
        with pytest.raises(Forbidden, match=rf"{REFUSED}; .*scripted/cheap, scripted/test"):
            await call(gateway, method, HOOK if method == "hooks.agent" else OWNER, **params)

        assert [row["key"] for row in (await call(gateway, "sessions.list"))["sessions"]] == [
            "agent:main:main"
        ]
        assert (await call(gateway, "cron.list"))["jobs"] == []


@pytest.mark.spec("P1")
async def test_a_job_cannot_be_changed_to_a_model_off_the_allow_list(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talker(), config=config_with()) as gateway:
        turn = {"kind": "agentTurn", "message": "x", "model": "small"}
        job = await call(gateway, "cron.add", name="j", schedule=ANYTIME, payload=turn)
        dear = {"payload": {"kind": "agentTurn", "model": "scripted/dear"}}
        with pytest.raises(Forbidden, match=REFUSED):
            await call(gateway, "cron.update", id=job["id"], patch=dear)

    assert job["payload"]["model"] == "scripted/cheap"


@pytest.mark.spec("P1", "G2")
async def test_the_command_model_refuses_what_is_not_allowed_and_lists_what_is(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, talker(), config=config_with()) as gateway:
        await say(gateway, "main", "hello", "r0")
        refused = await say(gateway, "main", "/model scripted/dear", "r1")
        taken = await say(gateway, "main", "/model small", "r2")
        asked = await say(gateway, "main", "/model", "r3")

    assert REFUSED in (refused.reply or "")
    assert "scripted/cheap" in (taken.reply or "")
    assert "scripted/test, scripted/cheap" in (asked.reply or "")
    assert "dear" not in (asked.reply or "")


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    "named",
    [
        {"model": {"primary": "scripted/test", "fallbacks": ["scripted/dear"]}},
        {"subagents": {"model": "scripted/dear"}},
        {"heartbeat": {"model": "scripted/dear"}},
        {"imageModel": {"primary": "scripted/dear"}},
        {"compaction": {"model": "scripted/dear"}},
        {"models": {"scripted/*": {}}},
        {"models": {}},
    ],
)
async def test_what_the_config_itself_names_is_always_allowed(
    tmp_path: Path, named: dict[str, Any]
) -> None:
    given = {"models": {"scripted/cheap": {}}, **named}
    agents = [{"id": "main", "model": given.pop("model", None)}, {"id": "helper"}]
    raw = {"agents": {"defaults": given, "list": agents}}
    async with open_gateway(tmp_path, talker(), config=config_with(raw)) as gateway:
        patched = await call(gateway, "sessions.patch", key="main", model="scripted/dear")

    assert patched["resolved"] == {"modelProvider": "scripted", "model": "dear"}


@pytest.mark.spec("P1")
async def test_the_models_of_agents_are_allowed_to_all(tmp_path: Path) -> None:
    agents = [{"id": "main"}, {"id": "helper", "model": "scripted/dear"}]
    raw = {"agents": {"defaults": {"models": {"scripted/cheap": {}}}, "list": agents}}
    async with open_gateway(tmp_path, talker(), config=config_with(raw)) as gateway:
        await call(gateway, "sessions.patch", key="main", model="scripted/dear")

        assert await models_of(gateway) == {"scripted/test", "scripted/cheap", "scripted/dear"}


@pytest.mark.spec("P1")
async def test_a_provider_that_lists_its_models_has_no_others(tmp_path: Path) -> None:
    own = {"baseUrl": "http://127.0.0.1:1/v1"}
    providers = {"ollama": {**own, "models": [{"id": "qwen3"}]}, "router": own}
    raw = {"models": {"providers": providers}}
    async with open_gateway(tmp_path, talker(), config=config_with(raw, models={})) as gateway:
        with pytest.raises(Forbidden, match=r"model not allowed: ollama/new-one; .*ollama/qwen3"):
            await call(gateway, "sessions.patch", key="main", model="ollama/new-one")
        await call(gateway, "sessions.patch", key="main", model="ollama/qwen3")
        await call(gateway, "sessions.patch", key="main", model="router/any/thing")


@pytest.mark.spec("P1", "G2")
async def test_the_page_is_offered_only_what_may_be_chosen(tmp_path: Path) -> None:
    listed = {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": "cheap"}, {"id": "dear"}]}
    raw = {"models": {"providers": {"ollama": listed}}}
    config = config_with(raw, models={"ollama/cheap": {}})
    async with open_gateway(tmp_path, talker(), config=config) as gateway:
        assert await models_of(gateway) == {"scripted/test", "ollama/cheap"}


@pytest.mark.spec("P1")
async def test_a_stored_choice_that_is_no_longer_allowed_gives_way_to_the_default_and_says_so(
    tmp_path: Path,
) -> None:
    model = talker()
    heard: list[Any] = []
    async with open_gateway(tmp_path, model, config=config_with()) as gateway:
        await say(gateway, "main", "hello", "r1")
        key = SessionKey.main("main")
        await gateway.ledger.do(PatchSession(key=key, changes={"model": "scripted/dear"}, at=1))
        gateway.feed.subscribe(heard.append, CallRepeated)
        await say(gateway, "main", "again", "r2")
        status = (await call(gateway, "tool.session_status"))["statusText"]
        rows = (await call(gateway, "sessions.list"))["sessions"]
        (listed,) = (await call(gateway, "tool.sessions_list"))["sessions"]

    assert [request.model for request in model.seen] == ["test", "test"]
    assert [(event.model, REFUSED in event.reason) for event in heard] == [("test", True)]
    assert "Model: scripted/test\nNot in use: model not allowed: scripted/dear" in status
    assert rows[0]["model"] == "test"
    assert listed["model"] == "scripted/test"


@pytest.mark.spec("P1")
async def test_a_job_that_was_stored_with_a_model_now_off_the_list_runs_with_the_default(
    tmp_path: Path,
) -> None:
    turn = {"kind": "agentTurn", "message": "x", "model": "scripted/dear"}
    async with open_gateway(tmp_path, talker(), config=config_with(models={})) as gateway:
        job = await call(gateway, "cron.add", name="j", schedule=ANYTIME, payload=turn)
    model = talker()
    async with open_gateway(tmp_path, model, config=config_with()) as gateway:
        ran = await call(gateway, "cron.run", id=job["id"])
        await gateway.run_store.wait(ran["runId"], timeout_s=3600)

    assert model.seen[0].model == "test"


@pytest.mark.spec("P1")
async def test_an_alias_works_wherever_the_config_names_a_model(tmp_path: Path) -> None:
    model = talker()
    raw = {"models": {"scripted/cheap": {"alias": "small"}}}
    agents = [{"id": "main", "model": "small"}]
    config = msgspec.convert({"agents": {"defaults": raw, "list": agents}}, Config)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await say(gateway, "main", "hello", "r1")

    assert model.seen[0].model == "cheap"
