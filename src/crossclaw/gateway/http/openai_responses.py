"""POST /v1/responses: an agent behind OpenAI's newer interface."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
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
    failure_text,
    sse,
)
from crossclaw.gateway.http.openai_chat import BODY_BYTES_MAX, ContentPart, text_of

_OTHER_ITEMS = ("function_call_output", "reasoning", "item_reference", "function_call")


class ResponsesRequest(msgspec.Struct, frozen=True):
    input: str | list[ContentPart]
    model: str = MODEL
    instructions: str | None = None
    stream: bool | None = False
    user: str | None = None
    previous_response_id: str | None = None


def responses_endpoint(asking: OpenAiRuns, clock: Clock, body_bytes_max: int | None) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/v1/responses",
        handle=_ResponsesDoor(asking, clock).respond,
        body_bytes_max=body_bytes_max or BODY_BYTES_MAX,
    )


class _ResponsesDoor:
    def __init__(self, asking: OpenAiRuns, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock

    async def respond(self, request: Request, principal: Principal) -> Response:
        way = OpenAiEndpoint(
            ResponsesRequest, request_of, "openresponses", self._stream, self._whole
        )
        return await self._asking.answer(request, principal, way)

    def _whole(
        self, begun: RunUnderWay, body: ResponsesRequest, said: RunOutcome
    ) -> dict[str, Any]:
        return self._response(begun, body, "completed", said)

    def _response(
        self,
        begun: RunUnderWay,
        body: ResponsesRequest,
        status: str,
        said: RunOutcome | None = None,
    ) -> dict[str, Any]:
        # The id names the session too, so that `previous_response_id` finds it again.
        session = begun.key.rpartition(":")[2]
        return {
            "id": f"resp_{session}_{begun.run_id}",
            "object": "response",
            "created_at": self._clock.now_ms() // 1000,
            "status": status,
            "model": body.model,
            "output": [_item(begun, "completed", said.reply)] if said else [],
            "usage": _usage(said) if said else None,
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "metadata": {},
            "parallel_tool_calls": False,
            "previous_response_id": body.previous_response_id,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
        }

    async def _stream(
        self, principal: Principal, begun: RunUnderWay, body: ResponsesRequest
    ) -> AsyncGenerator[bytes]:
        event = _NumberedEvents()
        response = self._response(begun, body, "in_progress")
        yield event("response.created", response=response)
        yield event("response.in_progress", response=response)
        place = {"item_id": f"msg_{begun.run_id}", "output_index": 0, "content_index": 0}
        opened = _item(begun, "in_progress", None)
        yield event("response.output_item.added", output_index=0, item=opened)
        yield event("response.content_part.added", **place, part=_part(""))
        text = ""
        try:
            async for piece in self._asking.words(principal, begun):
                if isinstance(piece, RunOutcome):
                    for line in self._ended(event, begun, body, place, text, piece):
                        yield line
                elif piece:
                    text += piece
                    yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
                else:
                    yield STILL_HERE
        except Exception as error:  # noqa: BLE001  the answer has begun: the failure is a part of it
            problem = {"code": "server_error", "message": failure_text(error)}
            yield event(
                "response.failed", response={**response, "status": "failed", "error": problem}
            )
        yield DONE

    def _ended(
        self,
        event: "_NumberedEvents",
        begun: RunUnderWay,
        body: ResponsesRequest,
        place: ContentPart,
        text: str,
        said: RunOutcome,
    ) -> list[bytes]:
        whole = RunOutcome(text, said.input_tokens, said.output_tokens)
        item = _item(begun, "completed", text)
        response = self._response(begun, body, "completed", whole)
        return [
            event("response.output_text.done", **place, text=text, logprobs=[]),
            event("response.content_part.done", **place, part=_part(text)),
            event("response.output_item.done", output_index=0, item=item),
            event("response.completed", response=response),
        ]


class _NumberedEvents:
    """Writes the events of one answer, each with its number."""

    def __init__(self) -> None:
        self._number = -1

    def __call__(self, event: str, **payload: Any) -> bytes:
        self._number += 1
        return sse({"type": event, "sequence_number": self._number, **payload}, event)


def _item(begun: RunUnderWay, status: str, text: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{begun.run_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [] if text is None else [_part(text)],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(said: RunOutcome) -> dict[str, Any]:
    return {
        "input_tokens": said.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.input_tokens + said.output_tokens,
    }


def request_of(body: ResponsesRequest) -> OpenAiRequest:
    session = _session_of(body.previous_response_id)
    if isinstance(body.input, str):
        return OpenAiRequest(
            model=body.model,
            words=body.input,
            system=body.instructions or "",
            user=body.user,
            session=session,
        )
    system = [body.instructions or ""]
    spoken: list[tuple[str, ContentPart]] = []
    for item in body.input:
        role = str(item.get("role") or item.get("type") or "")
        if role in ("system", "developer"):
            system.append(text_of(item.get("content")))
        elif role in ("user", "assistant", *_OTHER_ITEMS):
            spoken.append((role, item))
        else:
            raise Invalid(f"an input item of type {role or 'nothing'} is not understood")
    return _request_of_items(body, spoken, "\n\n".join(filter(None, system)), session)


def _request_of_items(
    body: ResponsesRequest, spoken: list[tuple[str, ContentPart]], system: str, session: str | None
) -> OpenAiRequest:
    if not spoken or spoken[-1][0] not in ("user", "function_call_output"):
        raise Invalid("the last item of input must be the user's")
    _role, last = spoken[-1]
    said = [(role, _text(item)) for role, item in spoken[:-1]]
    earlier = "\n".join(f"{role}: {text}" for role, text in said if text)
    content = last.get("content")
    pictures = [
        data_file(part)
        if part.get("type") == "input_file"
        else data_picture(str(part.get("image_url")))
        for part in (content if isinstance(content, list) else [])
        if part.get("type") in ("input_image", "input_file")
    ]
    return OpenAiRequest(
        model=body.model,
        words=_text(last),
        system=system,
        earlier=f"Earlier in this conversation:\n{earlier}" if earlier else "",
        pictures=tuple(pictures),
        user=body.user,
        session=session,
    )


def _text(item: ContentPart) -> str:
    output = item.get("output")
    return text_of(item.get("content")) or (output if isinstance(output, str) else "")


def _session_of(response_id: str | None) -> str | None:
    if response_id is None:
        return None
    head, _, rest = response_id.partition("_")
    session = rest.partition("_")[0]
    if head != "resp" or not session:
        raise Invalid(f"previous_response_id {response_id!r} is none of ours")
    return session
