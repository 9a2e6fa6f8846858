"""Lint: settings that are allowed and probably a mistake.

A list that names nobody restricts nothing, silently; so it is reported. Nothing here keeps a gateway from
starting: OpenClaw starts with it too.
"""

from collections.abc import Iterable, Iterator

from crossclaw.config.check import Note, near_miss
from crossclaw.config.model import Config
from crossclaw.config.named_models import each_agent, named_models
from crossclaw.config.providers import model_fault
from crossclaw.config.toolnames import KNOWN, is_plain
from crossclaw.config.tools import AgentTools, ToolPolicy
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.aliases import KeyPath

TOKEN_CHARS_MIN = 32  # of hooks.token: shorter ones can be guessed by who tries long enough


def lint(config: Config) -> Iterator[Note]:
    yield from _of_agents(config)
    yield from _of_tools(config)
    yield from _of_models(config)
    zone = config.agents.defaults.user_timezone
    if zone and (text := _zone_fault(zone)):
        yield Note(("agents", "defaults", "userTimezone"), text)
    token = config.hooks.token
    if config.hooks.enabled and token and len(token.reveal()) < TOKEN_CHARS_MIN:
        text = (
            f"short enough to be guessed; use a random text of {TOKEN_CHARS_MIN} characters or more"
        )
        yield Note(("hooks", "token"), text)


def _of_agents(config: Config) -> Iterator[Note]:
    known = set(config.agents.ids())
    lists: dict[KeyPath, Iterable[str]] = {
        ("tools", "agentToAgent", "allow"): config.tools.agent_to_agent.allow,
        ("hooks", "allowedAgentIds"): config.hooks.allowed_agent_ids or (),
        (
            "agents",
            "defaults",
            "subagents",
            "allowAgents",
        ): config.agents.defaults.subagents.allow_agents or (),
    }
    for path, agent in each_agent(config):
        lists[(*path, "subagents", "allowAgents")] = agent.subagents.allow_agents or ()
    for path, listed in lists.items():
        for index, name in enumerate(listed):
            # Who may talk to whom is told letter by letter, the rest however it is spelled.
            spelled = name if path[-2] == "agentToAgent" else normalize_agent_id(name)
            if "*" not in name and spelled not in known:
                yield Note((*path, index), _unknown("agent", name, known))


def _of_tools(config: Config) -> Iterator[Note]:
    policies: dict[KeyPath, AgentTools | ToolPolicy] = {
        ("tools",): config.tools,
        ("tools", "subagents", "tools"): config.tools.subagents.tools,
        ("tools", "sandbox", "tools"): config.tools.sandbox.tools,
    }
    for path, agent in each_agent(config):
        policies[(*path, "tools")] = agent.tools
        policies[(*path, "tools", "sandbox", "tools")] = agent.tools.sandbox.tools
    for path, policy in policies.items():
        lists = {"allow": policy.allow or (), "alsoAllow": policy.also_allow, "deny": policy.deny}
        for name, rules in lists.items():
            yield from _of_rules((*path, name), rules)
    yield from _of_rules(("gateway", "tools", "deny"), config.gateway.tools.deny)
    yield from _of_rules(("gateway", "tools", "allow"), config.gateway.tools.allow)


def _of_rules(path: KeyPath, rules: Iterable[str]) -> Iterator[Note]:
    for index, rule in enumerate(rules):
        if is_plain(rule) and rule.strip().lower() not in KNOWN:
            yield Note((*path, index), _unknown("tool", rule, set(KNOWN)))


def _unknown(what: str, name: str, known: set[str]) -> str:
    meant = near_miss(name, known)
    return f'"{name}" names no known {what}' + (f'; did you mean "{meant}"?' if meant else "")


def _of_models(config: Config) -> Iterator[Note]:
    """Models that cannot answer, in the words of the run that would fail by it."""
    for where, name in named_models(config):
        if fault := model_fault(config.models, config.agents.model_named(name)):
            yield Note(where, fault)


def _zone_fault(name: str) -> str | None:
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415  only where a zone is named

    try:
        ZoneInfo(name.strip())
        return None
    except (KeyError, ValueError, OSError):
        cities = {zone.rpartition("/")[2]: zone for zone in sorted(available_timezones())}
        meant = near_miss(name.rpartition("/")[2], set(cities))
        hint = f'; did you mean "{cities[meant]}"?' if meant else "; use a name like Europe/Vienna"
        return f'there is no time zone "{name}", so the machine\'s own is used{hint}'
