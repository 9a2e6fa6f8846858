"""`models`: the models that agents may use, and those that they use."""

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    asking_options,
    json_option,
)
from crossclaw.cli.place import find_served_place
from crossclaw.cli.running import ask
from crossclaw.cli.say import note, out, out_json
from crossclaw.cli.tables import table
from crossclaw.client.peer import READ, GatewayPeer


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("models.list", {}, timeout_s=arguments.timeout)
        rows = [
            (f"{model['provider']}/{model['id']}", model.get("name"), model.get("contextWindow"))
            for model in answer["models"]
        ]
        out_json(answer) if arguments.json else out(table(("model", "name", "context"), rows))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _status(arguments: Arguments) -> int:
    place = find_served_place(note)
    config, environ = place.config, place.environ
    chosen = {each: config.model_for(each, environ).primary for each in config.agents.ids()}
    out_json(chosen) if arguments.json else out(table(("agent", "model"), list(chosen.items())))
    return Exit.OK


COMMANDS = {"list": CommandSpec(asking_options, _list), "status": CommandSpec(json_option, _status)}
