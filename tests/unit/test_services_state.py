"""What a service attached to a message goes back to it alone; what the runtime told a model is nobody's words."""

import msgspec
import pytest

from crossclaw.agent.view import ThinkingOrigin, build_view
from crossclaw.domain.messages import (
    AssistantMessage,
    Runtime,
    Text,
    Thinking,
    ToolUse,
    UserMessage,
    decode_message,
    encode_message,
    words_of,
)
from crossclaw.domain.sessions import Entry
from crossclaw.gateway.messages import entry_message
from crossclaw.providers.contract import AssistantTurn
from crossclaw.sessions.rows import stored_message
from crossclaw.transcripts.jsonl import entry_line

STATE = {"reasoning_content": "opaque-state"}
ANSWER = AssistantMessage(
    [
        Thinking("hm", extra=STATE),
        Text("I look.", extra={"signature": "opaque-state"}),
        ToolUse("c1", "read", {}, extra={"thought_signature": "opaque-state"}),
    ],
    provider="deepseek",
    model="v4",
)


def entry(seq: int, message: UserMessage | AssistantMessage) -> Entry:
    return Entry(session_id="s", seq=seq, entry_id=f"e{seq}", at=1, type="message", message=message)


def test_state_survives_the_store_and_the_transcript() -> None:
    assert decode_message(encode_message(ANSWER)) == ANSWER
    assert b"opaque-state" in entry_line(entry(1, ANSWER), None)


@pytest.mark.parametrize(
    ("thinking_origin", "seen"),
    [
        (ThinkingOrigin("deepseek", "v4"), True),
        (ThinkingOrigin("deepseek", "v5"), False),
        (ThinkingOrigin("other", "v4"), False),
        (None, False),
    ],
)
def test_state_goes_back_only_to_the_model_that_made_it(
    thinking_origin: ThinkingOrigin | None, seen: bool
) -> None:
    turns = build_view(
        [entry(1, UserMessage("hi")), entry(2, ANSWER)], thinking_origin=thinking_origin
    )
    said = turns[1]
    assert isinstance(said, AssistantTurn)
    assert (b"opaque-state" in msgspec.json.encode(said)) == seen
    assert any(isinstance(block, ToolUse) for block in said.content)


def test_state_is_in_no_history() -> None:
    assert "opaque-state" not in str(stored_message(entry(1, ANSWER)))
    assert "opaque-state" not in str(entry_message(entry(1, ANSWER)))
    assert "opaque-state" not in words_of(ANSWER)


def test_the_runtimes_words_are_stored_beside_the_content_and_shown_as_nobodys() -> None:
    told = UserMessage("hello", runtime=Runtime("It is Monday."))
    assert decode_message(encode_message(told)) == told
    assert "Monday" not in str(stored_message(entry(1, told)))
    assert "Monday" not in str(entry_message(entry(1, told)))
    assert "Monday" not in words_of(told)
