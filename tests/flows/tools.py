"""Tools that flow tests hand to the gateway."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from crossclaw.domain.tools import ToolDeclaration, ToolEffect
from crossclaw.tools.contract import Tool, ToolContext


def declared(name: str, effect: ToolEffect = "pure") -> ToolDeclaration:
    """A tool that no rule is about, and that children have."""
    return ToolDeclaration(name=name, group="other", effect=effect, children=True)


class Nothing(msgspec.Struct):
    pass


class Number(msgspec.Struct):
    n: int


class Counting(Tool[Nothing]):
    """Counts its calls; `before` may make trouble."""

    description = "Counts."
    params = Nothing

    def __init__(
        self, name: str, effect: ToolEffect = "pure", before: Callable[[], Any] | None = None
    ) -> None:
        self.declared, self.calls = declared(name, effect), 0
        self._before = before

    async def call(self, context: ToolContext, params: Nothing) -> str:
        self.calls += 1
        if self._before is not None:
            result = self._before()
            if hasattr(result, "__await__"):
                await result
        return f"count {self.calls}"


class Strict(Tool[Number]):
    """Wants a number."""

    declared, description, params = declared("strict"), "Takes a number.", Number

    async def call(self, context: ToolContext, params: Number) -> int:
        return params.n


class Hanging(Tool[Nothing]):
    """Never answers."""

    declared, description, params = declared("hang", "effects"), "Hangs.", Nothing

    def __init__(self) -> None:
        self.begun = anyio.Event()

    async def call(self, context: ToolContext, params: Nothing) -> str:
        self.begun.set()
        await anyio.sleep_forever()
        raise AssertionError
