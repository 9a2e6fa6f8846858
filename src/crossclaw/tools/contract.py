"""The tool contract: typed arguments in, text or JSON out; a failure is an answer to the model."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from crossclaw.domain.aliases import Tell
from crossclaw.domain.approvals import ProposedCall, shown_call
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.domain.tools import ToolDeclaration, ToolEffect
from crossclaw.providers.contract import ToolSpec

P = TypeVar("P", bound=msgspec.Struct)

RESULT_CHARS_MAX = (
    400_000  # of text: about half of a large window; more would push out everything else
)
ParameterTexts = Mapping[str, str | dict[str, Any]]
"""What a tool's parameters are for, by their names: a line, or a line with whatever else the schema should say."""


def _to_nobody(text: str) -> None:
    pass


class ToolContext(msgspec.Struct, frozen=True):
    """The caller of a tool: a session with its authority, and in a run, which of its calls."""

    key: SessionKey
    authority: Authority
    in_run: Run | None = None
    tool_use_id: str | None = None
    tell: Tell = _to_nobody

    @property
    def run(self) -> Run:
        if self.in_run is None:
            raise Invalid("this tool can only be called by a run")
        return self.in_run


def context_of(
    run: Run, tool_use_id: str, authority: Authority, tell: Tell = _to_nobody
) -> ToolContext:
    """The context of a call. `authority` is the run's as its sandbox leaves it."""
    return ToolContext(run.key, authority, run, tool_use_id, tell)


class Tool(Generic[P]):
    """A tool. Subclass it: set the class attributes, write `call`. Arguments arrive as `params`."""

    declared: ToolDeclaration
    """The declaration that rules go by; a tool without it is not loaded."""
    description: str
    params: type[P]
    about: ClassVar[ParameterTexts] = {}
    """What a model is told of each parameter; a dict adds to its schema, such as `enum`."""

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def is_there(self) -> bool:
        """Whether the tool is available with the config as it is; asked anew when that changes."""
        return True

    def also_needs(self, params: P) -> Sequence[str]:
        """Other tools that the caller must have for this call: by their names."""
        return ()

    @property
    def effect(self) -> ToolEffect:
        return self.declared.effect

    async def propose(self, context: ToolContext, params: P) -> ProposedCall:
        """The action of a call, for a person who is asked to approve it."""
        arguments = msgspec.json.encode(msgspec.to_builtins(params)).decode()
        return ProposedCall(tool=self.name, shown=shown_call(self.name, arguments))

    def as_approved(self, params: P, wish: ProposedCall) -> P:
        """The parameters with which exactly that is done."""
        return params

    async def call(self, context: ToolContext, params: P) -> Any:
        """The result: a string, text and image blocks, or anything that JSON can hold."""
        raise NotImplementedError

    @property
    def parameter_texts(self) -> ParameterTexts:
        return self.about

    @cached_property
    def spec(self) -> ToolSpec:
        schema = _inlined(msgspec.json.schema(self.params))
        return ToolSpec(self.name, self.description, _described(schema, self.parameter_texts))

    def read(self, arguments: dict[str, Any]) -> P:
        try:
            return msgspec.convert(arguments, self.params, strict=False)
        except msgspec.ValidationError as error:
            wanted = ", ".join(field.encode_name for field in msgspec.structs.fields(self.params))
            raise Invalid(f"{self.name}: {error}; it takes {wanted or 'no arguments'}") from None


def _described(schema: dict[str, Any], about: ParameterTexts) -> dict[str, Any]:
    """The schema with a description for each parameter. One that may be left out is optional, not nullable."""
    properties = {
        name: _merged(_plain(read), _as_dict(about.get(name, {})))
        for name, read in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else schema


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in ("default", "anyOf")}
    if schema.get("default") is not None:
        kept["default"] = schema["default"]
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) > 1:
        return {**kept, "anyOf": others}
    return {**(others[0] if others else {}), **kept}


def _as_dict(about: str | dict[str, Any]) -> dict[str, Any]:
    return {"description": about} if isinstance(about, str) else about


def _merged(read: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter with its description; a type in the description replaces the several that
    were read."""
    if "type" in about:
        read = {name: value for name, value in read.items() if name != "anyOf"}
    return {**read, **about}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without references: models read a plain object schema better."""
    definitions: dict[str, Any] = schema.get("$defs", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    top = dict(definitions.get(name, schema))
    others = {key: value for key, value in definitions.items() if key != name}
    top.pop("title", None)
    return {**top, "$defs": others} if others else top
