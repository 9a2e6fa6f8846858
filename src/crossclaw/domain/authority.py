"""Authority: what a queued message may do. It is stored with the row and only shrinks on its way.

A set that is None means "no limit of this kind". There is one way to make a child's authority:
`parent.meet(limits)`. Nothing adds a right.
"""

import msgspec

HOPS_UNLIMITED = 1_000_000  # until the config is met


class Maker(msgspec.Struct, frozen=True, omit_defaults=True):
    """A credential that something was begun by."""

    credential_id: str
    epoch: int | None = None
    """None: in whatever epoch, as long as the credential is there. So it is with what a job begins:
    another token in place of the one that it was made with does not end it."""


class Authority(msgspec.Struct, frozen=True, omit_defaults=True):
    owner: bool = False
    """May do what only the person who owns the gateway may."""
    sandboxed: bool = False
    may_spawn: bool = True
    tools: frozenset[str] | None = None
    denied_tools: frozenset[str] = frozenset()
    roots: frozenset[str] | None = None
    """Sessions whose trees it may see."""
    hops_left: int = HOPS_UNLIMITED
    """Sends and spawns that may still follow; `session.agentToAgent.maxHops` at the beginning."""

    made_by: frozenset[Maker] = frozenset()
    """The credentials that it goes back to; when one of them ends, so does this."""

    def meet(self, other: "Authority") -> "Authority":
        """What both allow."""
        return Authority(
            owner=self.owner and other.owner,
            sandboxed=self.sandboxed or other.sandboxed,
            may_spawn=self.may_spawn and other.may_spawn,
            tools=_both(self.tools, other.tools),
            denied_tools=self.denied_tools | other.denied_tools,
            roots=_both(self.roots, other.roots),
            hops_left=min(self.hops_left, other.hops_left),
            made_by=self.made_by | other.made_by,
        )

    def allows_tool(self, name: str, *also: str) -> bool:
        """`also`: its other names, by any of which it may be given or denied."""
        names = {name, *also}
        given = self.tools is None or not names.isdisjoint(self.tools)
        return given and names.isdisjoint(self.denied_tools)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
