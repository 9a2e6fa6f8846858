"""The tool policy: which tools a session gets, and why not the others.

Layers are and-ed: a tool is there when every layer lets it pass. Within a layer `deny` wins, and
`allow`, when given, is the whole list. Names may be globs (`sessions_*`), groups (`group:fs`) or
OpenClaw's older names (`bash`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from crossclaw.config.model import Config
from crossclaw.config.toolnames import ALIASES
from crossclaw.config.tools import ToolPolicy, ToolProfile
from crossclaw.domain.authority import Authority, Delegator
from crossclaw.domain.tools import ToolDeclaration
from crossclaw.policy.decision import Decision

PROFILES: Mapping[ToolProfile, tuple[str, ...] | None] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:sessions", "group:memory", "image"),
    "messaging": (
        *("group:messaging", "sessions_list", "sessions_history", "sessions_send"),
        "session_status",
    ),
    "full": None,
}


class Layer(msgspec.Struct, frozen=True):
    """One list of rules, with the name of the setting that it comes from."""

    setting: str
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    """Tools that neither `deny` nor `closed` means."""
    closed: Callable[[ToolDeclaration], bool] | None = None
    """Denies tools for what they declare, whatever they are called."""

    def decide(self, tool: ToolDeclaration) -> Decision:
        rule = _matching(tool, self.deny)
        if rule is None and self.closed is not None and self.closed(tool):
            rule = tool.name
        if rule is not None and _matching(tool, self.unless) is None:
            return Decision(False, f"{self.setting} denies {rule}")
        if self.allow is not None and _matching(tool, self.allow) is None:
            return Decision(False, f"{self.setting} does not allow it")
        return Decision(True, f"{self.setting} allows it")

    def may_allow(self, prefixes: Sequence[str]) -> bool:
        """Whether any tool whose names begin so could pass."""
        if _all_denied(prefixes, self.deny) and not _meets(prefixes, self.unless):
            return False
        return self.allow is None or _meets(prefixes, self.allow)


def decide_tool(
    tool: ToolDeclaration, layers: Iterable[Layer], authority: Authority | None = None
) -> Decision:
    for layer in layers:
        decision = layer.decide(tool)
        if not decision.allowed:
            return decision
    if authority is not None and not authority.allows_tool(*tool.names):
        return Decision(False, "this run was not given it by whoever caused the run")
    return Decision(True, "no policy is against it")


def may_allow_any(prefixes: Sequence[str], layers: Iterable[Layer], authority: Authority) -> bool:
    """Whether it is worth asking a server for its tools, by the beginnings of their names, in each spelling.
    A yes may be wrong, since every tool is decided by itself in the end; a no never is."""
    given = authority.tools
    if given is not None and not any(name.startswith(tuple(prefixes)) for name in given):
        return False
    return all(layer.may_allow(prefixes) for layer in layers)


def layer_of(setting: str, policy: ToolPolicy) -> Layer:
    """One policy as a layer of its own; without `allow`, its profile is the list."""
    listed = policy.allow
    if listed is None and policy.profile is not None:
        listed = PROFILES[policy.profile]
    allow = None if listed is None else (*listed, *policy.also_allow)
    return Layer(setting, allow, policy.deny)


def tool_layers(
    config: Config, agent_id: str, *, model: str = "", sandboxed: bool = False
) -> tuple[Layer, ...]:
    """Every layer that stands between an agent and its tools. `model` is `provider/model`."""
    shared, own = config.tools, config.agents.get(agent_id).tools
    layers = [
        _profile(config, agent_id),
        Layer("tools", _with(shared.allow, shared.also_allow), shared.deny),
        Layer(f"agents.list[{agent_id}].tools", _with(own.allow, own.also_allow), own.deny),
    ]
    for place, policies in (("tools", shared.by_provider), (layers[2].setting, own.by_provider)):
        layers += [
            layer_of(f"{place}.byProvider[{name}]", policy)
            for name, policy in policies.items()
            if name.lower() in (model.lower(), model.lower().partition("/")[0])
        ]
    if sandboxed:
        layers += _sandbox(config, agent_id)
    return (*layers, *_switches(config, agent_id))


def delegator_layers(config: Config, delegator: Delegator) -> tuple[Layer, ...]:
    """The layers of a session's tools, which also hold for whoever acts on its behalf."""
    if not config.agents.has(delegator.agent_id):
        return (
            Layer(
                f"the agent {delegator.agent_id}, for which it works and which is gone", allow=()
            ),
        )
    layers = tool_layers(
        config, delegator.agent_id, model=delegator.model, sandboxed=delegator.sandboxed
    )
    return tuple(
        msgspec.structs.replace(
            each, setting=f"{each.setting} of agent {delegator.agent_id}, for which it works,"
        )
        for each in layers
    )


def provider_rules(config: Config, agent_id: str, model: str) -> frozenset[str]:
    """The settings that hold for an agent because of the model that it uses, `provider/model`."""
    rules = tool_layers(config, agent_id, model=model)
    return frozenset(each.setting for each in rules if ".byProvider[" in each.setting)


def _profile(config: Config, agent_id: str) -> Layer:
    """The agent's own profile, which replaces the shared one, and so do its additions."""
    shared, own = config.tools, config.agents.get(agent_id).tools
    name = own.profile or shared.profile
    listed = PROFILES[name] if name else None
    return Layer(f"tools.profile {name}", _with(listed, own.also_allow or shared.also_allow))


def _sandbox(config: Config, agent_id: str) -> list[Layer]:
    """The layers of a sandboxed session. MCP servers work outside of the sandbox, and so does the web: both
    only when asked for."""
    policy = config.agents.get(agent_id).tools.sandbox.tools
    if policy == ToolPolicy():
        policy = config.tools.sandbox.tools
    network = config.agents.sandbox_for(agent_id).allows_network
    outside = ("group:plugins",) if network else ("group:plugins", "group:web")
    asked = (*(policy.allow or ()), *policy.also_allow)
    return [
        layer_of("tools.sandbox.tools", policy),
        Layer("the sandbox (see tools.sandbox.tools.alsoAllow)", deny=outside, unless=asked),
    ]


def _switches(config: Config, agent_id: str) -> list[Layer]:
    settings = config.agents.exec_for(agent_id, config.tools.exec)
    switched = []
    if settings.rule.security == "deny":
        switched.append(Layer("tools.exec.security", deny=("group:runtime",)))
    if settings.host == "node":
        switched.append(Layer("tools.exec.host", deny=("group:runtime",)))
    if not config.tools.web.fetch.enabled:
        switched.append(Layer("tools.web.fetch.enabled", deny=("web_fetch",)))
    return switched


def _with(listed: tuple[str, ...] | None, more: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if listed is None else (*listed, *more)


def rule_that_asks(config: Config, agent_ids: Iterable[str], tool: ToolDeclaration) -> str | None:
    """The rule of `tools.ask` by which a call of this tool needs a person's approval: of everybody, or of one
    of these agents."""
    found = [_matching(tool, map(_of_servers, config.tools.ask))]
    for agent in filter(None, map(config.agents.find, agent_ids)):
        found.append(_matching(tool, map(_of_servers, agent.tools.ask)))
    return next(filter(None, found), None)


def _of_servers(rule: str) -> str:
    """The rule as a pattern: `mcp:*` is every tool of every MCP server, `mcp:server` every one of it,
    `mcp:server/tool` one."""
    head, colon, rest = rule.strip().partition(":")
    if head.lower() != "mcp" or not colon:
        return rule
    server, _, tool = rest.partition("/")
    return "group:plugins" if server == "*" and not tool else f"{server}__{tool or '*'}"


def _matching(tool: ToolDeclaration, rules: Iterable[str]) -> str | None:
    """The rule that means this tool, as it is written: by one of its names, or by its group."""
    names = [_plain(name) for name in tool.names]
    for rule in rules:
        plain = _plain(rule)
        if plain in tool.group_rules or any(fnmatchcase(name, plain) for name in names):
            return rule
    return None


def _meets(prefixes: Iterable[str], rules: Sequence[str]) -> bool:
    """Whether a rule could match a tool whose name begins with one of the prefixes: the fixed part of the rule and
    the prefix begin alike."""
    begins = [prefix.lower() for prefix in prefixes]
    return any(
        pattern.startswith(begin) or any(fnmatchcase(begin, pattern[:end]) for end in range(1, len(pattern) + 1))
        for pattern in _patterns(rules)
        for begin in begins
    )  # fmt: skip


def _all_denied(prefixes: Iterable[str], rules: Sequence[str]) -> bool:
    """Whether rules deny all names that begin so: only a rule that ends in a star means whatever may follow."""
    begins = [prefix.lower() for prefix in prefixes]
    return any(
        pattern.endswith("*") and any(fnmatchcase(begin, pattern) for begin in begins)
        for pattern in _patterns(rules)
    )


def _patterns(rules: Iterable[str]) -> Iterator[str]:
    """Rules as patterns of names of MCP tools, none of which is in another group."""
    for rule in rules:
        plain = _plain(rule)
        yield "*__*" if plain == "group:plugins" else plain


def _plain(name: str) -> str:
    lowered = name.strip().lower()
    return ALIASES.get(lowered, lowered)
