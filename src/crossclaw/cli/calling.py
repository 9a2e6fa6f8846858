"""`gateway call`: calls one method of a running gateway, by its name. A wrong name or wrong parameters are
answered with the right ones."""

import difflib
from collections.abc import Iterator
from typing import Any

import msgspec

from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    gateway_options,
    json_option,
    positive,
)
from crossclaw.cli.peer import failed_by
from crossclaw.cli.protocol import known_methods
from crossclaw.cli.running import ask
from crossclaw.cli.say import out_json
from crossclaw.cli.tables import pairs
from crossclaw.client.errors import CallRefused
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer
from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.door.registry import Method

CALL_MS = 10_000  # OpenClaw's default
_SCOPES = (ADMIN, READ, WRITE, "operator.approvals", "operator.pairing")
_ALL = "crossclaw protocol schema has them all, with their parameters."
_NEAR_MAX = 3  # names that are written alike; more would be the list itself


def _arguments(parser: Parser) -> None:
    parser.add_argument("method", help="for example health, sessions.list, chat.history")
    parser.add_argument("--params", default="{}", metavar="JSON", help="an object")
    parser.add_argument(
        "--expect-final", action="store_true", help="wait for the second answer, as of `agent`"
    )
    parser.add_argument(
        "--timeout", type=positive, default=CALL_MS, metavar="MS", help="milliseconds (10000)"
    )
    json_option(parser)
    gateway_options(parser, timeout=False)


def _call(arguments: Arguments) -> int:
    params = _params(arguments.params)

    async def work(peer: GatewayPeer) -> int:
        try:
            answer = await peer.call(
                arguments.method,
                params,
                timeout_s=arguments.timeout / 1000,
                final=arguments.expect_final,
            )
        except CallRefused as refusal:
            raise await _helped(refusal, arguments.method) from None
        out_json(answer)
        return Exit.OK

    return ask(arguments, *_SCOPES, work=work, embed=False)


def _params(text: str) -> dict[str, Any]:
    try:
        value = parse_json5(text)
    except NotJson5 as error:
        raise UsageError(f"--params is not JSON: {error.why}", hint=error.excerpt) from None
    if not isinstance(value, dict):
        raise UsageError("--params must be an object: {…}")
    return value


async def _helped(refusal: CallRefused, name: str) -> Exception:
    """The refusal with what would work, as far as this release knows; the gateway may be of another."""
    text, code = str(refusal), failed_by(refusal).exit_code
    if text.startswith("unknown method"):
        return CommandFailed(text, code, hint=_near(name, await known_methods()))
    if text.startswith(f"invalid {name} params"):
        known = {method.name: method for method in await known_methods()}
        hint = f"{name} takes{_takes(known[name])}" if name in known else None
        return CommandFailed(text, code, hint=hint)
    return refusal


def _near(name: str, methods: list[Method[Any]]) -> str:
    names = [method.name for method in methods]
    alike = difflib.get_close_matches(name, names, n=_NEAR_MAX, cutoff=0.8)
    family = [each for each in names if each.partition(".")[0] == name.partition(".")[0]]
    meant = alike or sorted(family) or difflib.get_close_matches(name, names, n=_NEAR_MAX)
    return f"Did you mean {', '.join(meant)}? {_ALL}" if meant else _ALL


def _takes(method: Method[Any]) -> str:
    schemas, definitions = msgspec.json.schema_components(
        [method.params], ref_template="#/definitions/{name}"
    )
    fields = _followed(schemas[0], definitions)
    needed = fields.get("required", [])
    parameters = [
        (
            f"  {name}",
            f"{_kind(child, definitions)}{', needed' if name in needed else ''}",
        )
        for name, child in fields.get("properties", {}).items()
    ]
    return f":\n{pairs(parameters)}" if parameters else " no parameters."


def _followed(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return _followed(definitions[name], definitions) if name else schema


def _kind(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_kinds(_followed(schema, definitions), definitions))) or "any"


def _kinds(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _kinds(_followed(each, definitions), definitions)
    elif "enum" in schema:
        yield from (msgspec.json.encode(each).decode() for each in schema["enum"])
    elif schema.get("type") == "array":
        yield f"list of {_kind(schema.get('items') or {}, definitions)}"
    elif schema.get("properties"):
        yield f"{{{', '.join(schema['properties'])}}}"
    elif schema.get("type", "null") != "null":
        yield str(schema["type"])


COMMANDS = {
    "call": CommandSpec(
        _arguments,
        _call,
        "example\n  crossclaw gateway call sessions.list --params '{\"limit\": 5}' --json",
    )
}
