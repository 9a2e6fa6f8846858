"""Random meshes of agents that send, spawn and wait in every run they get, rounds and announces included: no
root cause gets more runs than its limit, and nothing that was accepted is cut off."""

import tempfile
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crossclaw.config import Config
from crossclaw.domain.messages import ToolUse
from crossclaw.domain.runs import Run
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, VirtualLoop, open_gateway
from tests.flows.talking import call
from tests.proof.size import FULL, examples
from tests.quiet import RunsHeard
from tests.stores import OpenStore, look_into

NAMES = "abcdefg"
MODEL_CALLS_MAX = 3_000  # a rule that fails must end as well


EVERYBODY_TO_EVERYBODY = tuple(NAMES.replace(name, "") for name in NAMES)


class Mesh(NamedTuple):
    """Agent number i does `deeds[i]` in every turn of every run: names to send to, `+` spawns, `-` spawns a
    child that is deleted after its report."""

    deeds: tuple[str, ...]
    runs_max: int
    turns: int
    waits: bool
    wakes: bool
    roots: int
    armed: bool
    persistence: int
    """How many turns of each run it goes on sending."""


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    agents = draw(st.integers(2, 7))
    deed = st.text(NAMES[:agents] + "+-", min_size=1, max_size=6)
    return Mesh(
        deeds=tuple(draw(st.lists(deed, min_size=agents, max_size=agents))),
        runs_max=draw(st.integers(1, 60)),
        turns=draw(st.integers(0, 5)),
        waits=draw(st.booleans()),
        wakes=draw(st.booleans()),
        roots=draw(st.integers(1, 2)),
        armed=draw(st.booleans()),
        persistence=draw(st.integers(1, 3)),
    )


class Players(ScriptedProvider):
    def __init__(self, mesh: Mesh) -> None:
        super().__init__(self._act)
        self._mesh = mesh
        self._calls = 0

    def _act(self, request: ModelRequest) -> Any:
        me = next(name for name in NAMES if f"You are the agent '{name}'" in request.system)
        has = {tool.name for tool in request.tools}
        if (
            len(self.seen) > MODEL_CALLS_MAX
            or _turns_of_this_run(request) >= self._mesh.persistence
        ):
            return "done"
        deeds = [self._deed(deed) for deed in self._mesh.deeds[NAMES.index(me)] if deed != me]
        return [deed for deed in deeds if deed.name in has] or "done"

    def _deed(self, deed: str) -> ToolUse:
        self._calls += 1
        if deed in "+-":
            task = {"task": "work", "cleanup": "keep" if deed == "+" else "delete"}
            return ToolUse(f"c{self._calls}", "sessions_spawn", task)
        wait = 30 if self._mesh.waits else 0
        asked = {"agentId": deed, "message": "go", "timeoutSeconds": wait}
        return ToolUse(f"c{self._calls}", "sessions_send", asked)


def _turns_of_this_run(request: ModelRequest) -> int:
    said = [turn for turn in request.turns if isinstance(turn, UserTurn)]
    return len(list(takewhile(lambda turn: turn.results, reversed(said))))


def config_of(mesh: Mesh) -> Config:
    limits = {"maxRuns": mesh.runs_max, "maxPingPongTurns": mesh.turns}
    given = {"subagents": {"tools": {"alsoAllow": ["sessions_send"]}}} if mesh.armed else {}
    raw = {
        "agents": {
            "list": [{"id": name} for name in NAMES[: len(mesh.deeds)]],
            "defaults": {"subagents": {"wakeParent": mesh.wakes}},
        },
        "session": {"agentToAgent": limits},
        "tools": given,
    }
    return msgspec.convert(raw, Config)


async def play(mesh: Mesh) -> list[str]:
    """What is wrong when all is quiet again."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_gateway(Path(folder), Players(mesh), config=config_of(mesh)) as gateway:
            ends = RunsHeard(gateway)
            for number in range(mesh.roots):
                key, root = f"agent:{NAMES[number]}:main", f"root{number}"
                await call(gateway, "chat.send", sessionKey=key, message="go", idempotencyKey=root)
            runs = await ends.quiet()
        db = look_into(Path(folder) / "state" / "crossclaw.sqlite")
        return [*too_many(mesh, runs), *cut_off(db)]


def too_many(mesh: Mesh, runs: list[Run]) -> list[str]:
    counts = Counter(run.cause.root(run.run_id) for run in runs)
    return [f"{root} has {n} runs" for root, n in counts.items() if n > mesh.runs_max]


def cut_off(db: OpenStore) -> list[str]:
    open_exchanges = "SELECT exchange_id FROM exchanges WHERE state <> 'over'"
    open_spawns = "SELECT child_key FROM spawns WHERE state <> 'over'"
    silent = (
        "SELECT exchange_id FROM exchanges x WHERE first_reply IS NOT NULL AND NOT EXISTS ("
        + ("SELECT 1 FROM runs WHERE runs.exchange_id = x.exchange_id AND kind = 'announce')")
    )
    miscounted = "SELECT root FROM cascades c WHERE runs <> 1 + (" + (
        "SELECT count(*) FROM runs WHERE cause ->> '$.chain[0]' = c.root)"
    )
    queries = (open_exchanges, open_spawns, silent, miscounted)
    return [f"{query}: {row[0]}" for query in queries for row in db.execute(query)]


@pytest.mark.timeout(0 if FULL else 300)
@pytest.mark.spec("B4")
@settings(
    max_examples=examples(6, 1_000),
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(meshes())
@example(Mesh(EVERYBODY_TO_EVERYBODY, 200, 5, False, False, 1, False, 1))
def test_no_root_cause_gets_more_runs_than_its_limit_whatever_agents_do(mesh: Mesh) -> None:
    wrongs = anyio.run(play, mesh, backend_options={"loop_factory": VirtualLoop})
    assert wrongs == []
