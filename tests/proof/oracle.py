"""What the specification says about visibility, written down again without looking at the code."""

from typing import NamedTuple

A2A = {"off": set(), "any": {"a", "b"}, "both": {"a", "b"}, "one": {"a"}}
"""Who may reach other agents and be reached, by the settings of `worlds.REACH`."""


class Node(NamedTuple):
    agent: str
    parent: int | None
    archived: bool = False


def above(nodes: list[Node], one: int) -> list[int]:
    parent = nodes[one].parent
    return [one] if parent is None else [one, *above(nodes, parent)]


def may_reach(a2a: str, one: Node, other: Node) -> bool:
    return one.agent == other.agent or {one.agent, other.agent} <= A2A[a2a]


def may_see(
    nodes: list[Node], me: int, it: int, *, a2a: str, boxed: bool, shows: str, mode: str, root: int | None
) -> bool:  # fmt: skip
    if not may_reach(a2a, nodes[me], nodes[it]) or (
        root is not None and root not in above(nodes, it)
    ):
        return False
    if boxed and shows == "spawned":
        return nodes[it].parent == me
    same_agent = nodes[me].agent == nodes[it].agent
    return {"self": it == me, "tree": me in above(nodes, it), "agent": same_agent, "all": True}[
        mode
    ]
