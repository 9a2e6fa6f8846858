"""Cascades, all of a size: agents that send to each other and spawn in every run they get. Whatever
they are told to do, there are exactly as many runs as the hops allow, and then it is quiet."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.session import AgentToAgentConfig
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller
from crossclaw.ledger.operations import EnsureSession
from crossclaw.policy.hops import one_hop_less
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, VirtualLoop, instructions_of, open_gateway
from tests.flows.talking import call, results_of
from tests.proof.size import share
from tests.quiet import RunsHeard

RUNS_MAX = 200  # a case with more is left out: it proves nothing more


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


class Mesh(NamedTuple):
    """Agent number i does `deeds[i]` in every run: names of those it sends to, `+` is a spawn."""

    deeds: tuple[str, ...]
    hops: int
    turns: int
    waits: bool
    armed: bool
    """Whether sub-agents get `sessions_send` back."""


NAMES = "abc"


def meshes() -> list[Mesh]:
    two = product(("", "b", "+", "b+"), ("", "a", "a+"))
    three = product(("b", "bc", "c+"), ("c", "a"), ("a", "ab", ""))
    worlds: list[tuple[str, ...]] = [*two, *three]
    settings = product(worlds, (1, 2, 3, 4), (0, 1, 2), (False, True), (False, True))
    found = [Mesh(*each) for each in settings]
    return [mesh for mesh in found if count(mesh) <= RUNS_MAX]


class Leg(NamedTuple):
    requester: int
    target: int


def count(mesh: Mesh) -> int:
    """The specification's own number of runs, the first one included."""

    @cache
    def runs_of(agent: int, left: int, child: bool, free: bool) -> int:
        """A run and everything that it causes. `free`: no sub-agent is among its causes, so that it
        may still spawn: authority only shrinks, also on the way through others."""
        total = 1
        if left <= 0:
            return total
        for deed in mesh.deeds[agent]:
            if deed == "+" and free:
                total += 2 * runs_of(agent, left - 1, True, False)  # the task and its announce
            elif deed != "+" and (mesh.armed or not child):
                total += rounds(Leg(agent, NAMES.index(deed)), left - 1, child, free)
        return total

    def rounds(leg: Leg, left: int, child: bool, free: bool) -> int:
        """The send, its turns in turn, and the announce: all of them with the send's hops."""
        asked, asking = (
            runs_of(leg.target, left, False, free),
            runs_of(leg.requester, left, child, free),
        )
        spoken = [asking if turn % 2 else asked for turn in range(mesh.turns + 1)]
        return sum(spoken) + asked

    return runs_of(0, mesh.hops, False, True)


class Players(ScriptedProvider):
    def __init__(self, mesh: Mesh) -> None:
        super().__init__(self._act)
        self._mesh = mesh
        self._calls = 0
        self._calls_max = 3 * count(mesh) + 10  # enough to be caught; a wrong rule would never end

    def _act(self, request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        if last.results or self._calls > self._calls_max:
            return "done"
        me = re.search(r"You are the agent '(\w)'", request.system)
        assert me
        has = {tool.name for tool in request.tools}
        deeds = [self._deed(deed) for deed in self._mesh.deeds[NAMES.index(me[1])]]
        return [deed for deed in deeds if deed.name in has] or "done"

    def _deed(self, deed: str) -> ToolUse:
        self._calls += 1
        if deed == "+":
            return ToolUse(f"c{self._calls}", "sessions_spawn", {"task": "work"})
        wait = 300 if self._mesh.waits else 0
        asked = {"agentId": deed, "message": "go", "timeoutSeconds": wait}
        return ToolUse(f"c{self._calls}", "sessions_send", asked)


def config_of(mesh: Mesh) -> Config:
    limits = {"maxHops": mesh.hops, "maxPingPongTurns": mesh.turns}
    given = {"subagents": {"tools": {"alsoAllow": ["sessions_send"]}}} if mesh.armed else {}
    raw = {
        "agents": {"list": [{"id": name} for name in NAMES[: len(mesh.deeds)]]},
        "session": {"agentToAgent": limits},
        "tools": given,
    }
    return msgspec.convert(raw, Config)


async def play(folder: Path, mesh: Mesh) -> list[Run]:
    async with open_gateway(folder, Players(mesh), config=config_of(mesh)) as gateway:
        heard = RunsHeard(gateway)
        await call(
            gateway, "chat.send", sessionKey="agent:a:main", message="go", idempotencyKey="r"
        )
        return await heard.quiet()


def complaint(mesh: Mesh, runs: Sequence[Run]) -> Any:
    deepest = max(run.cause.hops for run in runs)
    statuses = {run.status for run in runs}
    if (len(runs), deepest > mesh.hops, statuses) != (count(mesh), False, {"ok"}):
        return (mesh, len(runs), count(mesh), deepest, statuses)
    return None


@pytest.mark.spec("B4", "S6", "P4")
@pytest.mark.parametrize("part", range(4))
async def test_a_cascade_has_the_runs_that_its_hops_allow(tmp_path: Path, part: int) -> None:
    cases = list(share(meshes(), 97))
    assert cases
    for number, mesh in enumerate(cases):
        if number % 4 == part:
            runs = await play(tmp_path / f"{number}", mesh)
            assert complaint(mesh, runs) is None


def a_hop_costs_nothing(authority: Authority, rules: AgentToAgentConfig) -> Authority:
    return authority


def only_the_first_hop_costs(authority: Authority, rules: AgentToAgentConfig) -> Authority:
    first = authority.hops_left >= rules.max_hops
    return one_hop_less(authority, rules) if first else authority


SENDS = Mesh(("b", "a"), hops=2, turns=0, waits=False, armed=False)
SPAWNS = Mesh(("+b", ""), hops=1, turns=0, waits=False, armed=True)
"""What is too much here is begun by the sub-agent, which has no hop left after its spawn."""


@pytest.mark.parametrize(
    ("rule", "mesh"),
    [
        (a_hop_costs_nothing, SENDS),
        (only_the_first_hop_costs, SENDS),
        (a_hop_costs_nothing, SPAWNS),
    ],
)
async def test_hops_that_are_not_counted_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Any, mesh: Mesh
) -> None:
    """The control: the proof can fail, by sends and by spawns."""
    assert complaint(mesh, await play(tmp_path / "as it is", mesh)) is None
    monkeypatch.setattr("crossclaw.sessions.intake.one_hop_less", rule)

    assert complaint(mesh, await play(tmp_path / "broken", mesh)) is not None


# ── itself, and circles ────────────────────────────────────────────────────────────────────────

SPELLINGS = ("main", "agent:a:main", "sessionId", "label", "agentId")


@pytest.mark.spec("S9", "K6")
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_nobody_sends_to_itself_however_it_is_spelled(tmp_path: Path, spelling: str) -> None:
    mesh = Mesh(("", ""), hops=3, turns=5, waits=False, armed=False)
    async with open_gateway(tmp_path, Players(mesh), config=config_of(mesh)) as gateway:
        me = SessionKey.main("a")
        session_id = "7f1f0c52-3c6b-4d41-9a53-0d9b6a1f8f11"
        new = NewSession(key=me, session_id=session_id, label="me")
        await gateway.ledger.do(EnsureSession(new=new, at=1))
        named = {"sessionId": {"sessionKey": session_id}, "label": {"label": "me"}}
        target = named.get(spelling, {"sessionKey": spelling})
        target = {"agentId": "a"} if spelling == "agentId" else target
        heard, caller = RunsHeard(gateway), Caller(principal=session_principal(me, Authority()))
        with pytest.raises(Invalid, match="cannot send to itself"):
            await gateway.door.dispatch(
                caller, "tool.sessions_send", {**target, "message": "hi", "timeoutSeconds": 0}
            )

        assert await heard.quiet() == []


@pytest.mark.spec("S9", "B4")
@pytest.mark.parametrize(("length", "one_agent"), list(product((2, 3, 4, 5), (False, True))))
async def test_a_circle_of_waits_is_told_at_once_and_all_runs_end(
    tmp_path: Path, length: int, one_agent: bool
) -> None:
    """Session n asks session n + 1 and waits; the last asks the first."""
    keys = [
        SessionKey.named("a", f"s{n}") if one_agent else SessionKey.named(f"a{n}", f"s{n}")
        for n in range(length)
    ]

    def ask_the_next(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        place = re.search(r"This session is agent:\w+:s(\d)", str(request.turns))
        assert place
        if (
            last.results
            or "this is turn" in instructions_of(request)
            or "your chat" in instructions_of(request)
        ):
            return "REPLY_SKIP"
        to = keys[(int(place[1]) + 1) % length].text
        asked = {"sessionKey": to, "message": "and you?", "timeoutSeconds": 3000}
        return [ToolUse(f"c{len(request.turns)}", "sessions_send", asked)]

    agents = [{"id": each} for each in sorted({key.agent_id for key in keys})]
    config = msgspec.convert({"agents": {"list": agents}}, Config)
    async with open_gateway(tmp_path, ScriptedProvider(ask_the_next), config=config) as gateway:
        for key in keys:
            new = NewSession(key=key, session_id=f"id-{key.name}")
            await gateway.ledger.do(EnsureSession(new=new, at=1))
        heard, begun = RunsHeard(gateway), anyio.current_time()
        await call(gateway, "chat.send", sessionKey=keys[0].text, message="go", idempotencyKey="r")
        first = await gateway.run_store.wait("r", timeout_s=2000)
        waited_s = anyio.current_time() - begun
        runs = await heard.quiet()
        answers = [each for run in runs for each in await results_of(gateway, run)]

    assert first is not None
    assert first.status == "ok"
    assert waited_s < 60  # nobody sat out its 3000 seconds
    assert {run.status for run in runs} == {"ok"}
    circles = [a for a in answers if a["status"] == "timeout"]
    assert circles
    assert all("wait for each other; the message is queued" in a["error"] for a in circles)
    assert max(run.cause.hops for run in runs) <= 12
