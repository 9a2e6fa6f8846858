"""The common part of all fake wires: how a scripted answer is given, and how it is cut into events."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import AssistantBlock, Thinking, ToolUse, Usage
from crossclaw.domain.texts import text_or_json
from crossclaw.testing.fake_rules import ServiceRules

FakeTrouble = Literal[
    "rate_limit", "server_error", "overloaded", "unauthorized", "not_found", "quota",
    "context_overflow", "invalid",
]  # fmt: skip


class Reply(msgspec.Struct, frozen=True):
    blocks: list[AssistantBlock]
    stop: str | None = None
    """The stop reason, as our messages or as the wire says it; None: `tool_use` after calls, else `end_turn`."""
    usage: Usage | None = Usage(input=10, output=5)
    thought_tokens: int = 0
    """The tokens of thinking before its words. They count against the request's limit, as on the real
    services: if there is no room for them and a word, the answer is cut and empty."""

    @property
    def has_calls(self) -> bool:
        return any(isinstance(block, ToolUse) for block in self.blocks)


def within(reply: Reply, limit: int | None, thinks: bool) -> Reply:
    """The reply, cut at the limit."""
    if not reply.thought_tokens or not thinks:
        return reply
    spent = reply.usage or Usage()
    if limit is not None and reply.thought_tokens >= limit:
        cut = msgspec.structs.replace(spent, output=limit)
        return Reply([Thinking("(…)", signature="cut")], stop="max_tokens", usage=cut)
    whole = msgspec.structs.replace(spent, output=spent.output + reply.thought_tokens)
    return msgspec.structs.replace(reply, usage=whole)


class Wire(Protocol):
    path: str

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        """What a real service would refuse this request for."""
        ...

    def events(self, reply: Reply, body: Json) -> list[bytes]: ...

    def whole(self, reply: Reply, body: Json) -> Json: ...

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]: ...

    def error_event(self, trouble: FakeTrouble) -> bytes: ...

    def malformed_event(self) -> bytes: ...


def sse(data: Json | str, event: str | None = None) -> bytes:
    text = text_or_json(data)
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode()


def halves(call: ToolUse) -> tuple[str, str]:
    text = msgspec.json.encode(call.input).decode()
    return text[: len(text) // 2], text[len(text) // 2 :]
