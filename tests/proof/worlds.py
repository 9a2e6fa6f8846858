"""Small worlds: every forest of sessions up to a size, owned by two agents in every way, and every
setting that visibility knows of."""

import os
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import apsw
import msgspec

from crossclaw.config import Config
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import EnsureSession, Inject
from tests.proof.oracle import Node

Shape = tuple[int | None, ...]
"""The parent of each node; parents come first."""

REACH: dict[str, dict[str, Any]] = {
    "off": {"enabled": False},
    "any": {},
    "both": {"allow": ["a", "b"]},
    "one": {"allow": ["a"]},
}
ABSENT = "agent:{}:absent"
NOWHERE = str(uuid5(NAMESPACE_URL, "nowhere"))


def shapes(size: int) -> list[Shape]:
    """One of each kind of rooted forest: 1, 2, 4, 9 for one to four nodes."""
    parents = product(*[(None, *range(node)) for node in range(size)])
    return list({_form(shape): shape for shape in parents}.values())


def _form(shape: Shape, node: int | None = None) -> str:
    below = (each for each, parent in enumerate(shape) if parent == node)
    return "(" + "".join(sorted(_form(shape, each) for each in below)) + ")"


def forests(size: int) -> Iterator[list[Node]]:
    for shape, agents, archived in product(
        shapes(size), product("ab", repeat=size), (None, size - 1)
    ):
        yield [
            Node(agent, parent, node == archived)
            for node, (agent, parent) in enumerate(zip(agents, shape, strict=True))
        ]


class Setting(NamedTuple):
    mode: str
    """`tools.sessions.visibility`"""
    a2a: str
    shows: str
    """`sandbox.sessionToolsVisibility`"""
    box: str
    """`sandbox.mode`, or `run`: this run was begun by a sandboxed one"""
    rooted: bool = False
    """Whether the caller's authority is limited to the tree of the first node."""

    def config(self) -> Config:
        sandbox = {
            "mode": "off" if self.box == "run" else self.box,
            "sessionToolsVisibility": self.shows,
        }
        raw = {
            "agents": {"defaults": {"sandbox": sandbox}, "list": [{"id": "a"}, {"id": "b"}]},
            "tools": {"sessions": {"visibility": self.mode}, "agentToAgent": REACH[self.a2a]},
            # A send that would be allowed is then answered and changes nothing.
            "session": {"sendPolicy": {"default": "deny"}},
        }
        return msgspec.convert(raw, Config)


SETTINGS = [
    Setting(*each)
    for each in product(
        ("self", "tree", "agent", "all"),
        REACH,
        ("spawned", "all"),
        ("off", "run", "non-main", "all"),
    )
]
SETTINGS += [
    each._replace(rooted=True)
    for each in SETTINGS
    if each.a2a == "any" and each.box in ("off", "run")
]


class Place(NamedTuple):
    """A session of the world, by all its names."""

    key: SessionKey
    session_id: str
    label: str
    at: int


def places(nodes: list[Node]) -> list[Place]:
    """The first root of an agent is its main session. Each agent calls its first session `l0`, the
    next `l1`: labels meet across agents."""
    mains: set[str] = set()
    ranks = {agent: count() for agent in "ab"}
    found = []
    for number, node in enumerate(nodes):
        key = SessionKey.named(node.agent, f"root{number}")
        if node.parent is not None:
            key = SessionKey.subagent(node.agent, str(uuid5(NAMESPACE_URL, f"child{number}")))
        elif node.agent not in mains:
            mains.add(node.agent)
            key = SessionKey.main(node.agent)
        session_id = str(uuid5(NAMESPACE_URL, f"id{number}"))
        newest = 10 + number * 3 % 5  # neither the order of the tree nor its reverse
        found.append(Place(key, session_id, f"l{next(ranks[node.agent])}", newest))
    return found


async def settle(folder: Path, nodes: list[Node]) -> Ledger:
    os.makedirs(folder, exist_ok=True)
    path = folder / "ledger.sqlite"
    ledger, there = open_ledger(path, inline=True), places(nodes)
    for number, (node, place) in enumerate(zip(nodes, there, strict=True)):
        parent = None if node.parent is None else there[node.parent].key.text
        new = NewSession(
            key=place.key, session_id=place.session_id, label=place.label, spawned_by=parent
        )
        words = NewEntry(entry_id=f"e{number}", message=UserMessage(f"node {number}"))
        await ledger.commit(
            EnsureSession(new=new, at=place.at),
            Inject(key=place.key, entries=[words], at=place.at),
        )
    gone = [place.key.text for node, place in zip(nodes, there, strict=True) if node.archived]
    if gone:
        db = apsw.Connection(str(path))
        db.execute("UPDATE sessions SET archived_at = 1 WHERE key = ?", (gone[0],))
        db.close()
    return ledger
