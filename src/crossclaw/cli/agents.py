"""`agents`: lists, adds and removes agents. `add` and `remove` write into the config file and leave
everything else as it stands."""

from contextlib import suppress
from typing import Any

import anyio
import msgspec

from crossclaw.cli.asking import ask_text, is_somebody_there
from crossclaw.cli.checks import greets_as_gateway
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    json_option,
)
from crossclaw.cli.one_file import hold_to_all, this_file_option
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.run import talk_line
from crossclaw.cli.running import ask, run_async
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import table
from crossclaw.client.errors import ClientError
from crossclaw.client.finding import ConnectOptions, served_port
from crossclaw.client.peer import ADMIN, READ, GatewayPeer
from crossclaw.config.agent_entries import ENTRIES, LIST, put_agent
from crossclaw.config.agents import AgentConfig
from crossclaw.config.file import ConfigFile
from crossclaw.display.languages import tr
from crossclaw.domain.agents import (
    is_agent_id,
    normalize_agent_id,
    suggest_agent_id,
)
from crossclaw.domain.aliases import KeyPath

TAKEN_OVER_S = 5.0  # a gateway that is not at work needs one or two
LOOK_AGAIN_S = 0.2


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("agents.list", {}, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_rows(answer))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _rows(answer: dict[str, Any]) -> str:
    default = answer.get("defaultId")
    return table(
        ("agent", "name", ""),
        [
            (agent["id"], agent.get("name"), "default" if agent["id"] == default else "")
            for agent in answer["agents"]
        ],
    )


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("id", help="letters, digits, - and _")
    parser.add_argument("--name", help="how it is called in lists")
    parser.add_argument(
        "--description", metavar="LINE", help="what it is for; the other agents read it"
    )
    parser.add_argument("--workspace", metavar="FOLDER", help="where its files lie")
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="what it thinks with")
    this_file_option(parser)
    json_option(parser)


def _add(arguments: Arguments) -> int:
    agent_id = _agent_id(arguments.id)
    place = find_place()
    if (there := place.config.agents.find(agent_id)) is not None:
        return _add_again(arguments, place, there)
    about = arguments.description
    if about is None and not arguments.json and is_somebody_there():
        about = ask_text(tr("What is it for? One line, which other agents read"))
    options = {
        "name": arguments.name,
        "description": about,
        "workspace": arguments.workspace,
        "model": arguments.model,
    }
    agent = {"id": agent_id} | {name: value for name, value in options.items() if value}
    file = ConfigFile(place.paths.config_path, place.environ)
    before = file.value
    put_agent(file, agent)
    if not arguments.this_file:
        hold_to_all(place, before, file, wired("create", name=agent_id))
    file.save()
    if arguments.json:
        out_json({"agent": agent, "path": str(file.path)})
        return Exit.OK
    out(tr('added the agent "{agent}" to {path}').format(agent=agent_id, path=file.path))
    known = _is_taken_over(place, agent_id)
    out(tr("The gateway that runs knows it.") if known else place.when_a_change_counts)
    _tell_how_to_talk(place, agent_id)
    return Exit.OK


def _add_again(arguments: Arguments, place: StateLocation, agent: AgentConfig) -> int:
    """Changes an agent that exists already by what the options say; without any, nothing changes."""
    options = {
        "name": arguments.name,
        "description": arguments.description,
        "workspace": arguments.workspace,
        "model": arguments.model,
    }
    file = ConfigFile(place.paths.config_path, place.environ)
    before = file.value
    changed = put_agent_values(file, place, agent, options)
    if changed:
        if not arguments.this_file:
            hold_to_all(place, before, file, wired("update", agentId=agent.id))
        file.save()
    if arguments.json:
        out_json({"agent": {"id": agent.id}, "path": str(file.path), "changed": changed})
        return Exit.OK
    out(tr('the agent "{agent}" is already there').format(agent=agent.id))
    if changed:
        out(tr("changed in {path}: {names}").format(path=file.path, names=", ".join(changed)))
    _tell_how_to_talk(place, agent.id)
    return Exit.OK


def _tell_how_to_talk(place: StateLocation, agent_id: str) -> None:
    asking = place.config.agents.default_id
    model = place.config.model_for(asking, place.environ).primary
    line = f'crossclaw message send "{tr("Hello")}" --agent {agent_id}'
    out(tr("To talk with it: {command}").format(command=line))
    if agent_id != asking:
        line = talk_line(is_scripted=model.startswith("rehearsal/"), agent=agent_id)
        out(tr("To let {agent} ask it: {command}").format(agent=asking, command=line))


def put_agent_values(
    file: ConfigFile, place: StateLocation, agent: AgentConfig, wanted: dict[str, str | None]
) -> list[str]:
    """Writes the values that differ; returns their names."""
    given = {name: value for name, value in wanted.items() if value}
    fresh = {name: value for name, value in given.items() if getattr(agent, name) != value}
    where = find_agent_place(place, agent.id)
    if fresh and where is None:
        put_agent(file, {"id": agent.id} | fresh)
    elif where is not None:
        for name, value in fresh.items():
            file.put((*where, name), value)
    return list(fresh)


def find_agent_place(place: StateLocation, agent_id: str) -> KeyPath | None:
    """The agent's path in the config; None if it exists without being named."""
    agents = place.config.agents
    for index, agent in enumerate(agents.listed):
        if agent.id == agent_id:
            return (*LIST, index)
    written = (name for name in agents.named if normalize_agent_id(name) == agent_id)
    name = next(written, None)
    return (*ENTRIES, name) if name else None


def _remove_arguments(parser: Parser) -> None:
    parser.add_argument("id", help="of a configured agent; crossclaw agents list shows them")
    parser.add_argument("--force", action="store_true", help="taken and without effect here")
    this_file_option(parser)
    json_option(parser)


def _remove(arguments: Arguments) -> int:
    place, agent_id = find_place(), _agent_id(arguments.id)
    path = _place_of(place, agent_id)
    file = ConfigFile(place.paths.config_path, place.environ)
    if not file.has(path):
        raise CommandFailed(
            f'the agent "{agent_id}" does not stand in {file.path} itself',
            hint="It comes from an included file; take it out there.",
        )
    before = file.value
    file.remove(path)
    if not arguments.this_file:
        hold_to_all(place, before, file, wired("delete", agentId=agent_id))
    file.save()
    if arguments.json:
        out_json({"agentId": agent_id, "path": str(file.path)})
        return Exit.OK
    out(f'took the agent "{agent_id}" out of {file.path}')
    gone = _is_taken_over(place, agent_id, wanted=False)
    out("The gateway that runs has let it go." if gone else place.when_a_change_counts)
    out("Its sessions, jobs and workspace stay: they can be read, and nobody answers in them.")
    out(f"To delete one of them: crossclaw sessions delete agent:{agent_id}:main")
    return Exit.OK


def wired(method: str, **named: str) -> str:
    params = ", ".join(f'{name}: "{value}"' for name, value in named.items())
    return f"crossclaw gateway call agents.{method} --params '{{{params}}}'"


def _place_of(place: StateLocation, agent_id: str) -> KeyPath:
    """The agent's path in the config. The agent that answers by default cannot be removed."""
    agents = place.config.agents
    if agents.find(agent_id) is None:
        raise CommandFailed(
            f'there is no agent "{agent_id}"; configured: {", ".join(agents.ids())}'
        )
    if len(agents.ids()) == 1:
        raise CommandFailed(
            f'"{agent_id}" is the only agent, and somebody has to answer',
            hint="First add another: crossclaw agents add <id>",
        )
    if agent_id == agents.default_id:
        raise CommandFailed(
            f'"{agent_id}" is the default agent, which answers when nobody is named',
            hint="First make another the default: default: true in its entry of agents.list",
        )
    found = find_agent_place(place, agent_id)
    assert found is not None, "one of several is named"
    return found


def _is_taken_over(place: StateLocation, agent_id: str, *, wanted: bool = True) -> bool:
    """Whether the running gateway has taken over the change; it is given a few seconds."""
    port = served_port(place)
    if port is None or place.config.gateway.reload.mode == "off" or not greets_as_gateway(port):
        return False

    async def look() -> int:
        with anyio.move_on_after(TAKEN_OVER_S):
            while True:
                if await _knows(place, agent_id) is wanted:
                    return True
                await anyio.sleep(LOOK_AGAIN_S)
        return False

    return bool(run_async(look))


async def _knows(place: StateLocation, agent_id: str) -> bool | None:
    """Whether the running gateway knows the agent; None if it cannot be asked."""
    with suppress(ClientError):  # it opens anew just now
        async with connect_peer(ConnectOptions(), lambda: place, READ, embed=False) as peer:
            listed = await peer.call("agents.list", {})
            return agent_id in [agent["id"] for agent in listed["agents"]]
    return None


def _agent_id(text: str) -> str:
    lowered = text.strip().lower()
    if not is_agent_id(lowered):
        raise UsageError(
            f"{text!r} is not an agent id (letters, digits, - and _, at most 64)",
            hint=f"For example: {suggest_agent_id(text) or 'librarian'}",
        )
    return lowered


def _prompt_arguments(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", help="the agent; the default one where none is named")
    parser.add_argument("--session", metavar="KEY", help="as in this session, such as a group's")
    asking_options(parser)


def _prompt(arguments: Arguments) -> int:
    """Shows what the agent's model gets before the first message, and how large it is."""
    asked = {"agentId": arguments.id, "sessionKey": arguments.session}
    params = {name: value for name, value in asked.items() if value}

    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("agents.prompt", params, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_prompt_text(answer))
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _prompt_text(answer: dict[str, Any]) -> str:
    tools = [
        f"{tool['name']} ({tool['tokens']} tokens)\n{tool['description']}\n"
        + msgspec.json.format(msgspec.json.encode(tool["schema"]), indent=2).decode()
        for tool in answer["tools"]
    ]
    counts = (
        f"{answer['systemTokens']:,} tokens of prompt and {answer['toolTokens']:,} of {len(tools)} tools: "
        f"{answer['totalTokens']:,} in all, estimated; for {answer['model']} in {answer['sessionKey']}"
    )
    return "\n\n".join([answer["system"], "─" * 40, *tools, "─" * 40, counts])


COMMANDS = {
    "list": CommandSpec(asking_options, _list),
    "prompt": CommandSpec(_prompt_arguments, _prompt),
    "add": CommandSpec(_add_arguments, _add),
    "remove": CommandSpec(_remove_arguments, _remove),
    "delete": CommandSpec(_remove_arguments, _remove),
}
