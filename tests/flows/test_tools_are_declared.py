"""Tools say their group, their effect and whether children have them, and rules go by that: a tool that
comes later is as closed as its neighbours, without being named in any list."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crossclaw.app import Gateway, building
from crossclaw.config import Config
from crossclaw.config.toolnames import KNOWN, MISSING_HERE
from crossclaw.config.tools import SubagentTools, ToolPolicy
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import (
    BUILT_IN,
    SESSION_TOOLS,
    ToolDeclaration,
    UndeclaredTool,
    built_in,
    mcp_declaration,
)
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller, Method, Params, Result
from crossclaw.policy.subagents import child_layers
from crossclaw.policy.tools import decide_tool
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.door_tool import tool_method
from crossclaw.tools.invoke import Invoker, ToolNotAvailable
from crossclaw.tools.session_tools import session_methods
from tests.configs import config_of
from tests.flows.talking import OWNER, say
from tests.flows.test_guests import Guest
from tests.flows.tools import Nothing

MAIN, CHILD = SessionKey.main("main"), SessionKey.parse("agent:main:subagent:c1")


class Fork(Tool[Nothing]):
    """A session tool from outside; its name is like no other's, so that no pattern helps."""

    description, params = "Forks a session.", Nothing
    declared = ToolDeclaration(name="fork", group="sessions", effect="effects", children=False)

    async def call(self, context: ToolContext, params: Nothing) -> str:
        raise AssertionError("it is closed")


class Search(Fork):
    declared = ToolDeclaration(name="look_up", group="web", effect="pure", children=True)


class _Params(Params, frozen=True):
    pass


async def has(gateway: Gateway, key: SessionKey, **given: Any) -> set[str]:
    return set(await gateway.toolsets.of(key, Authority(**given), "x/y"))


@pytest.mark.spec("P4", "V4")
async def test_a_tool_from_outside_is_as_closed_as_its_group(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), tools=[Fork(), Search()]) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        assert {"fork", "look_up"} <= await has(gateway, MAIN)
        assert await has(gateway, MAIN) - await has(gateway, CHILD) == SESSION_TOOLS | {"fork"}
        assert "look_up" not in await has(gateway, MAIN, sandboxed=True)
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, Config(), lambda agent_id: "x/y"
        )
        with pytest.raises(ToolNotAvailable):
            await invoker.invoke(OWNER, "fork", {}, "main")
        with pytest.raises(ToolNotAvailable):
            await Guest(gateway, "bob").call("fork")


@pytest.mark.parametrize(
    "raw",
    [
        {"tools": {"deny": ["group:sessions"]}},
        {"tools": {"deny": ["group:openclaw"]}},
        {"tools": {"allow": ["group:fs", "group:web"]}},
        {"tools": {"profile": "minimal"}},
        {"tools": {"profile": "messaging"}},
        {"tools": {"byProvider": {"x": {"deny": ["Group:Sessions"]}}}},
        {"agents": {"list": [{"id": "main", "tools": {"deny": ["group:sessions"]}}]}},
    ],
)
async def test_a_rule_for_a_group_means_a_tool_that_came_later(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    async with open_gateway(
        tmp_path, RehearsalProvider(), tools=[Fork()], config=config_of(raw)
    ) as gateway:
        assert "fork" not in await has(gateway, MAIN)


async def test_what_the_gateway_denies_by_group_is_not_invoked_either(tmp_path: Path) -> None:
    raw = {"gateway": {"tools": {"allow": ["fork"], "deny": ["group:sessions"]}}}
    async with open_gateway(tmp_path, RehearsalProvider(), tools=[Fork()]) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        invoker = Invoker(
            gateway.door,
            gateway.toolsets,
            gateway.resolver,
            config_of(raw),
            lambda agent_id: "x/y",
        )
        with pytest.raises(ToolNotAvailable):
            await invoker.invoke(OWNER, "fork", {}, "main")


# ── a session tool that is made like the built-in ones ─────────────────────────────────────────

PIN = ToolDeclaration(name="pin", group="sessions", effect="once", children=False)
"""Its name is like no other's, so that no pattern helps."""


class Pinned(Result, frozen=True):
    by: str


async def pin(caller: Caller, params: _Params) -> Pinned:
    assert caller.principal.session is not None
    return Pinned(by=caller.principal.session.text)


@pytest.fixture
def with_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway that is opened next has one session tool more: a line in the table, and a method of the door."""

    def and_pin(*services: Any) -> list[Method[Any]]:
        return [*session_methods(*services), tool_method("pin", "change", pin, "Pins a session.")]

    monkeypatch.setitem(BUILT_IN, "pin", PIN)
    monkeypatch.setattr(building, "session_methods", and_pin)


async def open_to(gateway: Gateway, raw: dict[str, Any]) -> set[str]:
    """Who may use it: sessions by the rules of the gateway, and who comes from outside by these."""
    config = config_of(raw)
    invoker = Invoker(gateway.door, gateway.toolsets, gateway.resolver, config, lambda _id: "x/y")
    found = {
        name
        for name, key, given in (
            ("main", MAIN, {}),
            ("sandboxed", MAIN, {"sandboxed": True}),
            ("child", CHILD, {}),
        )
        if "pin" in await has(gateway, key, **given)
    }
    with suppress(ToolNotAvailable):
        assert (await invoker.invoke(OWNER, "pin", {}, "main")).by == MAIN.text
        found.add("invoke")
    with suppress(ToolNotAvailable):
        assert await Guest(gateway, "bob", config).call("pin") == {"by": "agent:main:mcp:bob"}
        found.add("guest")
    return found


@pytest.mark.usefixtures("with_pin")
@pytest.mark.spec("P4", "V4")
@pytest.mark.parametrize(
    ("raw", "open_for"),
    [
        ({}, {"main", "sandboxed", "guest", "invoke"}),
        ({"tools": {"deny": ["group:sessions"]}}, set()),
        ({"tools": {"deny": ["group:openclaw"]}}, set()),
        ({"tools": {"profile": "messaging"}}, set()),
        ({"agents": {"list": [{"id": "main", "tools": {"deny": ["pin"]}}]}}, set()),
        ({"gateway": {"tools": {"deny": ["group:sessions"]}}}, {"main", "sandboxed"}),
        ({"gateway": {"tools": {"deny": ["pin"]}}}, {"main", "sandboxed"}),
        (
            {"gateway": {"tools": {"allow": ["pin"], "deny": ["group:sessions"]}}},
            {"main", "sandboxed"},
        ),
    ],
)
async def test_a_session_tool_that_comes_later_is_open_to_whom_its_neighbours_are(
    tmp_path: Path, raw: dict[str, Any], open_for: set[str]
) -> None:
    model = RehearsalProvider()
    async with open_gateway(tmp_path, model, config=config_of(raw)) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        assert await open_to(gateway, raw) == open_for


@pytest.mark.usefixtures("with_pin")
async def test_a_session_tool_that_comes_later_needs_the_scope_to_write(tmp_path: Path) -> None:
    reader = person_principal("reader", {"operator.read"})
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, Config(), lambda agent_id: "x/y"
        )
        with pytest.raises(MissingScope):
            await invoker.invoke(reader, "pin", {}, "main")
        with pytest.raises(MissingScope):
            await Guest(gateway, "bob").call("pin", reader)


@pytest.mark.spec("P4")
def test_children_have_what_is_declared_so_and_the_rest_by_name() -> None:
    def has_child(tool: ToolDeclaration, **policy: Any) -> bool:
        settings = SubagentTools(tools=ToolPolicy(**policy))
        return decide_tool(tool, child_layers(settings)).allowed

    assert {name for name in BUILT_IN if not has_child(BUILT_IN[name])} == {
        *("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "agents_list"),
        *("session_status", "sessions_wait", "sessions_reply"),
    }
    assert has_child(mcp_declaration("docs__search"))
    assert has_child(Fork.declared, also_allow=("fork",))
    assert has_child(Fork.declared, also_allow=("group:sessions",))
    assert not has_child(Fork.declared, also_allow=("*",))
    assert not has_child(built_in("sessions_spawn"), also_allow=("sessions_spawn",))


async def test_a_tool_that_does_not_say_what_it_is_does_not_load(tmp_path: Path) -> None:
    class Silent(Tool[Nothing]):
        description, params = "Says nothing of itself.", Nothing

    class Odd(Silent):
        declared = ToolDeclaration(name="odd", group="odd", effect="pure", children=True)  # type: ignore[arg-type]

    async def fork(caller: Any, params: _Params) -> _Params:
        raise AssertionError

    for tool, words in ((Silent(), "Silent does not declare"), (Odd(), "unknown group")):
        with pytest.raises(UndeclaredTool, match=words):
            async with open_gateway(tmp_path / words, RehearsalProvider(), tools=[tool]):
                pass
    with pytest.raises(UndeclaredTool, match="'sessions_fork' is not declared"):
        tool_method("sessions_fork", "run", fork, "Forks.")
    with pytest.raises(UndeclaredTool, match="sessions_list is declared pure"):
        tool_method("sessions_list", "run", fork, "Lists.")


async def test_every_tool_that_is_there_can_be_named_in_a_rule(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        there = gateway.toolsets.known
        assert {name: tool.declared for name, tool in there.items()} == {
            name: BUILT_IN[name] for name in there
        }
        assert SESSION_TOOLS <= set(there) <= KNOWN


def test_what_is_listed_as_missing_here_is_no_tool_of_ours() -> None:
    assert not set(MISSING_HERE) & set(BUILT_IN)
