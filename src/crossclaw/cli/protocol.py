"""`protocol schema`: every method and event as JSON Schema, from the registry that answers them."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from crossclaw import __version__
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, Command, no_arguments
from crossclaw.cli.running import run_async
from crossclaw.cli.say import out_json
from crossclaw.door.registry import Method


def _schema(_arguments: Arguments) -> int:
    async def whole() -> int:
        out_json(protocol_schema(await _methods()))
        return Exit.OK

    return run_async(whole)


async def _methods() -> list[Method[Any]]:
    """Of a house that is opened for this, somewhere else, and knows nobody."""
    from crossclaw.app import Outside, open_house  # noqa: PLC0415  brings the whole house
    from crossclaw.config import Config, Paths  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = Paths(folder, folder / "state", folder / "openclaw.json")
        async with open_house(Config(), paths, Outside(environ={})) as house:
            return [method for method in house.door.registry if not method.hidden]


def protocol_schema(methods: list[Method[Any]]) -> dict[str, Any]:
    from crossclaw.gateway.events import EVENT_NAMES  # noqa: PLC0415
    from crossclaw.gateway.handshake import CONNECT  # noqa: PLC0415

    known = [CONNECT, *sorted(methods, key=lambda method: method.name)]
    kinds = [kind for method in known for kind in (method.params, method.result)]
    schemas, definitions = msgspec.json.schema_components(
        kinds, ref_template="#/definitions/{name}"
    )
    pairs = zip(schemas[::2], schemas[1::2], strict=True)
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
            for method, (params, result) in zip(known, pairs, strict=True)
        },
        "events": list(EVENT_NAMES),
        "definitions": definitions,
    }


COMMANDS = {
    "schema": Command(
        no_arguments,
        _schema,
        "example\n  crossclaw protocol schema > protocol.schema.json",
    )
}
