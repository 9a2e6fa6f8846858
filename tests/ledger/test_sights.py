"""Sights in the query: rows, counts, order, limits and searches know of nothing else."""

from pathlib import Path

import apsw
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.domain.sight import EVERYTHING, Sight
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import EnsureSession, Inject
from crossclaw.ledger.sqlite.sights import LINE, conditions
from tests.ledger.making import ANA, BEN, CHO, session

ROOT = SessionKey.main("main")
TREE = Sight(trees=(frozenset({ROOT.text}),))


async def put(ledger: Ledger, key: SessionKey, at: int, parent: SessionKey | None = None) -> None:
    new = NewSession(
        key=key,
        session_id=f"id-{key}",
        label=f"l-{at % 2}-{key.agent_id}-{at}",
        spawned_by=parent.text if parent else None,
    )
    said = NewEntry(entry_id="e", message=UserMessage("the word is heron"))
    await ledger.commit(EnsureSession(new=new, at=at), Inject(key=key, entries=[said], at=at))


async def family(ledger: Ledger) -> list[SessionKey]:
    """main ── kid ── grandkid, and strangers between them in time."""
    kid, grandkid = SessionKey.subagent("main", "k"), SessionKey.subagent("ops", "g")
    await put(ledger, ROOT, 1)
    await put(ledger, SessionKey.named("main", "stranger"), 2)
    await put(ledger, kid, 3, ROOT)
    await put(ledger, SessionKey.named("ops", "stranger"), 4)
    await put(ledger, grandkid, 5, kid)
    await put(ledger, SessionKey.named("spy", "stranger"), 6)
    return [grandkid, kid, ROOT]


async def listed(ledger: Ledger, sight: Sight, limit: int = 9) -> list[str]:
    return [s.key.text for s in await ledger.list_sessions(limit=limit, sight=sight)]


@pytest.mark.spec("V2", "L7")
async def test_a_tree_is_the_session_and_all_below_it_newest_first(ledger: Ledger) -> None:
    tree = await family(ledger)

    assert await listed(ledger, TREE) == [key.text for key in tree]
    assert await listed(ledger, TREE, limit=2) == [key.text for key in tree[:2]]
    assert await ledger.count_sessions(sight=TREE) == 3
    assert await ledger.count_sessions(sight=EVERYTHING) == 6


@pytest.mark.spec("V1", "L7")
async def test_the_parts_of_a_sight_all_hold(ledger: Ledger) -> None:
    grandkid, kid, root = await family(ledger)

    assert await listed(ledger, Sight(spawned_by=root.text)) == [kid.text]
    assert await listed(ledger, Sight(key=root.text)) == [root.text]
    assert await listed(ledger, Sight(agents=("ops",), trees=TREE.trees)) == [grandkid.text]
    assert await listed(ledger, Sight(agents=("op*",), key=root.text)) == []
    assert len(await listed(ledger, Sight(agents=("o*", "s?y")))) == 2
    assert await listed(ledger, Sight(trees=(*TREE.trees, frozenset({kid.text})))) == [
        grandkid.text,
        kid.text,
    ]


@pytest.mark.spec("L7")
async def test_offset_and_search_count_only_what_is_seen(ledger: Ledger) -> None:
    grandkid, kid, root = await family(ledger)

    second = await ledger.list_sessions(limit=1, offset=1, sight=TREE)
    found = await ledger.list_sessions(limit=9, search="agent", sight=TREE)
    hits = await ledger.search("heron", limit=2, sight=TREE)
    others = await ledger.search("heron", limit=9, agent_id="main", sight=Sight(agents=("o*",)))

    assert [s.key for s in second] == [kid]
    assert [s.key for s in found] == [grandkid, kid, root]
    assert [hit.key for hit in hits] == [grandkid, kid]
    assert others == []


@pytest.mark.spec("V3")
async def test_labels_are_looked_for_within_sight(ledger: Ledger) -> None:
    await family(ledger)

    assert await ledger.find_sessions_by_label("l-0-main-2", sight=TREE) == []
    assert len(await ledger.find_sessions_by_label("l-0-main-2", sight=EVERYTHING)) == 1
    assert len(await ledger.find_sessions_by_label("l-1-main-3", sight=TREE)) == 1


async def test_a_line_goes_up_to_the_root(ledger: Ledger) -> None:
    grandkid, kid, root = await family(ledger)

    assert await ledger.list_line(grandkid) == {grandkid.text, kid.text, root.text}
    assert await ledger.list_line(root) == {root.text}
    assert await ledger.list_line(SessionKey.named("main", "nobody")) == {"agent:main:nobody"}


async def test_a_circle_of_parents_ends(ledger: Ledger, tmp_path: Path) -> None:
    one, two = SessionKey.subagent("main", "1"), SessionKey.subagent("main", "2")
    await put(ledger, one, 1, two)
    await put(ledger, two, 2, one)

    assert await ledger.list_line(one) == {one.text, two.text}
    assert len(await listed(ledger, Sight(trees=(frozenset({one.text}),)))) == 2


@pytest.mark.parametrize(
    ("sight", "index"),
    [
        (TREE, "sessions_children (spawned_by=?)"),
        (Sight(spawned_by="x"), "sessions_children (spawned_by=?)"),
        (Sight(key="x"), "(key=?)"),
    ],
)
@pytest.mark.spec("B6")
async def test_an_index_answers_so_that_a_million_sessions_cost_nothing(
    ledger: Ledger, tmp_path: Path, sight: Sight, index: str
) -> None:
    where = "".join(f" AND {text}" for text, _ in conditions(sight))
    plan = explained(
        tmp_path,
        f"SELECT * FROM sessions WHERE archived_at IS NULL{where} ORDER BY updated_at DESC LIMIT 9",
        [value for _, value in conditions(sight)],
    )

    assert index in plan
    assert "SCAN sessions" not in plan
    assert "SCAN s" not in explained(tmp_path, LINE, ["x"])


def explained(folder: Path, statement: str, values: list[str]) -> str:
    db = apsw.Connection(str(folder / "ledger.sqlite"))
    rows = list(db.execute(f"EXPLAIN QUERY PLAN {statement}", tuple(values)))
    db.close()
    return "\n".join(str(row[3]) for row in rows)


async def test_the_sessions_of_all_agents_are_counted_in_one_look(ledger: Ledger) -> None:
    await ledger.commit(session(ANA), session(BEN), session(CHO))
    assert await ledger.count_sessions_of_agents() == {"main": 2, "ops": 1}
