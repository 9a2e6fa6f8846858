"""Visibility, all cases: each forest of up to four sessions of two agents, each setting, each caller,
each tool and each spelling, through the real handlers, against ten lines of specification."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.domain.sight import EVERYTHING, Sight
from crossclaw.policy.decision import Decision
from crossclaw.policy.visibility import decide_visible, sight_of
from tests.proof.oracle import Node
from tests.proof.size import FULL, share
from tests.proof.views import Case, View, agrees, open_door
from tests.proof.worlds import SETTINGS, Setting, forests, places, settle, shapes

pytestmark = pytest.mark.timeout(1_800)  # work is counted here, not time

FOREST_KINDS = {1: 1, 2: 2, 3: 4, 4: 9}
PARTS = {1: 1, 2: 2, 3: 8, 4: 32} if FULL else dict.fromkeys(FOREST_KINDS, 1)
"""So that several processes share the work."""
WORLD_STRIDE = {1: 1, 2: 1, 3: 7, 4: 37}
SETTING_STRIDE = {1: 3, 2: 19, 3: 23, 4: 23}


async def cases(
    folder: Path, nodes: list[Node], settings: Iterable[Setting]
) -> AsyncGenerator[tuple[View, Case]]:
    ledger, there = await settle(folder, nodes), places(nodes)
    try:
        for setting in settings:
            door = open_door(ledger, setting)
            for me in range(len(nodes)):
                view = View(door, nodes, there, me, setting)
                async for case in view.cases():
                    yield view, case
    finally:
        await ledger.close()


@pytest.mark.parametrize("size", FOREST_KINDS)
def test_there_is_one_forest_of_each_kind(size: int) -> None:
    assert len(shapes(size)) == FOREST_KINDS[size]


@pytest.mark.spec("V1", "V2", "V3", "L7", "H4", "K6", "S8")
@pytest.mark.parametrize(
    ("size", "part"), [(size, part) for size in FOREST_KINDS for part in range(PARTS[size])]
)
async def test_everybody_is_told_what_the_specification_says(
    tmp_path: Path, size: int, part: int
) -> None:
    asked = 0
    for number, nodes in enumerate(share(forests(size), WORLD_STRIDE[size])):
        if number % PARTS[size] != part:
            continue
        stride = SETTING_STRIDE[size]
        settings = SETTINGS if FULL else SETTINGS[number % stride :: stride]
        async for view, (what, answer, expected) in cases(tmp_path / f"{number}", nodes, settings):
            assert agrees(answer, expected), (nodes, view.me, view.setting, what, answer, expected)
            asked += 1

    assert asked > 1_000 * size


def grandchildren_too(
    viewer: Any, target: Any, spawned_by: Any, line: Any, talked: Any = False
) -> Decision:
    right = decide_visible(viewer, target, spawned_by, line)
    return Decision(right.allowed or (viewer.sandboxed and spawned_by is not None), "wrong")


def own_session_too(
    viewer: Any, target: Any, spawned_by: Any, line: Any, talked: Any = False
) -> Decision:
    right = decide_visible(viewer, target, spawned_by, line)
    return Decision(right.allowed or target == viewer.key, "wrong")


def whole_agent(
    viewer: Any, target: Any, spawned_by: Any, line: Any, talked: Any = False
) -> Decision:
    wide = msgspec.structs.replace(viewer, mode="agent") if viewer.mode == "tree" else viewer
    return decide_visible(wide, target, spawned_by, line)


def without_roots(
    viewer: Any, target: Any, spawned_by: Any, line: Any, talked: Any = False
) -> Decision:
    return decide_visible(msgspec.structs.replace(viewer, roots=None), target, spawned_by, line)


def blind(viewer: Any, target: Any, spawned_by: Any, line: Any, talked: Any = False) -> Decision:
    return Decision(False, "wrong")


def lists_everything(viewer: Any) -> Sight:
    return EVERYTHING


def lists_other_agents(viewer: Any) -> Sight:
    return msgspec.structs.replace(sight_of(viewer), agents=None)


@pytest.mark.parametrize(
    ("name", "wrong_rule"),
    [
        ("decide_visible", grandchildren_too),
        ("decide_visible", own_session_too),
        ("decide_visible", whole_agent),
        ("decide_visible", without_roots),
        ("decide_visible", blind),
        ("sight_of", lists_everything),
        ("sight_of", lists_other_agents),
    ],
)
async def test_a_wrong_rule_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong_rule: Any
) -> None:
    """The control: the proof can fail."""
    monkeypatch.setattr(f"crossclaw.door.resolver.{name}", wrong_rule)
    chain = [Node("a", None), Node("a", 0), Node("b", 1), Node("a", None)]
    found = cases(tmp_path, chain, SETTINGS[::-3])

    async with aclosing(found):
        caught = (case async for _, case in found if not agrees(*case[1:]))
        assert await anext(caught, None) is not None
