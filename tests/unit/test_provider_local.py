"""The local provider where its model is not needed: what it is told, and what is said when it is missing."""

import importlib.util

import pytest

from crossclaw.domain.errors import ProviderMissing
from crossclaw.domain.messages import Image, MediaSource, Text, ToolUse
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelRequest,
    ToolReturn,
    ToolSpec,
    UserTurn,
)
from crossclaw.providers.local import NO_TOOLS, OUTPUT_TOKENS_MAX, body_of, model_path
from crossclaw.providers.registry import Providers, ProviderSettings

PIXEL = Image(MediaSource("base64", media_type="image/png", data="iVBORw0KGgo="))


def test_calls_and_pictures_of_other_models_are_told_in_words() -> None:
    request = ModelRequest(
        model="smollm2",
        system="You are a gateway.",
        turns=[
            UserTurn([], [Text("look"), PIXEL]),
            AssistantTurn([Text("I look."), ToolUse("c1", "read", {})]),
            UserTurn([ToolReturn("c1", [Text("shelf nine")])], [Text("so?")]),
        ],
        tools=[ToolSpec("read", "Reads.", {})],
        output_tokens_max=99_999,
    )
    body = body_of(request)
    assert "tools" not in body
    assert body["max_tokens"] == OUTPUT_TOKENS_MAX
    assert [message["content"] for message in body["messages"]] == [
        f"You are a gateway.\n\n{NO_TOOLS}",
        "look\n(a picture that you cannot see)",
        "I look.\n(I called read.)",
        "(A tool answered: shelf nine)\n\nso?",
    ]


def test_a_missing_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ProviderMissing, match="make local-model"):
        model_path()


def test_a_provider_that_the_config_calls_local_comes_first() -> None:
    own = ProviderSettings("local", "openai-completions", "http://127.0.0.1:1/v1")
    provider, model = Providers({"local": own}, {}).get("local/meta/llama-3")
    assert (provider.name, model) == ("local", "meta/llama-3")
