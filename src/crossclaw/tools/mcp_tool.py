"""One tool of an MCP server, as the model and the toolbox know it."""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from crossclaw.domain.aliases import Tell
from crossclaw.domain.errors import ToolFailed
from crossclaw.domain.messages import Image, MediaSource, Text
from crossclaw.domain.tools import mcp_declaration
from crossclaw.providers.contract import ToolSpec
from crossclaw.tools.contract import RESULT_CHARS_MAX, Tool, ToolContext

if TYPE_CHECKING:
    from mcp import types

SEPARATOR = "__"
NAME_CHARS_MAX = 64  # what providers accept
_CUT_AT = NAME_CHARS_MAX - 9  # a digest of eight follows, so that two long names stay two
DESCRIPTION_CHARS_MAX = 4_000  # a page; what every request carries must be worth it
BLOCKS_MAX = 1_000  # parts of one result
IMAGE_CHARS_MAX = 3_000_000  # in base64; about what `read` shows, and what every provider takes

CallServer = Callable[[str, dict[str, Any], Tell], Awaitable["types.CallToolResult"]]


class McpArguments(msgspec.Struct):
    """The arguments of a call, unchecked: the MCP server checks them by its own schema."""

    given: dict[str, Any]


class McpTool(Tool[McpArguments]):
    params = McpArguments

    def __init__(self, server: str, listed: "types.Tool", call: CallServer) -> None:
        self.declared = mcp_declaration(
            tool_name(server, listed.name), other_names(server, listed.name)
        )
        words = listed.description or f"{listed.name} of the MCP server {server}."
        self.description = shortened(words, DESCRIPTION_CHARS_MAX)
        self.spec = ToolSpec(self.name, self.description, listed.input_schema)
        self.spec_bytes = len(msgspec.json.encode(self.spec))
        """The bytes that it adds to every request."""
        self._own_name = listed.name
        self._call = call

    def read(self, arguments: dict[str, Any]) -> McpArguments:
        return McpArguments(arguments)

    async def call(self, context: ToolContext, params: McpArguments) -> str | list[Text | Image]:
        result = await self._call(self._own_name, params.given, context.tell)
        blocks = [_block(part) for part in result.content[:BLOCKS_MAX]]
        if len(result.content) > BLOCKS_MAX:
            blocks.append(Text(f"[{len(result.content) - BLOCKS_MAX} more parts are left out]"))
        if not blocks and result.structured_content is not None:
            blocks = [Text(msgspec.json.encode(result.structured_content).decode())]
        blocks = _within(blocks)
        words = "\n".join(block.text for block in blocks if isinstance(block, Text))
        if result.is_error:
            raise ToolFailed(words or f"{self.name} failed without a word")
        return blocks if any(isinstance(block, Image) for block in blocks) else words


def shortened(text: str, chars_max: int) -> str:
    return (
        text if len(text) <= chars_max else f"{text[:chars_max]} [… {len(text) - chars_max} more]"
    )


def _within(blocks: list[Text | Image]) -> list[Text | Image]:
    """The blocks with as much text as a model can use; a note says what is left out."""
    room, kept = RESULT_CHARS_MAX, list[Text | Image]()
    for block in blocks:
        if isinstance(block, Text):
            block = Text(shortened(block.text, room)) if room > 0 else Text("[left out]")
            room -= len(block.text)
        kept.append(block)
    return kept


def prefix_of(server: str) -> str:
    return f"{_safe(server)}{SEPARATOR}"


def prefixes_of(server: str) -> tuple[str, ...]:
    """The beginnings of its tools' names, in each spelling that a rule may use."""
    whole = prefix_of(server)
    return tuple(dict.fromkeys((whole, f"{server}{SEPARATOR}", whole[:_CUT_AT])))


def tool_name(server: str, tool: str) -> str:
    """The tool's name for models: `<server>__<tool>` in letters that every provider takes; a long one keeps a
    digest."""
    name = prefix_of(server) + _safe(tool)
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
    return f"{name[:_CUT_AT]}_{digest}"


def other_names(server: str, tool: str) -> tuple[str, ...]:
    """Other names that rules may use: as the server says it, and before it was cut."""
    whole = prefix_of(server) + _safe(tool)
    names = (whole, f"{server}{SEPARATOR}{tool}")
    return tuple(name for name in dict.fromkeys(names) if name != tool_name(server, tool))


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _block(part: "types.ContentBlock") -> Text | Image:
    match part.type:
        case "text":
            return Text(part.text)
        case "image" if len(part.data) > IMAGE_CHARS_MAX:
            return Text("[an image that is too large to be shown]")
        case "image":
            return Image(MediaSource("base64", part.mime_type, part.data))
        case "resource":
            text = getattr(part.resource, "text", None)
            return Text(text if text is not None else f"[binary resource {part.resource.uri}]")
        case "resource_link":
            return Text(f"[resource {part.uri}]")
        case _:
            return Text(f"[{part.type}, which cannot be shown]")
