"""Who sees whom: decisions that say why, and the same rule as data for the ledger's reads."""

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.config import Config
from crossclaw.config.tools import AgentToAgent
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.agent_to_agent import decide_reach, reachable
from crossclaw.policy.sandbox import confined, why_sandboxed
from crossclaw.policy.visibility import Viewer, VisibilityMode, decide_visible, sight_of, viewer_of

MAIN = SessionKey.main("main")
NOTES = SessionKey.named("main", "notes")
CHILD = SessionKey.subagent("main", "1")
OTHER = SessionKey.main("ops")


def config(**raw: Any) -> Config:
    return msgspec.convert(raw, Config)


def boxed(mode: str, shows: str = "spawned", visibility: str = "all") -> Config:
    sandbox = {"mode": mode, "sessionToolsVisibility": shows}
    return config(
        agents={"defaults": {"sandbox": sandbox}}, tools={"sessions": {"visibility": visibility}}
    )


def line(*keys: SessionKey) -> frozenset[str]:
    return frozenset(key.text for key in keys)


def sees(viewer: Viewer, target: SessionKey, *above: SessionKey) -> bool:
    parent = above[0].text if above else None
    return decide_visible(viewer, target, parent, line(target, *above)).allowed


@pytest.mark.spec("V2")
@pytest.mark.parametrize(
    ("mode", "own", "child", "grandchild", "sibling", "foreign"),
    [
        ("self", True, False, False, False, False),
        ("tree", True, True, True, False, False),
        ("agent", True, True, True, True, False),
        ("all", True, True, True, True, True),
        ("spawned", False, True, False, False, False),
    ],
)
def test_each_mode_sees_what_it_says(
    mode: VisibilityMode, own: bool, child: bool, grandchild: bool, sibling: bool, foreign: bool
) -> None:
    viewer = Viewer(key=MAIN, mode=mode)
    below = SessionKey.subagent("main", "2")

    assert sees(viewer, MAIN) is own
    assert sees(viewer, CHILD, MAIN) is child
    assert sees(viewer, below, CHILD, MAIN) is grandchild
    assert sees(viewer, NOTES) is sibling
    assert sees(viewer, OTHER) is foreign


@pytest.mark.spec("V2", "S8")
@pytest.mark.parametrize("mode", ["spawned", "tree", "all"])
def test_no_mode_reaches_an_agent_that_agent_to_agent_keeps_away(mode: VisibilityMode) -> None:
    viewer = Viewer(key=MAIN, mode=mode, reach=AgentToAgent(enabled=False))
    decision = decide_visible(viewer, OTHER, MAIN.text, line(OTHER, MAIN))

    assert not decision.allowed
    assert "tools.agentToAgent.enabled" in decision.reason


@pytest.mark.spec("V2", "S8")
def test_partners_of_an_agent_that_may_not_be_reached_are_not_in_a_guest_s_sight() -> None:
    guest = SessionKey.named("main", "mcp:bob")
    free = Viewer(key=guest, mode="partners", given=line(OTHER))
    kept = msgspec.structs.replace(free, reach=AgentToAgent(enabled=False))

    assert sees(free, OTHER)
    assert not sees(kept, OTHER)
    assert (sight_of(free).agents, sight_of(kept).agents) == (None, ("main",))


@pytest.mark.spec("B3")
def test_an_authority_with_roots_sees_only_their_trees() -> None:
    viewer = Viewer(key=MAIN, mode="all", roots=line(NOTES))

    assert sees(viewer, NOTES)
    assert sees(viewer, CHILD, NOTES)
    assert not sees(viewer, MAIN)
    assert sight_of(viewer).trees == (line(NOTES),)


@pytest.mark.spec("V1")
@pytest.mark.parametrize(
    ("mode", "key", "sandboxed"),
    [
        ("off", MAIN, False),
        ("off", NOTES, False),
        ("non-main", MAIN, False),
        ("non-main", NOTES, True),
        ("non-main", CHILD, True),
        ("non-main", SessionKey.shared(), False),
        ("all", MAIN, True),
    ],
)
def test_the_config_says_who_is_locked_in(mode: str, key: SessionKey, sandboxed: bool) -> None:
    agents = boxed(mode).agents

    assert (why_sandboxed(agents, key, Authority()) is not None) is sandboxed
    assert confined(agents, key, Authority(hops_left=3)) == Authority(
        sandboxed=sandboxed, hops_left=3
    )


@pytest.mark.spec("V1", "B3")
def test_what_a_sandboxed_session_began_is_locked_in_whatever_the_config_says() -> None:
    locked = Authority(sandboxed=True)

    assert why_sandboxed(Config().agents, MAIN, locked) == "it acts for a sandboxed session"
    assert viewer_of(Config(), MAIN, locked).mode == "spawned"


@pytest.mark.spec("V1", "P4")
@pytest.mark.parametrize("mode", ["non-main", "all"])
def test_a_sub_agent_with_a_session_tool_is_restricted_like_everybody(mode: str) -> None:
    assert viewer_of(boxed(mode), CHILD, Authority()).mode == "spawned"


def test_a_session_whose_agent_left_the_config_keeps_the_default_sandbox() -> None:
    assert why_sandboxed(boxed("all").agents, SessionKey.main("gone"), Authority())


@pytest.mark.spec("V1", "V2")
@pytest.mark.parametrize(
    ("mode", "shows", "visibility", "expected"),
    [
        ("all", "spawned", "all", "spawned"),
        ("all", "spawned", "self", "spawned"),
        ("all", "all", "tree", "tree"),
        ("off", "spawned", "tree", "tree"),
        ("non-main", "spawned", "agent", "agent"),
    ],
)
def test_the_sandbox_narrows_first_then_the_session_tools_setting(
    mode: str, shows: str, visibility: str, expected: str
) -> None:
    viewer = viewer_of(boxed(mode, shows, visibility), MAIN, Authority())

    assert viewer.mode == expected
    assert viewer.sandboxed is (mode == "all")


@pytest.mark.spec("V1")
def test_an_agent_may_have_a_visibility_of_its_own() -> None:
    raw = {
        "defaults": {"sandbox": {"mode": "all"}},
        "list": [{"id": "main"}, {"id": "ops", "sandbox": {"sessionToolsVisibility": "all"}}],
    }
    settings = config(agents=raw)

    assert viewer_of(settings, MAIN, Authority()).mode == "spawned"
    assert viewer_of(settings, OTHER, Authority()).mode == "all"


names = st.sampled_from(["main", "ops", "opera", "a-1", "a_1"])
patterns = st.sampled_from(["*", "op*", "OP*", "main", "Main", "*a", "a?1*", "[a]*", "ops", ""])


@pytest.mark.spec("S8")
@given(st.lists(patterns, max_size=3), st.booleans(), names, names)
def test_the_reach_of_one_and_of_all_are_the_same_rule(
    allow: list[str], enabled: bool, requester: str, target: str
) -> None:
    settings = AgentToAgent(enabled=enabled, allow=tuple(allow))
    everybody = reachable(settings, requester)
    named = everybody is None or any(
        decide_reach(AgentToAgent(allow=(each, requester)), requester, target, "listing").allowed
        for each in everybody
    )

    assert decide_reach(settings, requester, target, "listing").allowed is named


@pytest.mark.spec("V3")
def test_every_refusal_names_a_setting() -> None:
    modes: tuple[VisibilityMode, ...] = ("spawned", "self", "tree", "agent", "all")
    for mode, enabled in product(modes, (True, False)):
        viewer = Viewer(key=MAIN, mode=mode, reach=AgentToAgent(enabled=enabled))
        decision = decide_visible(viewer, OTHER, None, line(OTHER))
        assert "tools." in decision.reason or "sandbox." in decision.reason
