"""One counter of runs for everything that one message brings about; and a number of children at work."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.door.principal import session_principal
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.spawning import children, config_of, family, reported
from tests.flows.talking import call, results_of, say, two_agents


def asking(times: int, wait_s: float = 30, rounds: str = "REPLY_SKIP") -> ScriptedProvider:
    """Main asks the librarian so often, one after the other; nobody goes on with the rounds."""

    def answer(request: ModelRequest) -> list[ToolUse] | str:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        asked = sum(bool(turn.results) for turn in request.turns if isinstance(turn, UserTurn))
        if "You are the agent 'librarian'" in request.system or asked >= times:
            return rounds
        to = {"agentId": "librarian", "message": "where?", "timeoutSeconds": wait_s}
        return [ToolUse(f"c{asked}", "sessions_send", to)]

    return ScriptedProvider(answer)


@pytest.mark.spec("B4")
async def test_a_send_beyond_the_runs_of_its_root_is_refused_and_names_the_limit(
    tmp_path: Path,
) -> None:
    config = two_agents(agentToAgent={"maxRuns": 8})
    async with open_gateway(tmp_path, asking(2, wait_s=0), config=config) as gateway:
        first, second = await results_of(gateway, await say(gateway, "main", "go", "r1"))
        refused = await gateway.run_store.find("r1::c1")

    assert first["status"] == "accepted"
    assert second["status"] == "error"
    assert "limited to 8 runs" in second["error"]
    assert "session.agentToAgent.maxRuns" in second["error"]
    assert refused is None


@pytest.mark.spec("B4")
async def test_what_an_exchange_reserved_and_did_not_use_is_given_back(tmp_path: Path) -> None:
    """A send takes seven at first (itself, five rounds, the announce), and two when nobody goes on."""
    config = two_agents(agentToAgent={"maxRuns": 12})
    async with open_gateway(tmp_path, asking(4), config=config) as gateway:
        answers = await results_of(gateway, await say(gateway, "main", "go", "r1"))

    statuses = [answer["status"] for answer in answers]
    assert statuses[:3] == ["ok", "ok", "ok"]


@pytest.mark.spec("B4")
async def test_a_send_that_is_itself_a_root_must_fit_as_well(tmp_path: Path) -> None:
    config = two_agents(agentToAgent={"maxRuns": 6})
    async with open_gateway(tmp_path, asking(0), config=config) as gateway:
        me = session_principal(SessionKey.main("main"), Authority())
        answer = await call(
            gateway, "tool.sessions_send", me, agentId="librarian", message="hi", timeoutSeconds=0
        )

    assert answer["status"] == "error"
    assert "session.agentToAgent.maxRuns" in answer["error"]


@pytest.mark.spec("B4", "P5")
async def test_the_report_of_an_accepted_child_is_never_refused(tmp_path: Path) -> None:
    """Run, child and announce: exactly three, and the report comes."""
    config = config_of({"session": {"agentToAgent": {"maxRuns": 3}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)

    assert spawn.status == "success"


@pytest.mark.spec("B4", "P5")
async def test_a_parent_that_is_woken_by_the_report_is_reserved_too(tmp_path: Path) -> None:
    defaults = {"subagents": {"wakeParent": True}}
    raw: dict[str, Any] = {
        "session": {"agentToAgent": {"maxRuns": 3}},
        "agents": {"defaults": defaults},
    }
    async with open_gateway(tmp_path, family(), config=config_of(raw)) as gateway:
        (answer,) = await results_of(gateway, await say(gateway, "main", "go", "r1"))
        begun = await children(gateway)

    assert answer["status"] == "error"
    assert begun == []


@pytest.mark.spec("B4")
async def test_a_session_has_so_many_children_at_work_and_no_more(tmp_path: Path) -> None:
    defaults = {"subagents": {"maxChildrenPerAgent": 2}}
    model = family(child_s=100)
    async with open_gateway(
        tmp_path, model, config=config_of({"agents": {"defaults": defaults}})
    ) as gateway:
        answers = [
            (await results_of(gateway, await say(gateway, "main", "go", f"r{n}")))[-1]
            for n in range(3)
        ]
        await reported(gateway)
        after = (await results_of(gateway, await say(gateway, "main", "go", "later")))[-1]

    assert [answer["status"] for answer in answers] == ["accepted", "accepted", "error"]
    assert "agents.defaults.subagents.maxChildrenPerAgent" in answers[-1]["error"]
    assert after["status"] == "accepted"
