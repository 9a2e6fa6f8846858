"""Tool calls as models write them: arguments that may not parse, ids that may be missing.

Arguments that are no JSON object do not stop a run. They become the input `{"_raw": "<what the
model wrote>"}`; `raw_arguments` finds it again, and the loop answers such a call with a tool error.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from crossclaw.domain import untrusted
from crossclaw.domain.messages import ToolUse
from crossclaw.providers.contract import AssistantTurn, ModelRequest, ToolSpec, Turn

RAW = "_raw"


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call. An empty text and `null` mean none: several servers write it so.
    What is too large or too deep to be decoded counts as no object."""
    if not text.strip():
        return {}
    try:
        value = untrusted.decode(text)
    except (msgspec.DecodeError, untrusted.TooHeavy):
        return {RAW: text}
    if value is None:
        return {}
    return value if isinstance(value, dict) else {RAW: text}


def raw_arguments(arguments: dict[str, Any]) -> str | None:
    """What the model wrote in place of a JSON object, or None if it wrote one."""
    text = arguments.get(RAW)
    return text if len(arguments) == 1 and isinstance(text, str) else None


def make_call_id(request: ModelRequest, number: int) -> str:
    """An id for a call. The same request gives the same id, so a turn repeated after a crash
    repeats its ids; a later turn of the session has other turns before it and gets others."""
    turns = msgspec.json.encode(request.turns)
    return f"call_{hashlib.blake2s(turns, digest_size=8).hexdigest()}_{number}"


def plain_letters(text: str) -> str:
    """The text in letters that every service accepts in an id or a name: others' ids may contain
    dots and colons."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)


def tool_names(turns: Sequence[Turn]) -> dict[str, str]:
    """The tool name of every call, by its id."""
    return {
        block.id: block.name
        for turn in turns
        if isinstance(turn, AssistantTurn)
        for block in turn.content
        if isinstance(block, ToolUse)
    }


class OwnIds:
    """Makes ids for the calls of one answer: the service's, unless it is missing or used in the
    conversation."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._taken: set[str] = set()

    def make(self, wanted: str | None, number: int) -> str:
        self._taken = self._taken or set(tool_names(self._request.turns))
        made = wanted if wanted and wanted not in self._taken else None
        made = made or make_call_id(self._request, number)
        self._taken.add(made)
        return made


def function_of(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form that most services want."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": plain_schema(tool.schema),
    }


_COMBINERS = ("anyOf", "oneOf", "allOf", "enum", "not")


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema in a form that every service accepts: an object, without alternatives at its
    top. Tools of MCP servers have some; their properties are kept, all of them optional, and the
    tool checks the rest."""
    plain = {"type": "object", **schema}
    found = [plain.pop(name) for name in _COMBINERS if name in plain]
    branches = [branch for part in found if isinstance(part, list) for branch in part]
    properties = dict(plain.get("properties") or {})
    for branch in branches:
        if isinstance(branch, dict):
            properties = {**(branch.get("properties") or {}), **properties}
    plain["type"] = "object"
    if properties or found:
        plain["properties"] = properties
    return plain


def nine_letters(call_id: str) -> str:
    """The id in nine letters and digits, which is all that Mistral accepts; the same id always
    becomes the same nine."""
    if re.fullmatch("[a-zA-Z0-9]{9}", call_id):
        return call_id
    return hashlib.blake2s(call_id.encode("utf-8", "replace"), digest_size=8).hexdigest()[:9]
