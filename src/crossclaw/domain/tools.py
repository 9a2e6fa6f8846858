"""Declarations of tools: what every tool says of itself, and the table of the built-in ones.

A declaration is all that rules go by: which `group:` means a tool, what a crash in the middle of a call
means, and whether sub-agents get it. So a rule cannot miss a tool that came after the rule was written.

`effect` says what may happen after a crash in the middle of a call:
  pure       nothing outside changes: it runs again;
  once       it makes itself unique by its call id: it runs again and happens once;
  effects    it runs at most once: after a crash the model hears that its fate is unknown.
"""

from typing import Literal, get_args

import msgspec

from crossclaw.domain.errors import CrossclawError

ToolEffect = Literal["pure", "once", "effects"]
# fmt: off
ToolGroup = Literal[
    "fs", "runtime", "sessions", "agents", "guests", "web", "memory", "ui", "automation", "messaging",
    "nodes", "media", "plugins", "other",
]
# fmt: on
SESSION_GROUPS: tuple[ToolGroup, ...] = ("sessions", "agents")
_NOT_OF_OPENCLAW: tuple[ToolGroup, ...] = ("fs", "runtime", "guests", "plugins", "other")

GROUP_RULES = frozenset({"group:openclaw", *(f"group:{name}" for name in get_args(ToolGroup))})
"""How a rule names a group."""


class UndeclaredTool(CrossclawError):
    """A tool does not say what it is: the gateway must not start with it."""


class ToolDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    group: ToolGroup
    effect: ToolEffect
    children: bool
    """Whether sub-agents have it without being given it by name."""
    other_names: tuple[str, ...] = ()
    """Other names by which rules may mean it, beside `name`."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.other_names)

    @property
    def group_rules(self) -> tuple[str, ...]:
        """The rules that mean it by its group."""
        own = f"group:{self.group}"
        return (own,) if self.group in _NOT_OF_OPENCLAW else (own, "group:openclaw")


def mcp_declaration(name: str, other_names: tuple[str, ...] = ()) -> ToolDeclaration:
    """The declaration of an MCP server's tool, an ordinary tool: sub-agents have it, and its effects are unknown."""
    return ToolDeclaration(
        name=name, group="plugins", effect="effects", children=True, other_names=other_names
    )


# fmt: off
BUILT_IN = {
    each.name: each
    for each in (
        ToolDeclaration(name="read", group="fs", effect="pure", children=True),
        ToolDeclaration(name="write", group="fs", effect="effects", children=True),
        ToolDeclaration(name="edit", group="fs", effect="effects", children=True),
        ToolDeclaration(name="exec", group="runtime", effect="effects", children=True),
        ToolDeclaration(name="web_fetch", group="web", effect="pure", children=True),
        ToolDeclaration(name="message", group="messaging", effect="once", children=True),
        ToolDeclaration(name="sessions_list", group="sessions", effect="pure", children=False),
        ToolDeclaration(name="sessions_history", group="sessions", effect="pure", children=False),
        ToolDeclaration(name="sessions_send", group="sessions", effect="once", children=False),
        ToolDeclaration(name="sessions_spawn", group="sessions", effect="once", children=False),
        ToolDeclaration(name="session_status", group="sessions", effect="once", children=False),
        ToolDeclaration(name="agents_list", group="agents", effect="pure", children=False),
        ToolDeclaration(name="sessions_wait", group="guests", effect="pure", children=False),
        ToolDeclaration(name="sessions_reply", group="guests", effect="once", children=False),
    )
}
# fmt: on


def names_in(*groups: ToolGroup) -> frozenset[str]:
    """The names of the built-in tools of these groups."""
    return frozenset(each.name for each in BUILT_IN.values() if each.group in groups)


SESSION_TOOLS = names_in(*SESSION_GROUPS)


def built_in(name: str) -> ToolDeclaration:
    if name not in BUILT_IN:
        raise UndeclaredTool(f"the tool {name!r} is not declared; add it to BUILT_IN in {__name__}")
    return BUILT_IN[name]


def require_declared(name: str, declared: ToolDeclaration | None) -> ToolDeclaration:
    """The tool's declaration; raises if it has none."""
    if not isinstance(declared, ToolDeclaration):
        raise UndeclaredTool(f"the tool {name} does not declare its group, effect and children")
    if declared.group not in get_args(ToolGroup) or declared.effect not in get_args(ToolEffect):
        raise UndeclaredTool(
            f"the tool {name} declares an unknown group or effect: {declared.group}, {declared.effect}"
        )
    return declared
