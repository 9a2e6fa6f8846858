"""Agents in the text of a config file: finding, adding, changing and removing an entry."""

from collections.abc import Mapping
from typing import Any

from crossclaw.config.file import ConfigFile
from crossclaw.domain.agents import DEFAULT_AGENT_ID, normalize_agent_id
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import Invalid

LIST: KeyPath = ("agents", "list")
ENTRIES: KeyPath = ("agents", "entries")


def put_agent(file: ConfigFile, agent: dict[str, Any]) -> None:
    """Adds an agent to the list or the map, whichever the file has. In a file with neither, `main` exists
    without being named; it is named first now, or the new agent would be the only one."""
    if file.has(LIST):
        file.insert(LIST, agent)
    elif file.has(ENTRIES):
        rest = {name: value for name, value in agent.items() if name != "id"}
        file.put((*ENTRIES, agent["id"]), rest)
    else:
        first = [{"id": DEFAULT_AGENT_ID}] if agent["id"] != DEFAULT_AGENT_ID else []
        file.put(LIST, [*first, agent])


def find_agent(value: Any, agent_id: str) -> KeyPath | None:
    """The path of an agent's entry, if the file itself has one."""
    agents = value.get("agents") if isinstance(value, dict) else None
    if not isinstance(agents, dict):
        return None
    listed, named = agents.get("list"), agents.get("entries")
    for index, each in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(each, dict) and normalize_agent_id(str(each.get("id", ""))) == agent_id:
            return (*LIST, index)
    for name in named if isinstance(named, dict) else {}:
        if normalize_agent_id(name) == agent_id:
            return (*ENTRIES, name)
    return None


def change_agent(file: ConfigFile, agent_id: str, changes: Mapping[str, Any]) -> None:
    where = find_agent(file.value, agent_id)
    if where is None:
        put_agent(file, {"id": agent_id})
        where = find_agent(file.value, agent_id)
        assert where is not None
    for name, value in changes.items():
        path = (*where, *name.split("."))
        if value is not None:
            file.put(path, value)
        elif file.has(path):
            file.remove(path)


def remove_agent(file: ConfigFile, agent_id: str) -> int:
    """Removes an agent; returns how many bindings went with it."""
    where = find_agent(file.value, agent_id)
    if where is None:
        raise Invalid(f'the agent "{agent_id}" comes from an included file; take it out there')
    file.remove(where)
    bindings = file.value.get("bindings")
    kept = [
        each
        for each in (bindings if isinstance(bindings, list) else [])
        if not (
            isinstance(each, dict) and normalize_agent_id(str(each.get("agentId", ""))) == agent_id
        )
    ]
    if isinstance(bindings, list) and len(kept) != len(bindings):
        file.put(("bindings",), kept)
        return len(bindings) - len(kept)
    return 0
