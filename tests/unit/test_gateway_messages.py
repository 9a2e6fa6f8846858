"""Messages and errors, as they look on the wire."""

import json
from typing import Any

import pytest

from crossclaw.domain.errors import Busy, Forbidden, NotFound, ProviderOverloaded
from crossclaw.domain.messages import (
    AssistantMessage,
    Image,
    MediaSource,
    Message,
    Provenance,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
)
from crossclaw.domain.sessions import Entry
from crossclaw.door.dispatch import MissingScope
from crossclaw.gateway.frames import error_body, event, refusal, response
from crossclaw.gateway.messages import entry_message, wire_message

PICTURE = Image(MediaSource("base64", "image/png", "AAAA"))


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            UserMessage("hi", 5, Provenance("person", sender="ana")),
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi"}],
                "timestamp": 5,
                "provenance": {"kind": "person", "sender": "ana"},
            },
        ),
        (
            UserMessage([Text("see"), PICTURE, ToolResult("c1", "done")]),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                    {
                        "type": "toolResult",
                        "toolCallId": "c1",
                        "content": [{"type": "text", "text": "done"}],
                        "isError": False,
                    },
                ],
                "timestamp": 99,
            },
        ),
        (
            AssistantMessage(
                [Thinking("hm"), Text("I look"), ToolUse("c1", "read", {"path": "a"})],
                7,
                "anthropic",
                "m1",
                Usage(10, 5, 3, 2, 0.25),
                "tool_use",
            ),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I look"},
                    {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
                ],
                "timestamp": 7,
                "provider": "anthropic",
                "model": "m1",
                "usage": {
                    "input": 10,
                    "output": 5,
                    "cacheRead": 3,
                    "cacheWrite": 2,
                    "totalTokens": 20,
                    "cost": {"total": 0.25},
                },
                "stopReason": "toolUse",
            },
        ),
        (
            AssistantMessage("", stop_reason="error", error="no model"),
            {
                "role": "assistant",
                "content": [{"type": "text", "text": ""}],
                "timestamp": 99,
                "stopReason": "error",
                "errorMessage": "no model",
            },
        ),
        (
            ToolResultMessage("c1", "read", {"lines": 3}, True, 12, 8),
            {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "read",
                "content": [{"type": "text", "text": '{\n  "lines": 3\n}'}],
                "isError": True,
                "standing": {"name": "failed"},
                "timestamp": 8,
                "durationMs": 12,
            },
        ),
    ],
)
def test_messages_have_the_names_that_clients_know(message: Message, wire: dict[str, Any]) -> None:
    assert wire_message(message, 99) == wire


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("end_turn", "stop"),
        ("tool_use", "toolUse"),
        ("max_tokens", "length"),
        ("error", "error"),
        ("aborted", "aborted"),
        ("injected", "injected"),
    ],
)
def test_stop_reasons_are_translated(stored: Any, told: str) -> None:
    assert wire_message(AssistantMessage("x", stop_reason=stored))["stopReason"] == told


def test_blocks_of_a_tool_stay_blocks() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    content = [{"type": "text", "text": "a"}, picture]

    wire = wire_message(ToolResultMessage("c1", "look", content))

    assert wire["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image", "url": "https://x/y.png"},
    ]


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("error", "protocol", "body"),
    [
        (NotFound("no such run"), 4, {"code": "INVALID_REQUEST", "message": "no such run"}),
        (NotFound(), 3, {"code": "INVALID_REQUEST", "message": "NotFound"}),
        (Forbidden("not that"), 4, {"code": "FORBIDDEN", "message": "not that"}),
        (Forbidden("not that"), 3, {"code": "INVALID_REQUEST", "message": "not that"}),
        (Busy("later"), 4, {"code": "UNAVAILABLE", "message": "later", "retryable": True}),
        (
            ProviderOverloaded("later", 1.5),
            4,
            {
                "code": "UNAVAILABLE",
                "message": "later",
                "retryable": True,
                "retryAfterMs": 1500,
            },
        ),
        (
            MissingScope("operator.admin"),
            3,
            {"code": "INVALID_REQUEST", "message": "missing scope: operator.admin"},
        ),
        (
            MissingScope("operator.admin"),
            4,
            {
                "code": "FORBIDDEN",
                "message": "missing scope: operator.admin",
                "details": {
                    "code": "MISSING_SCOPE",
                    "missingScope": "operator.admin",
                    "requiredScopes": ["operator.admin"],
                },
            },
        ),
    ],
)
def test_errors_have_codes_that_clients_know(
    error: Exception, protocol: int, body: dict[str, Any]
) -> None:
    assert error_body(error, protocol) == body


def test_an_error_that_nobody_foresaw_tells_nothing_of_itself() -> None:
    body = error_body(KeyError("a secret word"), 4)

    assert body["code"] == "UNAVAILABLE"
    assert "secret" not in body["message"]


@pytest.mark.spec("G1")
def test_frames_have_the_published_fields_and_no_others() -> None:
    told = event("tick", {"ts": 1}, state_version={"presence": 1, "health": 2})

    assert json.loads(response('a"b', {"x": None})) == {
        "type": "res",
        "id": 'a"b',
        "ok": True,
        "payload": {"x": None},
    }
    assert json.loads(refusal("1", {"code": "X", "message": "y"})) == {
        "type": "res",
        "id": "1",
        "ok": False,
        "error": {"code": "X", "message": "y"},
    }
    assert json.loads(told.numbered(7)) == {
        "type": "event",
        "event": "tick",
        "payload": {"ts": 1},
        "stateVersion": {"presence": 1, "health": 2},
        "seq": 7,
    }
    assert "seq" not in json.loads(told.unnumbered)


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize(
    ("message", "run_id", "known"),
    [
        (UserMessage("hi"), "r1", {"idempotencyKey": "r1:user"}),
        (AssistantMessage([Text("ho")]), "r1", {"runId": "r1"}),
        (ToolResultMessage("c1", "read", "x"), "r1", {"runId": "r1"}),
        (AssistantMessage([Text("a note")]), None, {}),
    ],
)
def test_a_client_knows_a_message_of_its_own_run_again(
    message: Message, run_id: str | None, known: dict[str, str]
) -> None:
    entry = Entry(seq=7, entry_id="e1", session_id="s", type="message", at=5, message=message, run_id=run_id)  # fmt: skip
    wire = entry_message(entry)

    assert wire.pop("__openclaw") == {"id": "e1", "seq": 7, **known}
    assert wire == wire_message(message, 5)
