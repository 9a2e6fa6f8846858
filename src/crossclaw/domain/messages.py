"""Messages: what a person, a model and a tool say, in Anthropic's block names.

On disk a tool's result is a message of its own with `role: "toolResult"`; towards a model
consecutive results become one user message of `tool_result` blocks (see `agent/view.py`).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

StopReason = Literal["end_turn", "tool_use", "max_tokens", "error", "aborted", "injected"]


Extra = dict[str, Any]
"""State that a service attached to a block and wants back unchanged. Nothing here reads it; it goes back only
to the provider and model that made it (`without_state` removes it for all others)."""


class Text(msgspec.Struct, tag="text", frozen=True, omit_defaults=True):
    text: str
    extra: Extra | None = None


class Thinking(msgspec.Struct, tag="thinking", frozen=True, omit_defaults=True):
    thinking: str
    signature: str | None = None
    redacted: str | None = None
    """Thinking that the provider encrypted and wants back unchanged."""
    extra: Extra | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether its model can verify it: only such thinking is worth sending back."""
        return bool(self.signature or self.redacted or self.extra)


class MediaSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of the bytes of a picture or a file: here, at an address, or in the ledger by their hash.

    What the ledger answers has them there; `domain/media.py` says how to carry them.
    """

    type: Literal["base64", "url", "stored"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    sha256: str | None = None
    """The hash of a stored one; None if its bytes cannot be found."""
    size: int = 0
    """The size of a stored one, in bytes."""


class Image(msgspec.Struct, tag="image", frozen=True):
    source: MediaSource


class Document(msgspec.Struct, tag="document", frozen=True, omit_defaults=True):
    """A file that came with a message: a PDF or a text."""

    source: MediaSource
    title: str | None = None
    """The file's name."""
    words: str = ""
    """The file's text, on its way to a model whose service does not read such a file. It is stored nowhere."""


class ToolUse(msgspec.Struct, tag="tool_use", frozen=True, omit_defaults=True):
    id: str
    name: str
    input: dict[str, Any]
    extra: Extra | None = None


class ToolResult(msgspec.Struct, tag="tool_result", frozen=True, omit_defaults=True):
    """A result inside a user message, as a client may send it. `content` may be any JSON."""

    tool_use_id: str
    content: Any = ""
    is_error: bool = False


UserBlock = Text | Image | Document | ToolResult
AssistantBlock = Text | Thinking | ToolUse


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The origin of a message. Set by the gateway, never taken from a client's words."""

    kind: Literal["person", "inter_session", "announce", "cron", "hook", "node", "system", "chat"]
    """`chat`: what others have said in a group, before somebody called us."""
    source_session_key: str | None = None
    source_channel: str | None = None
    source_tool: str | None = None
    sender: str | None = None
    source_session: str | None = None
    """The older name of `source_session_key`: read from rows of an earlier release, never written."""

    def __post_init__(self) -> None:
        if self.source_session is not None:
            key = self.source_session_key or self.source_session
            msgspec.structs.force_setattr(self, "source_session_key", key)
            msgspec.structs.force_setattr(self, "source_session", None)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", dict=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    """The cost in US dollars, if the model has a price."""
    filled: int = 0
    """The tokens in the window after the last call, if several calls made one message."""

    @cached_property
    def window(self) -> int:
        """Tokens of the model's window in use after the call."""
        return self.filled or self.prompt + self.output

    @property
    def prompt(self) -> int:
        """Tokens the model read: what fills its window."""
        return self.input + self.cache_read + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            sum(costs) if costs else None,
        )


class Runtime(msgspec.Struct, frozen=True, omit_defaults=True):
    """The gateway's own words to the model in front of a message: stored, so that every later request repeats
    it letter by letter, and beside the content, so that nobody takes it for the sender's words. No client can
    set it."""

    words: str
    """The time and the sender of the message, and what the session had under way then."""
    context: str | None = None
    """The run's context (`RunPlan.context`)."""


class UserMessage(msgspec.Struct, tag_field="role", tag="user", frozen=True, omit_defaults=True):
    content: str | list[UserBlock]
    timestamp: int = 0
    provenance: Provenance | None = None
    runtime: Runtime | None = None


class AssistantMessage(
    msgspec.Struct, tag_field="role", tag="assistant", frozen=True, omit_defaults=True, dict=True
):
    content: str | list[AssistantBlock]
    timestamp: int = 0
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = msgspec.field(default=None, name="stopReason")
    error: str | None = msgspec.field(default=None, name="errorMessage")
    beginning: str | None = None
    """A digest of what the request of a message with thinking began with. Services take thinking back only
    behind the same."""
    after: int | None = None
    """The last entry that its request included: what was stored between that and this message was said while
    the model was at work, and stands behind it."""

    # Asked for a dozen times a turn, of the same message.

    @cached_property
    def blocks(self) -> list[AssistantBlock]:
        return [Text(self.content)] if isinstance(self.content, str) else self.content

    @cached_property
    def text(self) -> str:
        """The words of the message: text blocks joined, thinking left out."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @cached_property
    def tool_calls(self) -> list[ToolUse]:
        return [block for block in self.blocks if isinstance(block, ToolUse)]


class ToolResultMessage(
    msgspec.Struct, tag_field="role", tag="toolResult", frozen=True, omit_defaults=True
):
    tool_use_id: str
    tool_name: str = msgspec.field(name="toolName")
    content: Any = ""
    """The result: a string, blocks, or any JSON, as the tool gave it."""
    is_error: bool = msgspec.field(default_factory=bool, name="isError")
    """Whether the tool failed. Written also if it is false, which a plain default would not be."""
    duration_ms: int | None = msgspec.field(default=None, name="durationMs")
    timestamp: int = 0


def content_of(text: str, files: Sequence[UserBlock]) -> str | list[UserBlock]:
    """The content of a message that comes with files; text alone stays text."""
    if not files:
        return text
    return [*([Text(text)] if text.strip() else []), *files]


Message = UserMessage | AssistantMessage | ToolResultMessage

M = TypeVar("M", bound=msgspec.Struct)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


encode_message: Callable[[Message], bytes] = _encoder.encode


def shown_message(message: M) -> M:
    """The message as anybody but its model may read it: without services' state and the runtime's words."""
    if isinstance(message, UserMessage):
        return message if message.runtime is None else replace(message, runtime=None)
    if not isinstance(message, AssistantMessage):
        return message
    if isinstance(message.content, str):
        return message if message.after is None else replace(message, after=None)
    known = (message.beginning, message.after)
    if known == (None, None) and all(block.extra is None for block in message.content):
        return message
    plain = [_without_extra(block) for block in message.content]
    return replace(message, content=plain, beginning=None, after=None)


def without_state(blocks: Sequence[AssistantBlock]) -> list[AssistantBlock]:
    """The blocks that another model can read: no thinking, nothing that a service attached."""
    return [_without_extra(block) for block in blocks if not isinstance(block, Thinking)]


def _without_extra(block: AssistantBlock) -> AssistantBlock:
    return block if block.extra is None else replace(block, extra=None)


def decode_message(body: bytes | str) -> Message:
    return _decoder.decode(body)


def well_formed_text(text: str) -> str:
    """The text with half of a surrogate pair (a model cut in the middle of an emoji, a file name in another
    encoding) replaced by a question mark: it could not be stored."""
    return text.encode("utf-8", "replace").decode()


def well_formed(message: M) -> M:
    """The message, with every text in it storable."""
    try:
        _encoder.encode(message)
    except UnicodeEncodeError:
        return msgspec.convert(_with_storable_texts(msgspec.to_builtins(message)), type(message))
    return message


def _with_storable_texts(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed_text(value)
    if isinstance(value, list):
        return [_with_storable_texts(part) for part in value]
    if isinstance(value, dict):
        return {
            _with_storable_texts(key): _with_storable_texts(part) for key, part in value.items()
        }
    return value


def words_of(message: Message) -> str:
    """All the readable words of a message, for the search index and previews."""
    if isinstance(message, ToolResultMessage):
        return _words_of_result(message.content)
    if isinstance(message.content, str):
        return message.content
    return "\n".join(filter(None, [_words_of_block(block) for block in message.content]))


def _words_of_block(block: UserBlock | AssistantBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case ToolUse(name=name, input=arguments):
            return f"{name} {_encoder.encode(arguments).decode()}"
        case ToolResult(content=content):
            return _words_of_result(content)
        case Document(title=title):
            return f"[file: {title or 'without a name'}]"
        case _:
            return ""


def _words_of_result(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
        if texts:
            return "\n".join(texts)
    return _encoder.encode(content).decode()
