"""The tool policy: layers that are and-ed, and a reason for each refusal."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.config import Config
from crossclaw.config.agents import SandboxConfig
from crossclaw.config.tools import ToolPolicy
from crossclaw.domain.authority import Authority, Delegator
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import (
    BUILT_IN,
    GROUP_RULES,
    ToolDeclaration,
    built_in,
    mcp_declaration,
)
from crossclaw.policy.sandbox import decide_sandbox, sandboxes_write
from crossclaw.policy.tools import (
    Layer,
    decide_tool,
    delegator_layers,
    layer_of,
    may_allow_any,
    tool_layers,
)
from crossclaw.tools.mcp_tool import other_names, prefixes_of, tool_name

NAMES = (
    *("read", "write", "edit", "exec", "web_fetch", "docs__search", "mail__send"),
    *("sessions_list", "sessions_send", "session_status"),
)


def declared(name: str) -> ToolDeclaration:
    return BUILT_IN.get(name) or mcp_declaration(name)


def allowed_tools(names: Iterable[str], layers: Sequence[Layer]) -> frozenset[str]:
    return frozenset(name for name in names if decide_tool(declared(name), layers).allowed)


def allowed(raw: dict[str, Any], agent_id: str = "main", **more: Any) -> list[str]:
    config = msgspec.convert(raw, Config)
    return sorted(allowed_tools(NAMES, tool_layers(config, agent_id, **more)))


def test_without_settings_there_is_everything() -> None:
    assert allowed({}) == sorted(NAMES)


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        ({"allow": ["read", "Bash"]}, "exec read"),
        ({"allow": ["group:fs"], "deny": ["write"]}, "edit read"),
        ({"allow": ["sessions_*"]}, "sessions_list sessions_send"),
        ({"allow": ["*"], "deny": ["group:plugins", "group:web", "group:sessions", "group:fs"]}, "exec"),
        ({"allow": []}, ""),
        ({"profile": "minimal"}, "session_status"),
        ({"profile": "minimal", "alsoAllow": ["docs__*"]}, "docs__search session_status"),
        ({"profile": "messaging", "allow": ["sessions_list", "read"]}, "sessions_list"),
        ({"profile": "full", "deny": ["*_*"]}, "edit exec read write"),
        ({"allow": ["read"], "alsoAllow": ["write"]}, "read write"),
        ({"allow": ["read", "exec"], "exec": {"security": "deny"}}, "read"),
        ({"allow": ["web_fetch"], "web": {"fetch": {"enabled": False}}}, ""),
        ({"allow": ["group:nonsense"]}, ""),
    ],
)  # fmt: skip
def test_one_layer_by_name_group_glob_alias_and_profile(tools: dict[str, Any], left: str) -> None:
    assert allowed({"tools": tools}) == left.split()


def test_the_agents_layer_only_takes_away() -> None:
    raw = {
        "tools": {"allow": ["group:fs"], "profile": "coding"},
        "agents": {
            "list": [{"id": "ops", "tools": {"profile": "full", "allow": ["exec", "read"]}}]
        },
    }
    assert allowed(raw, "ops") == ["read"]


def test_a_providers_layer_holds_for_it_alone() -> None:
    raw = {
        "tools": {"byProvider": {"local": {"profile": "minimal"}, "Big/One": {"deny": ["exec"]}}}
    }

    assert allowed(raw, model="local/small") == ["session_status"]
    assert "exec" not in allowed(raw, model="big/one")
    assert "exec" in allowed(raw, model="big/two")


@pytest.mark.spec("V4")
def test_what_works_outside_of_the_sandbox_is_given_to_it_only_by_name() -> None:
    boxed = allowed({}, sandboxed=True)
    assert set(NAMES) - set(boxed) == {"web_fetch", "docs__search", "mail__send"}
    opened = {"tools": {"sandbox": {"tools": {"alsoAllow": ["docs__search", "web_fetch"]}}}}
    assert set(NAMES) - set(allowed(opened, sandboxed=True)) == {"mail__send"}
    all_of_them = {"tools": {"sandbox": {"tools": {"alsoAllow": ["bundle-mcp"]}}}}
    assert "mail__send" in allowed(all_of_them, sandboxed=True)
    network = {"agents": {"defaults": {"sandbox": {"network": "host"}}}}
    assert "web_fetch" in allowed(network, sandboxed=True)
    few = {"tools": {"sandbox": {"tools": {"allow": ["exec", "read"], "deny": ["exec"]}}}}
    assert allowed(few, sandboxed=True) == ["read"]
    free, boxed_arm = (
        delegator_layers(Config(), Delegator("main", sandboxed=box)) for box in (False, True)
    )
    assert len(boxed_arm) > len(free)
    assert len(allowed(few)) == len(NAMES)


def test_a_refusal_names_the_setting() -> None:
    config = msgspec.convert({"tools": {"deny": ["group:fs"]}}, Config)

    decision = decide_tool(built_in("read"), tool_layers(config, "main"))

    assert (decision.allowed, decision.reason) == (False, "tools denies group:fs")


@pytest.mark.spec("B3")
def test_authority_takes_away_and_never_gives() -> None:
    layers = [Layer("tools", deny=("exec",))]
    wide = Authority(tools=frozenset({"exec", "read"}))

    assert not decide_tool(built_in("exec"), layers, wide).allowed
    assert decide_tool(built_in("read"), layers, wide).allowed
    assert not decide_tool(built_in("write"), layers, wide).allowed
    assert not decide_tool(
        built_in("read"), layers, Authority(denied_tools=frozenset({"read"}))
    ).allowed


_RULES = st.lists(
    st.sampled_from([*NAMES, *sorted(GROUP_RULES), "*", "sess*", "bash"]), max_size=4
).map(tuple)
_LAYERS = st.builds(Layer, st.just("x"), st.none() | _RULES, _RULES)


@pytest.mark.spec("B3")
@given(st.lists(_LAYERS, max_size=4), _LAYERS)
def test_another_layer_never_adds_a_tool(layers: list[Layer], one_more: Layer) -> None:
    assert allowed_tools(NAMES, [*layers, one_more]) <= allowed_tools(NAMES, layers)


@given(_RULES, _RULES)
def test_deny_wins_over_allow(allow: tuple[str, ...], deny: tuple[str, ...]) -> None:
    layer = layer_of("x", ToolPolicy(allow=allow, deny=deny))
    assert not allowed_tools(NAMES, [layer]) & allowed_tools(NAMES, [Layer("y", deny)])


@pytest.mark.spec("V4", "B3")
def test_the_sandbox_is_decided_by_authority_then_by_mode() -> None:
    main, other = SessionKey.main("main"), SessionKey.parse("agent:main:x")
    shared = SessionKey.shared("main")
    by_mode = {
        mode: [decide_sandbox(SandboxConfig(mode=mode), key, Authority()).allowed for key in (main, shared, other)]
        for mode in ("off", "non-main", "all")
    }  # fmt: skip
    assert by_mode == {
        "off": [False, False, False],
        "non-main": [False, False, True],
        "all": [True, True, True],
    }
    inherited = decide_sandbox(SandboxConfig(), main, Authority(sandboxed=True))
    assert inherited.allowed
    assert "sandboxed session" in inherited.reason


@pytest.mark.parametrize(
    ("allow", "deny", "asked"),
    [
        (["*__read"], [], True),
        (["g?thub__*"], [], True),
        (["git*__search"], [], True),
        (["git*"], [], True),
        (["gi"], [], False),
        (["*"], [], True),
        (["gitlab__*"], [], False),
        (["My Server__*"], [], False),
        (None, ["github__?"], True),
        (None, ["github__[a-m]*"], True),
        (None, ["g*b__*"], False),
        (None, ["bundle-mcp"], False),
        (["*__read"], ["git*"], False),
    ],
)
def test_a_server_is_asked_for_its_tools_when_a_rule_could_mean_one_of_them(
    allow: list[str] | None, deny: list[str], asked: bool
) -> None:
    layer = Layer("tools", None if allow is None else tuple(allow), tuple(deny))

    assert may_allow_any(prefixes_of("github"), [layer], Authority()) is asked


def test_a_server_is_known_by_its_own_spelling_too() -> None:
    layer = Layer("tools", allow=("My Server__*",))

    assert may_allow_any(prefixes_of("My Server"), [layer], Authority())
    only = Authority(tools=frozenset({"My Server__find it"}))
    assert may_allow_any(prefixes_of("My Server"), [], only)


_SERVERS = st.sampled_from(["docs", "My Docs", "d", "x" * 60, "x" * 70])
_PATTERN = st.lists(
    st.sampled_from([*"docsxMy *?_", "__", "[a-m]", "[!x]", "x" * 54, "x" * 60]), max_size=6
).map("".join)
_GLOBS = st.lists(_PATTERN, max_size=3).map(tuple)


@given(
    _SERVERS,
    st.text("dosc *", min_size=1, max_size=6),
    st.lists(st.builds(Layer, st.just("x"), st.none() | _GLOBS, _GLOBS, _GLOBS), max_size=3),
)
def test_no_tool_that_a_run_may_have_is_missed_for_want_of_asking(
    server: str, tool: str, layers: list[Layer]
) -> None:
    name, also = tool_name(server, tool), other_names(server, tool)

    if decide_tool(mcp_declaration(name, also), layers).allowed:
        assert may_allow_any(prefixes_of(server), layers, Authority())
    only = Authority(tools=frozenset({name}))
    assert may_allow_any(prefixes_of(server), [], only)


@pytest.mark.spec("B3")
@pytest.mark.parametrize("spelled", ["whole", "as the server says it", "cut"])
def test_authority_means_a_long_mcp_tool_by_each_of_its_names(spelled: str) -> None:
    server, tool = "a long name", "t" * 70
    name, (whole, raw) = tool_name(server, tool), other_names(server, tool)
    said = frozenset({{"whole": whole, "as the server says it": raw, "cut": name}[spelled]})

    assert decide_tool(mcp_declaration(name, (whole, raw)), [], Authority(tools=said)).allowed
    assert not decide_tool(
        mcp_declaration(name, (whole, raw)), [], Authority(denied_tools=said)
    ).allowed
    assert may_allow_any(prefixes_of(server), [], Authority(tools=said))


@pytest.mark.spec("B3")
def test_the_arm_of_an_agent_that_is_gone_has_no_tools() -> None:
    layers = delegator_layers(Config(), Delegator("nobody"))

    assert allowed_tools(NAMES, layers) == frozenset()
    assert "the agent nobody, for which it works and which is gone" in layers[0].setting


@pytest.mark.spec("B3")
def test_a_refusal_of_an_arms_rules_says_whose_they_are() -> None:
    config = msgspec.convert({"tools": {"deny": ["read"]}}, Config)

    decision = decide_tool(built_in("read"), delegator_layers(config, Delegator("main")))

    assert decision.reason == "tools of agent main, for which it works, denies read"


@pytest.mark.parametrize(
    ("boxes", "written"),
    [
        ([("off", "rw"), ("off", "rw")], False),
        ([("all", "ro"), ("all", "none")], False),
        ([("all", "ro"), ("off", "rw")], True),  # what the first causes at the second is sandboxed
    ],
)
def test_one_sandbox_and_one_workspace_that_it_may_write_are_enough(
    boxes: list[tuple[str, str]], written: bool
) -> None:
    agents = [
        {"id": f"a{number}", "sandbox": {"mode": mode, "workspaceAccess": access}}
        for number, (mode, access) in enumerate(boxes)
    ]
    config = msgspec.convert({"agents": {"list": agents}}, Config)
    assert sandboxes_write(config.agents) is written
