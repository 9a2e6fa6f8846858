"""What a view becomes on each provider's wire is what that service accepts, for any history."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.agent.view import build_view
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.messages import Message
from crossclaw.domain.sessions import NewEntry
from crossclaw.providers.anthropic import message_params
from crossclaw.providers.contract import ModelRequest
from crossclaw.providers.openai import completion_params
from tests.proof.size import examples
from tests.properties.test_view import ME, crashed, crashed_entries

levels = st.sampled_from(["off", "high"])


def request_of(
    history: list[tuple[Message | NewEntry, str | None]], level: ThinkingLevel
) -> ModelRequest:
    turns = build_view(crashed_entries(history), thinking_origin=ME)
    return ModelRequest(model="claude-3-7-sonnet", system="s", turns=turns, thinking=level)


def anthropic_complaint(params: dict[str, Any]) -> str | None:
    asked: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(params["messages"]):
        kinds = [block["type"] for block in message["content"]]
        if message["role"] != ("assistant" if number % 2 else "user") or not kinds:
            return "roles alternate, and nobody is silent"
        if any(b["type"] == "text" and not b["text"].strip() for b in message["content"]):
            return "text blocks must not be blank"
        returned = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if returned != asked or kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
            return "results come first, one for each call"
        if "thinking" in kinds and kinds[0] != "thinking":
            return "thinking comes first"
        asked = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        if not all(re.fullmatch("[a-zA-Z0-9_-]+", call_id) for call_id in asked):
            return "ids are plain letters"
        if seen & set(asked) or len(set(asked)) != len(asked):
            return "ids are unique"
        seen |= set(asked)
    if "thinking" in params and _in_tool_loop(params):
        calls = params["messages"][-2]["content"]
        return None if calls[0]["type"] == "thinking" else "a tool turn must begin with thinking"
    return None


def _in_tool_loop(params: dict[str, Any]) -> bool:
    return any(block["type"] == "tool_result" for block in params["messages"][-1]["content"])


def openai_complaint(params: dict[str, Any]) -> str | None:
    open_calls: list[str] = []
    for message in params["messages"][1:]:
        if message["role"] == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                return "a tool message answers a call right before it"
        elif open_calls:
            return "every call is answered before anybody else speaks"
        elif message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            if not open_calls and not message["content"]:
                return "an assistant says or calls something"
        elif message["role"] != "user" or not message["content"]:
            return "only tool, assistant and user speak, and not without words"
    return "unanswered calls" if open_calls else None


@pytest.mark.spec("M1", "M3")
@settings(max_examples=examples(100), deadline=None)
@given(crashed, levels)
def test_anthropic_gets_what_it_accepts(
    history: list[tuple[Message | NewEntry, str | None]], level: ThinkingLevel
) -> None:
    params = message_params(request_of(history, level))

    assert anthropic_complaint(params) is None
    assert [block["text"] for block in params["system"]] == ["s"]


@pytest.mark.spec("M1", "M3")
@settings(max_examples=examples(100), deadline=None)
@given(crashed, levels)
def test_openai_gets_what_it_accepts(
    history: list[tuple[Message | NewEntry, str | None]], level: ThinkingLevel
) -> None:
    params = completion_params(request_of(history, level))

    assert openai_complaint(params) is None
    assert params["messages"][0] == {"role": "system", "content": "s"}
