"""Run ids of what follows (rounds, announces, a tool's sends) lie where no client can write."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import Invalid
from crossclaw.domain.ids import call_follower_id, follower_id
from crossclaw.domain.messages import ToolUse
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.spawning import config_of, family, reported
from tests.flows.talking import call, say

METHODS: dict[str, dict[str, Any]] = {
    "chat.send": {"sessionKey": "main", "message": "mine"},
    "agent": {"sessionKey": "main", "message": "mine"},
    "sessions.send": {"key": "main", "message": "mine"},
    "sessions.spawn": {"sessionKey": "main", "task": "mine"},
}


@pytest.mark.spec("B1")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["announce", "round-1", "wake", "c1"])
async def test_a_client_cannot_take_the_run_id_of_what_follows(
    tmp_path: Path, method: str, name: str
) -> None:
    taken = follower_id("r1", name)
    async with open_gateway(tmp_path, family(), config=config_of()) as gateway:
        with pytest.raises(Invalid, match="idempotency key must not contain"):
            await call(gateway, method, **METHODS[method], idempotencyKey=taken)

        assert await gateway.run_store.find(taken) is None


@pytest.mark.spec("B1", "P5")
async def test_the_report_comes_whatever_ids_a_client_has_used_before(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(), config=config_of()) as gateway:
        for used in ("r1:c1:announce", "r1:c1", "r1:announce", "r1:c1:wake"):
            await say(gateway, "agent:main:other", "hello", used)
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)

    assert spawn.status == "success"


@pytest.mark.spec("S1", "S7")
@pytest.mark.parametrize("call_id", ["announce", "round-1", "wake", "a:b", "call-x", "é" * 900])
async def test_a_model_that_names_its_calls_like_followers_takes_nobodys_place(
    tmp_path: Path, call_id: str
) -> None:
    """Main asks the librarian, who asks somebody else under a name that its own announce or round has."""

    def answer(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        if last.results or len(request.turns) > 1:
            return "words"
        main = "You are the agent 'main'" in request.system
        asked = {"agentId": "librarian" if main else "third", "message": "?", "timeoutSeconds": 0}
        third = "You are the agent 'third'" in request.system
        return "words" if third else [ToolUse("c1" if main else call_id, "sessions_send", asked)]

    agents = {"list": [{"id": "main"}, {"id": "librarian"}, {"id": "third"}]}
    config = msgspec.convert({"agents": agents}, Config)
    async with open_gateway(tmp_path, ScriptedProvider(answer), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        await anyio.sleep(600)
        outer = await gateway.ledger.find_exchange("r1::c1")
        inner = await gateway.ledger.find_exchange(call_follower_id("r1::c1", call_id))

    assert outer is not None
    assert inner is not None
    assert (outer.turn, outer.state, outer.announce) == (5, "over", "no address")
    assert (inner.turn, inner.state, inner.announce) == (5, "over", "no address")


def test_two_calls_never_begin_the_same_run() -> None:
    calls = [
        ("r", "a:b"),
        ("r", "a::b"),
        ("r::a", "b"),
        ("r:", "a"),
        ("r", ":a"),
        ("r", "announce"),
    ]
    ids = {call_follower_id(run_id, call_id) for run_id, call_id in calls}

    assert len({*ids, follower_id("r", "announce")}) == len(calls) + 1
