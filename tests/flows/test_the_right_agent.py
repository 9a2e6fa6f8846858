"""The agent that a request names, by key or beside it, is the agent that runs; or nothing does."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import person_principal
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import OWNER, call

HOOK = person_principal("hook", {"hook"})


def config() -> Config:
    raw = {
        "agents": {"list": [{"id": "main"}, {"id": "librarian"}]},
        "hooks": {"allowRequestSessionKey": True},
    }
    return msgspec.convert(raw, Config)


async def asked(gateway: Gateway, number: int = 1, **params: Any) -> Any:
    return await call(gateway, "agent", message="say: hi", idempotencyKey=f"k{number}", **params)


async def agent_of(gateway: Gateway, key: str) -> str:
    session = await gateway.ledger.find_session(SessionKey.parse(key))
    assert session is not None
    run = (await gateway.ledger.list_entries(session.session_id, limit=1))[0]
    assert run.run_id is not None
    found = await gateway.run_store.find(run.run_id)
    assert found is not None
    assert found.key.agent_id == session.key.agent_id
    return session.key.agent_id


@pytest.mark.spec("K3", "M10")
@pytest.mark.parametrize(
    "params",
    [
        {"sessionKey": "agent:librarian:cron:x"},
        {"sessionKey": "agent:librarian:hook:y"},
        {"sessionKey": "agent:librarian:node-z"},
        {"sessionKey": "cron:x", "agentId": "librarian"},
        {"sessionKey": "agent:librarian:cron:x", "agentId": "Librarian"},
        {"sessionKey": "main", "agentId": "librarian"},
        {"sessionKey": "notes", "agentId": "librarian"},
    ],
)
async def test_the_agent_that_a_request_names_runs_in_a_session_that_it_makes(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await asked(gateway, **params)
        (row,) = (await call(gateway, "sessions.list"))["sessions"]
        found = await agent_of(gateway, row["key"])
        await gateway.exporter.flush()

    assert found == "librarian"
    assert [path.parent.name for path in (tmp_path / "state").rglob("*.jsonl")] == ["librarian"]


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("agent", {"sessionKey": "agent:main:x", "agentId": "librarian"}),
        ("agent", {"sessionKey": "agent:main:cron:x", "agentId": "librarian"}),
        ("agent", {"sessionKey": "cron:there", "agentId": "main"}),
        ("agent", {"sessionKey": "agent:main:cron:there"}),
        ("chat.send", {"sessionKey": "agent:main:cron:there"}),
        ("sessions.patch", {"key": "agent:main:cron:there", "label": "x"}),
        ("sessions.create", {"key": "agent:main:x", "agentId": "librarian"}),
        ("sessions.send", {"sessionKey": "agent:main:main", "agentId": "librarian"}),
        ("sessions.send", {"sessionKey": "cron:there", "agentId": "main"}),
        ("hooks.agent", {"sessionKey": "agent:main:hook:x", "agentId": "librarian"}),
        ("hooks.agent", {"sessionKey": "agent:main:cron:there"}),
    ],
)
async def test_an_agent_that_contradicts_the_key_is_refused_and_nothing_runs(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    words = {} if method.startswith("sessions.") else {"message": "say: hi"}
    once = {"idempotencyKey": "k2"} if method in ("agent", "chat.send") else {}
    if method == "sessions.send":
        words = {"message": "say: hi"}
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await asked(gateway, sessionKey="agent:librarian:cron:there")
        await asked(gateway, 9, sessionKey="main")
        who = HOOK if method == "hooks.agent" else OWNER
        with pytest.raises(Invalid, match=r"belongs to agent \w+, not to agent \w+"):
            await call(gateway, method, who, **words, **once, **params)
        rows = (await call(gateway, "sessions.list"))["sessions"]

    assert {row["key"] for row in rows} == {"cron:there", "agent:main:main"}


@pytest.mark.spec("K3")
async def test_a_bare_key_finds_its_session_whatever_agent_it_is_of(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await asked(gateway, sessionKey="agent:librarian:cron:x")
        await asked(gateway, 2, sessionKey="cron:x")
        await call(gateway, "hooks.agent", HOOK, message="say: hi", sessionKey="cron:x")
        (row,) = (await call(gateway, "sessions.list"))["sessions"]

    assert row["key"] == "cron:x"


@pytest.mark.spec("K3")
async def test_a_session_id_beside_another_agent_is_refused(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await asked(gateway, sessionKey="agent:librarian:x")
        (row,) = (await call(gateway, "sessions.list"))["sessions"]
        with pytest.raises(Invalid, match="belongs to agent librarian, not to agent main"):
            await asked(gateway, 2, sessionId=row["sessionId"], agentId="main")


@pytest.mark.spec("K3", "V4")
async def test_a_key_that_was_another_agents_has_nothing_of_that_agent(tmp_path: Path) -> None:
    """`hook:mail` does not say whose it is: what was worked out for the one before does not hold for the next."""
    raw = {
        "agents": {
            "list": [{"id": "ana"}, {"id": "ben"}, {"id": "boxed", "sandbox": {"mode": "all"}}]
        },
        "tools": {"sandbox": {"tools": {"deny": ["exec"]}}},
    }
    model = ScriptedProvider(lambda request: "ok")
    async with open_gateway(tmp_path, model, config=msgspec.convert(raw, Config)) as gateway:
        for number, agent in enumerate(("ana", "ben", "boxed")):
            await asked(gateway, number, sessionKey=f"agent:{agent}:hook:mail")
            await call(gateway, "sessions.delete", key="hook:mail")

    assert ["exec" in [each.name for each in request.tools] for request in model.seen] == [
        True,
        True,
        False,
    ]
    assert [each for each in ("ana", "ben") if f"- {each}" in model.seen[1].system] == ["ana"]
