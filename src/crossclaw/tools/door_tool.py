"""Tools that are methods: the session tools go through the same door as everybody else."""

from typing import Any, TypeVar

import msgspec

from crossclaw.door.dispatch import Door
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller, Method, Params
from crossclaw.tools.contract import Effect, Tool, ToolContext

P = TypeVar("P", bound=Params)

PREFIX = "tool."
"""Their methods are named so and not offered to clients; `/tools/invoke` is the way to them."""


class DoorTool(Tool[P]):
    def __init__(self, door: Door, method: Method[P], effect: Effect) -> None:
        self.name = method.name.removeprefix(PREFIX)
        self.description = method.summary
        self.params = method.params
        self.effect = effect
        self._door = door
        self._method = method.name

    async def call(self, context: ToolContext, params: P) -> Any:
        caller = Caller(
            principal=session_principal(context.key, context.authority),
            run=context.in_run,
            call_id=context.tool_use_id,
        )
        return await self._door.dispatch(caller, self._method, msgspec.to_builtins(params))
