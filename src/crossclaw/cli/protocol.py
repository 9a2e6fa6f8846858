"""`protocol schema`: every method and event as JSON Schema, from the registry that answers them."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from crossclaw import __version__
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser
from crossclaw.cli.running import run_async
from crossclaw.cli.say import out_json
from crossclaw.door.registry import Method

Schema = dict[str, Any]


def _arguments(parser: Parser) -> None:
    parser.add_argument("--asyncapi", action="store_true", help="as an AsyncAPI 3 document")


def _schema(arguments: Arguments) -> int:
    async def whole() -> int:
        methods = await known_methods()
        out_json(asyncapi(methods) if arguments.asyncapi else protocol_schema(methods))
        return Exit.OK

    return run_async(whole)


async def known_methods() -> list[Method[Any]]:
    """The methods of a gateway that is opened for this in a temporary folder, with an empty config."""
    from crossclaw.app import GatewayInputs, open_gateway  # noqa: PLC0415  brings the whole gateway
    from crossclaw.config import Config, Paths  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = Paths(folder, folder / "state", folder / "openclaw.json")
        async with open_gateway(Config(), paths, GatewayInputs(environ={})) as gateway:
            return [method for method in gateway.door.registry if not method.hidden]


class _Described(NamedTuple):
    """Every method with its parameters and result, every event with its payload, and what they name."""

    methods: list[tuple[Method[Any], Schema, Schema]]
    events: list[tuple[str, str, Schema]]
    definitions: Schema


def _described(methods: list[Method[Any]], ref_template: str) -> _Described:
    from crossclaw.gateway.event_types import EVENT_TYPES  # noqa: PLC0415
    from crossclaw.gateway.handshake import CONNECT  # noqa: PLC0415

    known = [CONNECT, *sorted(methods, key=lambda method: method.name)]
    kinds = [kind for method in known for kind in (method.params, method.result)]
    events = [kind for kind, _summary in EVENT_TYPES.values()]
    schemas, definitions = msgspec.json.schema_components(
        [*kinds, *events], ref_template=ref_template
    )
    asked, payloads = schemas[: len(kinds)], schemas[len(kinds) :]
    return _Described(
        list(zip(known, asked[::2], asked[1::2], strict=True)),
        [
            (name, summary, payload)
            for (name, (_, summary)), payload in zip(EVENT_TYPES.items(), payloads, strict=True)
        ],
        definitions,
    )


def protocol_schema(methods: list[Method[Any]]) -> Schema:
    described = _described(methods, "#/definitions/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Crossclaw gateway protocol",
        "version": __version__,
        "protocols": [3, 4],
        "methods": {
            method.name: {
                "summary": method.summary,
                "scope": method.scope,
                "effect": method.effect,
                "params": params,
                "result": result,
            }
            for method, params, result in described.methods
        },
        "events": {
            name: {"summary": summary, "payload": payload}
            for name, summary, payload in described.events
        },
        "definitions": described.definitions,
    }


def asyncapi(methods: list[Method[Any]]) -> Schema:
    """The AsyncAPI description: one channel, the WebSocket, on which the gateway receives requests and sends
    answers and events."""
    described = _described(methods, "#/components/schemas/{name}")
    messages: Schema = {}
    operations: Schema = {}
    for method, params, result in described.methods:
        name = method.name
        messages[f"{name}.request"] = _message(method.summary, _request(name, params))
        messages[f"{name}.response"] = _message(f"The answer of {name}.", _response(result))
        operations[name] = {
            "action": "receive",
            "summary": f"{method.summary} Needs {method.scope}.",
            **_on_socket(f"{name}.request"),
            "reply": _on_socket(f"{name}.response"),
        }
    for name, summary, payload in described.events:
        messages[f"{name}.event"] = _message(summary, _event(name, payload))
        operations[f"{name}.event"] = {"action": "send", **_on_socket(f"{name}.event")}
    named = {name: {"$ref": f"#/components/messages/{name}"} for name in messages}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Crossclaw gateway protocol", "version": __version__},
        "defaultContentType": "application/json",
        "channels": {"socket": {"address": "/", "messages": named}},
        "operations": operations,
        "components": {"messages": messages, "schemas": described.definitions},
    }


def _message(summary: str, payload: Schema) -> Schema:
    return {"summary": summary, "payload": payload}


def _on_socket(message: str) -> Schema:
    return {
        "channel": {"$ref": "#/channels/socket"},
        "messages": [{"$ref": f"#/channels/socket/messages/{message}"}],
    }


def _request(method: str, params: Schema) -> Schema:
    fields = {"id": {"type": "string"}, "method": {"const": method}, "params": params}
    return _frame("req", fields, optional=("params",))


def _response(result: Schema) -> Schema:
    fields = {
        "id": {"type": "string"},
        "ok": {"type": "boolean"},
        "payload": result,
        "error": {"type": "object"},
    }
    return _frame("res", fields, optional=("payload", "error"))


def _event(name: str, payload: Schema) -> Schema:
    fields = {
        "event": {"const": name},
        "payload": payload,
        "seq": {"type": "integer"},
        "stateVersion": {"type": "object"},
    }
    return _frame("event", fields, optional=("seq", "stateVersion"))


def _frame(kind: str, fields: Schema, *, optional: tuple[str, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **fields},
        "required": ["type", *(name for name in fields if name not in optional)],
    }


COMMANDS = {
    "schema": CommandSpec(
        _arguments,
        _schema,
        "example\n  crossclaw protocol schema --asyncapi > asyncapi.json",
    )
}
