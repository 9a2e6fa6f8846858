"""POST /v1/chat/completions and GET /v1/models: an agent behind OpenAI's older interface."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.answers import json_answer
from crossclaw.gateway.http.openai import (
    DONE,
    MODEL,
    STILL_HERE,
    OpenAiEndpoint,
    OpenAiRequest,
    OpenAiRuns,
    RunOutcome,
    RunUnderWay,
    data_file,
    data_picture,
    failed,
    failure_text,
    sse,
)

BODY_BYTES_MAX = 20 * 1024 * 1024  # a long history with a few pictures; OpenClaw's for responses

ContentPart = dict[str, Any]


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ChatCompletionRequest(msgspec.Struct, frozen=True):
    """The fields of a request that are used; an agent has its own temperature and its own tools."""

    messages: list[ChatMessage]
    model: str = MODEL
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None


def chat_endpoints(asking: OpenAiRuns, clock: Clock, body_bytes_max: int | None) -> list[Endpoint]:
    door = _ChatDoor(asking, clock)
    return [
        Endpoint(
            method="POST",
            path="/v1/chat/completions",
            handle=door.complete,
            body_bytes_max=body_bytes_max or BODY_BYTES_MAX,
        ),
        Endpoint(method="GET", path="/v1/models", handle=door.models),
    ]


class _ChatDoor:
    def __init__(self, asking: OpenAiRuns, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock

    async def models(self, _request: Request, principal: Principal) -> Response:
        try:
            names = await self._asking.models(principal)
        except CrossclawError as error:
            return failed(error)
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "crossclaw"} for name in names
        ]
        return json_answer({"object": "list", "data": listed})

    async def complete(self, request: Request, principal: Principal) -> Response:
        way = OpenAiEndpoint(
            ChatCompletionRequest, request_of, "openai", self._stream, self._completion
        )
        return await self._asking.answer(request, principal, way)

    def _head(self, begun: RunUnderWay, body: ChatCompletionRequest, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl_{begun.run_id}",
            "object": kind,
            "created": self._clock.now_ms() // 1000,
            "model": body.model,
        }

    def _completion(
        self, begun: RunUnderWay, body: ChatCompletionRequest, said: RunOutcome
    ) -> dict[str, Any]:
        message = {"role": "assistant", "content": said.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = self._head(begun, body, "chat.completion")
        return {**head, "choices": [choice], "usage": _usage(said)}

    async def _stream(
        self, principal: Principal, begun: RunUnderWay, body: ChatCompletionRequest
    ) -> AsyncGenerator[bytes]:
        head = self._head(begun, body, "chat.completion.chunk")

        def chunk(delta: ContentPart, finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return sse({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        try:
            async for piece in self._asking.words(principal, begun):
                if isinstance(piece, RunOutcome):
                    yield chunk({}, "stop")
                    if body.stream_options and body.stream_options.include_usage:
                        yield sse({**head, "choices": [], "usage": _usage(piece)})
                else:
                    yield chunk({"content": piece}) if piece else STILL_HERE
        except Exception as error:  # noqa: BLE001  the answer has begun: the failure is a part of it
            yield sse({"error": {"message": failure_text(error), "type": "api_error"}})
        yield DONE


def _usage(said: RunOutcome) -> dict[str, int]:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
    }


def request_of(body: ChatCompletionRequest) -> OpenAiRequest:
    """The request in common form: the last message is what is asked; system messages go into the system prompt."""
    system = [text_of(m.content) for m in body.messages if m.role in ("system", "developer")]
    spoken = [m for m in body.messages if m.role not in ("system", "developer")]
    if not spoken or spoken[-1].role not in ("user", "tool", "function"):
        raise Invalid("the last message must be the user's")
    earlier = "\n".join(f"{m.name or m.role}: {text_of(m.content)}" for m in spoken[:-1])
    return OpenAiRequest(
        model=body.model,
        words=text_of(spoken[-1].content),
        system="\n\n".join(system),
        earlier=f"Earlier in this conversation:\n{earlier}" if earlier else "",
        pictures=tuple(_pictures(spoken[-1].content)),
        user=body.user,
    )


def text_of(content: str | list[ContentPart] | None) -> str:
    if isinstance(content, list):
        kinds = ("text", "input_text", "output_text")
        return "\n".join(str(p.get("text") or "") for p in content if p.get("type") in kinds)
    return content or ""


def _pictures(content: str | list[ContentPart] | None) -> list[dict[str, Any]]:
    """The pictures and files of a message, in their order."""
    found: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "image_url":
            url = part.get("image_url")
            found.append(data_picture(str(url.get("url")) if isinstance(url, dict) else str(url)))
        elif part.get("type") == "file":
            found.append(data_file(part.get("file")))
    return found
