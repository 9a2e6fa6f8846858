"""What `sessions.explain` says is what happens: the same worlds, the same ten lines."""

from pathlib import Path

import pytest

from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import Resolver
from crossclaw.sessions.explain import Explaining, ExplainParams, Verb
from tests.proof.size import share
from tests.proof.views import View, open_door
from tests.proof.worlds import SETTINGS, forests, places, settle

OWNER = Caller(principal=person_principal("o", {"operator.read"}))
STRIDE = 23
VERBS: tuple[Verb, ...] = ("see", "read", "send")
# Of a run's own authority nothing is known before it runs.
KNOWN = [each for each in SETTINGS if each.box != "run" and not each.rooted]


@pytest.mark.spec("V1", "V2")
@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_what_is_explained_is_what_happens(tmp_path: Path, size: int) -> None:
    for number, nodes in enumerate(share(forests(size), STRIDE)):
        ledger, there = await settle(tmp_path / f"{number}", nodes), places(nodes)
        for setting in share(KNOWN, STRIDE):
            config, door = setting.config(), open_door(ledger, setting)
            explaining = Explaining(config, ledger, Resolver(ledger, config), ())
            for me in range(size):
                view = View(door, nodes, there, me, setting)
                for it in range(size):
                    told = {verb: await _allowed(explaining, view, it, verb) for verb in VERBS}
                    assert told == _expected(view, it), (nodes, me, it, setting)
        await ledger.close()


async def _allowed(explaining: Explaining, view: View, it: int, verb: Verb) -> bool:
    source, to = view.there[view.me].key.text, view.there[it].key.text
    answer = await explaining.explain(OWNER, ExplainParams(source=source, verb=verb, to=to))
    # Every send of these worlds is denied by policy in the end, so that nothing changes.
    return all(each.allowed for each in answer.reasons if each.about != "send policy")


def _expected(view: View, it: int) -> dict[Verb, bool]:
    sees, gone = view.sees(it), view.nodes[it].archived
    return {"see": sees and not gone, "read": sees, "send": sees and not gone and it != view.me}
