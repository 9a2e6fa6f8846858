"""The config as JSON Schema: what may stand in the file."""

from collections.abc import Mapping
from typing import Any

import msgspec

from crossclaw.config.model import Config
from crossclaw.config.section import Loose, Secrets
from crossclaw.domain.secret import Secret


def config_schema() -> dict[str, Any]:
    """The JSON schema of the config, without references: forms that are drawn from it do not follow them."""
    (top,), definitions = msgspec.json.schema_components(
        [Config], schema_hook=_own_kinds, ref_template="{name}"
    )
    return {**_inlined(top, definitions), "$schema": "https://json-schema.org/draft/2020-12/schema"}


def _own_kinds(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": ["string", "object"], "writeOnly": True}
    assert issubclass(kind, Loose | Secrets)
    return {"type": "object"}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if name := schema.get("$ref"):
        return _inlined(definitions[name], definitions)
    return {name: _inlined(part, definitions) for name, part in schema.items()}
