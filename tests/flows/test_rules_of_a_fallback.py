"""A fallback answers in another model's place: what it may use is what both of them may."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.messages import ToolUse
from crossclaw.testing import ScriptedProvider, VirtualClock
from tests.flows.talking import results_of, say

pytestmark = pytest.mark.spec("B3")

MODEL = {"primary": "first/a", "fallbacks": ["second/b"]}
CALLS = [ToolUse("c1", "sessions_list", {}), ToolUse("c2", "session_status", {})]


async def asked_of_the_fallback(folder: Path, rules: dict[str, Any]) -> tuple[set[str], list[Any]]:
    """What it was offered, and what became of its two calls."""
    raw = {"agents": {"defaults": {"model": MODEL}}, "tools": {"byProvider": rules}}
    first = ScriptedProvider([ProviderRefused("no credit")], name="first")
    second = ScriptedProvider([CALLS, "done"], name="second")
    paths = Paths(folder, folder / "state", folder / "openclaw.json")
    outside = app.GatewayInputs(
        environ={}, clock=VirtualClock(), providers={"first": first, "second": second}, inline=True
    )
    async with app.open_gateway(msgspec.convert(raw, Config), paths, outside) as gateway:
        run = await say(gateway, "main", "go", "r1")
        results = await results_of(gateway, run)
    assert run.reply == "done"
    return {spec.name for spec in second.seen[0].tools}, results


@pytest.mark.parametrize("name", ["second", "second/b", "first", "first/a"])
async def test_a_fallback_uses_only_what_it_and_the_chosen_model_may(
    tmp_path: Path, name: str
) -> None:
    offered, results = await asked_of_the_fallback(tmp_path, {name: {"deny": ["sessions_list"]}})
    told = [str(result) for result in results]

    assert "sessions_list" not in offered
    assert "session_status" in offered
    (refused,) = [text for text in told if "is not available here" in text]
    assert f"tools.byProvider[{name}] denies sessions_list" in refused
    assert len(told) == 2


async def test_rules_for_some_other_model_take_nothing_from_a_fallback(tmp_path: Path) -> None:
    offered, results = await asked_of_the_fallback(tmp_path, {"third": {"deny": ["*"]}})

    assert {"sessions_list", "session_status"} <= offered
    assert not [each for each in results if "is not available here" in str(each)]


@pytest.mark.parametrize(
    ("denied", "offered"), [("second", False), ("first", False), ("other", True)]
)
async def test_what_a_fallback_spawns_has_no_more_than_the_fallback(
    tmp_path: Path, denied: str, offered: bool
) -> None:
    rules = {denied: {"deny": ["read"]}}
    raw = {"agents": {"defaults": {"model": MODEL}}, "tools": {"byProvider": rules}}
    spawn = [ToolUse("c1", "sessions_spawn", {"task": "look", "model": "third/c"})]
    first = ScriptedProvider(lambda request: ProviderRefused("no credit"), name="first")
    second = ScriptedProvider([spawn, "done"], name="second")
    third = ScriptedProvider(lambda request: "looked", name="third")
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    given = {"first": first, "second": second, "third": third}
    outside = app.GatewayInputs(environ={}, clock=VirtualClock(), providers=given, inline=True)
    async with app.open_gateway(msgspec.convert(raw, Config), paths, outside) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (result,) = await results_of(gateway, run)
        await gateway.run_store.wait(result["runId"], timeout_s=60)

    assert ("read" in {spec.name for spec in third.seen[0].tools}) is offered
