"""The provider contract: a legal request in, one assistant message out, its text streamed as it
comes.

There is one path, and it streams. `tell` is called in order for each piece; the returned message is
the whole. Failures are `ProviderError`s; a cancelled scope stops the call at once.
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
"""How many tokens a level of thinking gets, beside the answer, for models that take a number."""


class ToolReturn(msgspec.Struct, frozen=True):
    """A tool's result on its way to the model: always text or image blocks."""

    tool_use_id: str
    content: list[Text | Image]
    is_error: bool = False


class UserTurn(msgspec.Struct, frozen=True):
    """A user's turn. Results come first, then text and pictures: the one order that every provider
    accepts."""

    results: list[ToolReturn]
    content: list[Text | Image | Document]


class AssistantTurn(msgspec.Struct, frozen=True):
    content: list[Text | Thinking | ToolUse]


Turn = UserTurn | AssistantTurn
Part = Text | Image | Document


def in_words(part: Part) -> Text | Image:
    """A file as its text, for a service that cannot read it directly."""
    return Text(part.words) if isinstance(part, Document) else part


class ToolSpec(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    """The JSON Schema of the arguments: an object."""


CacheTtl = Literal["5m", "1h"]


class CacheMarks(msgspec.Struct, frozen=True):
    """Marks up to where a service should cache a request, if it needs them.

    Tools and system prompt have a mark of their own (two of the four that Claude takes). The other
    two are for the conversation: `turns` are indexes of user turns, negative ones from the end.
    """

    turns: tuple[int, ...] = (-1, -3)
    """The newest user turn, and the one before it, where the last request ended and was cached."""
    ttl: CacheTtl = "5m"


class ModelRequest(msgspec.Struct, frozen=True):
    """A request to a model. `turns` begins with a user turn, alternates, and every tool_use is
    answered in the next user turn: `agent/view.py` makes it so."""

    model: str
    system: str
    turns: list[Turn]
    tools: list[ToolSpec] = []
    output_tokens_max: int = 8192
    """The limit for text and calls of the answer; tokens to think are added, as the model needs
    them."""
    thinking: ThinkingLevel = "off"
    more_room: bool = False
    """Whether to allow more tokens to think, because the last answer was cut off before its first
    word."""
    cache: CacheMarks = CacheMarks()
    session: str | None = None
    """The id of the conversation, for services that separate the caches of conversations
    (`prompt_cache_key`)."""
    patient: bool = False
    """Whether nobody waits for it at a screen: then a pause that the service asks for is waited
    out."""
    outside: bool = False
    """Whether it was caused by a program elsewhere (a hook), which may ask any number of times."""
    params: dict[str, Any] = {}
    """Fields that the agent's config adds to the request, as the service names them."""


class TextPiece(msgspec.Struct, frozen=True):
    text: str


class ThinkingPiece(msgspec.Struct, frozen=True):
    thinking: str


class ToolPiece(msgspec.Struct, frozen=True):
    """Reports that the model begins a tool call; its arguments are still on their way."""

    tool_use_id: str
    name: str


class CallRestarted(msgspec.Struct, frozen=True):
    """Reports that the call failed and is repeated: what was streamed of this answer so far no
    longer counts."""

    reason: str
    wait_s: float = 0.0
    model: str | None = None
    """The other model that is asked instead, as `provider/model`."""


class LostSpending(msgspec.Struct, frozen=True):
    """Reports the cost of a call that brought no answer: it failed in the middle, or was
    stopped."""

    usage: Usage


ModelPiece = TextPiece | ThinkingPiece | ToolPiece | CallRestarted | LostSpending
TellPiece = Callable[[ModelPiece], None]


class Provider(Protocol):
    name: str

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        """Calls the model once and returns its answer; `tell` gets the pieces as they stream in. The message
        carries content, provider, model, usage and stop_reason; the caller adds the time."""
        ...

    async def close(self) -> None:
        """Closes its connections. A closed provider may be used again; it opens new ones."""
        ...
