"""The five wires, each with its fake service: what the contract's tests ask of all of them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Image,
    MediaSource,
    Text,
    ToolUse,
)
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.providers.contract import (
    ModelPiece,
    ModelRequest,
    Provider,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.gemini import GeminiProvider
from crossclaw.providers.ollama import OllamaProvider
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.providers.responses import ResponsesProvider
from crossclaw.testing import FakeModelServer

KEY = "sk-secret-0123456789"
PIXEL = Image(MediaSource("base64", media_type="image/png", data="iVBORw0KGgo="))
READ = ToolSpec("read", "Reads a file.", {"properties": {"path": {"type": "string"}}})
EITHER = ToolSpec(
    "either",
    "From an MCP server.",
    {
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"required": ["b"]},
        ],
        "properties": {"b": {"type": "string"}},
        "$defs": {},
    },
)

MODELS = {
    "anthropic": "claude-opus-5-5",
    "chat": "gpt-4o",
    "responses": "gpt-6-astra",
    "gemini": "gemini-4-argon",
    "ollama": "qwen3:8b",
}
WIRES = tuple(MODELS)

_MADE: dict[str, Any] = {
    "anthropic": (AnthropicProvider, "url"),
    "chat": (OpenAIProvider, "openai_url"),
    "responses": (ResponsesProvider, "openai_url"),
    "gemini": (GeminiProvider, "gemini_url"),
    "ollama": (OllamaProvider, "url"),
}


def make(wire: str, server: FakeModelServer, **options: Any) -> Provider:
    made, where = _MADE[wire]
    provider: Provider = made(wire, getattr(server, where), KEY, **{"retries": 0, **options})
    return provider


@asynccontextmanager
async def opened(wire: str, server: FakeModelServer, **options: Any) -> AsyncGenerator[Provider]:
    provider = make(wire, server, **options)
    try:
        yield provider
    finally:
        await provider.close()


def user(text: str) -> UserTurn:
    return UserTurn([], [Text(text)])


def returned(*calls: ToolUse, text: str = "ok") -> UserTurn:
    return UserTurn([ToolReturn(call.id, [Text(text)]) for call in calls], [])


def ask(wire: str, *turns: Turn, **fields: Any) -> ModelRequest:
    fields = {"model": MODELS.get(wire, wire), "system": "You are a gateway.", **fields}
    return ModelRequest(turns=list(turns) or [user("hello")], **fields)


def ignore(_piece: ModelPiece) -> None:
    pass


async def complete(provider: Provider, *turns: Turn, **fields: Any) -> AssistantMessage:
    return await provider.complete(ask(provider.name, *turns, **fields), ignore)


def plain(blocks: list[AssistantBlock]) -> list[tuple[str, Any]]:
    """Blocks without what each service adds: ids, signatures, state."""
    return [
        (block.name, block.input)
        if isinstance(block, ToolUse)
        else (type(block).__name__, block.text if isinstance(block, Text) else block.thinking)
        for block in blocks
    ]
