"""An agent's id names its main session wherever a session is named."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, InvalidKey
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import session_principal
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents

MAIN = SessionKey.main("main")
AGENT = session_principal(MAIN, Authority(hops_left=9))


@pytest.mark.spec("M10", "K6")
async def test_a_person_means_an_agents_main_session_by_its_id(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "librarian", "say: hi", "r1")
        await say(gateway, "Librarian", "say: again", "r2")
        await say(gateway, "notes", "say: a new name", "r3")
        keys = {row["key"] for row in (await call(gateway, "sessions.list"))["sessions"]}

    assert keys == {"agent:librarian:main", "agent:main:notes"}


@pytest.mark.spec("M10", "C1")
async def test_a_session_of_that_name_goes_before_the_agent(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "agent:main:librarian", "say: about books", "r1")
        await say(gateway, "librarian", "say: more", "r2")
        keys = {row["key"] for row in (await call(gateway, "sessions.list"))["sessions"]}

    assert keys == {"agent:main:librarian"}


@pytest.mark.spec("M10", "S1")
async def test_an_agents_tools_take_the_id_of_another_as_its_main_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        sent = await call(
            gateway, "tool.sessions_send", AGENT, sessionKey="librarian", message="say: yes"
        )
        read = await call(gateway, "tool.sessions_history", AGENT, sessionKey="librarian")
        with pytest.raises(InvalidKey):
            await call(gateway, "tool.sessions_history", AGENT, sessionKey="nobody")
        with pytest.raises(InvalidKey):
            await call(gateway, "tool.sessions_history", AGENT, sessionKey="MAIN")

    assert (sent["status"], sent["reply"]) == ("ok", "yes")
    assert sent["sessionKey"] == read["sessionKey"] == "agent:librarian:main"


@pytest.mark.spec("M10", "S8")
async def test_an_agent_that_may_not_be_reached_is_forbidden_by_its_id_too(tmp_path: Path) -> None:
    raw: dict[str, Any] = {
        "agents": {"list": [{"id": "main"}, {"id": "librarian"}]},
        "tools": {"agentToAgent": {"enabled": False}},
    }
    config = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        for tool in ("sessions_history", "session_status"):
            with pytest.raises(Forbidden, match=r"tools\.agentToAgent\.enabled"):
                await call(gateway, f"tool.{tool}", AGENT, sessionKey="librarian")


@pytest.mark.spec("M10", "P3")
async def test_agents_list_names_the_main_session_of_whom_can_be_sent_to(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        before = (await call(gateway, "tool.agents_list", AGENT))["agents"]
        await say(gateway, "librarian", "say: hi", "r2")
        after = (await call(gateway, "tool.agents_list", AGENT))["agents"]
        boxed = session_principal(MAIN, Authority(sandboxed=True))
        hidden = (await call(gateway, "tool.agents_list", boxed))["agents"]

    assert [(row["id"], row["sessionKey"], row["exists"]) for row in before] == [
        ("main", "main", True),
        ("librarian", "agent:librarian:main", False),
    ]
    assert after[1]["exists"] is True
    assert [row["id"] for row in hidden] == ["main"]
