"""The provider contract: a legal request in, one assistant message out, its words told as they come.

There is one path, and it streams. `tell` is called in order for each piece; the returned
message is the whole. Failures are `ProviderError`s; a cancelled scope stops the call at once.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    Text,
    Thinking,
    ToolUse,
    Usage,
)

THINKING_TOKENS: dict[ThinkingLevel, int] = {
    "off": 0,
    "minimal": 1024,  # the least that the service accepts
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32000,
}
"""How much room a level of thinking gets, beside the answer, where a model takes a number."""


class ToolReturn(msgspec.Struct, frozen=True):
    """A tool's result on its way to the model: always text or image blocks."""

    tool_use_id: str
    content: list[Text | Image]
    is_error: bool = False


class UserTurn(msgspec.Struct, frozen=True):
    """Results come first, then words and pictures: the one order that every provider accepts."""

    results: list[ToolReturn]
    content: list[Text | Image | Document]


class AssistantTurn(msgspec.Struct, frozen=True):
    content: list[Text | Thinking | ToolUse]


Turn = UserTurn | AssistantTurn
Part = Text | Image | Document


def in_words(part: Part) -> Text | Image:
    """A file as its text, for a service that does not read it as it is."""
    return Text(part.words) if isinstance(part, Document) else part


class ToolSpec(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of the arguments: an object."""


CacheTtl = Literal["5m", "1h"]


class CacheMarks(msgspec.Struct, frozen=True):
    """Up to where a service should remember what it has read, where it wants to be told.

    Tools and system prompt have a mark of their own (two of the four that Claude takes). The other two
    are for the conversation: `turns` are indexes of user turns, negative ones from the end."""

    turns: tuple[int, ...] = (-1, -3)
    """The newest user turn, and the one before it: where the last request ended and was remembered."""
    ttl: CacheTtl = "5m"


class ModelRequest(msgspec.Struct, frozen=True):
    """What is asked of a model. `turns` begins with a user turn, alternates, and every tool_use is
    answered in the next user turn: `agent/view.py` makes it so."""

    model: str
    system: str
    turns: list[Turn]
    tools: list[ToolSpec] = []
    output_tokens_max: int = 8192
    """For the words and calls of the answer; room to think comes on top, as the model needs it."""
    thinking: ThinkingLevel = "off"
    more_room: bool = False
    """The same was asked before and cut off before its first word: it gets more room to think."""
    cache: CacheMarks = CacheMarks()
    session: str | None = None
    """Which conversation this is, where a service keeps conversations' caches apart (`prompt_cache_key`)."""
    patient: bool = False
    """Nobody waits for it in front of a screen: what a service asks to be left alone for is waited."""
    outside: bool = False
    """It goes back to a program elsewhere, which may ask any number of times."""
    params: dict[str, Any] = {}
    """Fields of the request that the agent's config adds, as the service names them."""


class TextPiece(msgspec.Struct, frozen=True):
    text: str


class ThinkingPiece(msgspec.Struct, frozen=True):
    thinking: str


class ToolPiece(msgspec.Struct, frozen=True):
    """The model begins a tool call; its arguments are still on their way."""

    tool_use_id: str
    name: str


class Again(msgspec.Struct, frozen=True):
    """The call failed and is made anew: what was told of this answer so far no longer counts."""

    reason: str
    wait_s: float = 0.0
    model: str | None = None
    """`provider/model`, when another one is asked instead."""


class LostSpending(msgspec.Struct, frozen=True):
    """What a call has cost that brought no answer: it failed in the middle, or was stopped."""

    usage: Usage


ModelPiece = TextPiece | ThinkingPiece | ToolPiece | Again | LostSpending
TellPiece = Callable[[ModelPiece], None]


class Provider(Protocol):
    name: str

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        """The message carries content, provider, model, usage and stop_reason; the caller adds the time."""
        ...

    async def close(self) -> None:
        """Give back connections. A closed provider may be used again; it opens anew."""
        ...
