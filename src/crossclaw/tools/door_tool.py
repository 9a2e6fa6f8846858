"""Tools that are methods: the session tools go through the same door as all other calls."""

from typing import Any, TypeVar

from crossclaw.domain.errors import Forbidden
from crossclaw.domain.tools import UndeclaredTool, built_in
from crossclaw.door.dispatch import Door, MissingScope
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import (
    Caller,
    Method,
    MethodEffect,
    MethodHandler,
    Params,
    Result,
    method_of,
)
from crossclaw.tools.contract import ParameterTexts, Tool, ToolContext
from crossclaw.tools.texts import TEXTS

P = TypeVar("P", bound=Params)

PREFIX = "tool."
"""The prefix of their methods' names. They are not offered to clients; `/tools/invoke` is the way to them."""


def tool_method(
    name: str, effect: MethodEffect, handle: MethodHandler[Any], summary: str
) -> Method[Any]:
    """A method whose summary is what the model reads about the tool. Without a declaration there is none."""
    declared = built_in(name)
    if (declared.effect == "pure") != (effect == "read"):
        raise UndeclaredTool(f"the tool {name} is declared {declared.effect}, its method {effect}")
    scope = "operator.read" if effect == "read" else "operator.write"
    return method_of(
        handle, name=f"{PREFIX}{name}", scope=scope, effect=effect, summary=summary, hidden=True
    )


class ToolRefusal(Result, frozen=True):
    """A policy's refusal, as every session tool answers it."""

    status: str
    error: str


class DoorTool(Tool[P]):
    def __init__(self, door: Door, method: Method[P]) -> None:
        self.declared = built_in(method.name.removeprefix(PREFIX))
        self.description = method.summary
        self.params = method.params
        self._door = door
        self._method = method.name

    @property
    def parameter_texts(self) -> ParameterTexts:
        return TEXTS[self.name].parameters if self.name in TEXTS else {}

    async def call(self, context: ToolContext, params: P) -> Any:
        caller = Caller(
            principal=session_principal(context.key, context.authority),
            run=context.in_run,
            call_id=context.tool_use_id,
        )
        try:
            return await self._door.dispatch(caller, self._method, params)
        except MissingScope:
            raise
        except Forbidden as refusal:
            return ToolRefusal(status="forbidden", error=str(refusal))


def door_tool(door: Door, name: str) -> DoorTool[Any]:
    method = door.registry.find(f"{PREFIX}{name}")
    assert method is not None, name
    return DoorTool(door, method)
