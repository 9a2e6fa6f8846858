"""The catalogue: what is known about models, and that the config may know better."""

import re
from pathlib import Path

import msgspec
import pytest

from crossclaw.config.catalogue import _ROWS, known_facts
from crossclaw.config.load import load
from crossclaw.config.model import ANTHROPIC_MODEL, OPENAI_MODEL


def test_every_row_says_where_and_when_it_was_read() -> None:
    for name, facts in _ROWS.items():
        assert re.search(r"2026-\d\d-\d\d$", facts.source), name


@pytest.mark.parametrize("model", [ANTHROPIC_MODEL, OPENAI_MODEL])
def test_the_default_models_are_known(model: str) -> None:
    facts = known_facts(model)
    assert facts.window >= 1_000_000
    assert facts.output == 128_000
    assert facts.thinks_unasked


@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        ("claude-opus-4-20250514", 200_000, 32_000),
        ("claude-opus-4-8", 1_000_000, 128_000),
        ("anthropic/claude-opus-4.8", 1_000_000, 128_000),
        ("us.anthropic.claude-sonnet-4-6-v1:0", 1_000_000, 64_000),
        ("claude-3.7-sonnet", 200_000, 64_000),
        ("gpt-4o-mini", 128_000, 16_384),
        ("models/gemini-2.5-pro", 1_048_576, 65_536),
        ("qwen3:8b", 131_072, None),
        ("nobody-knows-it", 200_000, None),
    ],
)
def test_a_model_is_known_however_it_is_spelled(name: str, window: int, output: int | None) -> None:
    facts = known_facts(name)
    assert (facts.window, facts.output) == (window, output)


@pytest.mark.parametrize(
    ("model", "wanted", "level"),
    [
        ("claude-opus-5-5", "minimal", "low"),
        ("claude-opus-5-5", "xhigh", "xhigh"),
        ("gpt-5.1", "xhigh", "high"),
        ("gpt-5", "minimal", "minimal"),
        ("gemini-3-pro-preview", "medium", "low"),
        ("claude-opus-5-5", "off", None),
        ("gpt-4o", "high", None),
    ],
)
def test_a_level_is_the_nearest_that_the_model_takes(
    model: str, wanted: str, level: str | None
) -> None:
    assert known_facts(model).level(wanted) == level  # type: ignore[arg-type]


def test_the_config_knows_better(tmp_path: Path) -> None:
    text = """{models: {providers: {mine: {baseUrl: "http://127.0.0.1:1/v1", models: [
      {id: "claude-opus-5-5", contextWindow: 32000, input: ["text"], reasoning: false,
       compat: {supportsTools: false}}, {id: "gpt-4o"}]}}}}"""
    file = tmp_path / "openclaw.json"
    file.write_text(text)
    config = load(file, {}).config
    facts = config.facts_for("mine/claude-opus-5-5")
    assert (facts.window, facts.pictures, facts.tools, facts.thinking) == (
        32_000, False, False, "none",
    )  # fmt: skip
    known = known_facts("gpt-4o")
    # a server of one's own, by chat completions, takes no PDFs as they are
    assert config.facts_for("mine/gpt-4o") == msgspec.structs.replace(known, documents=False)


def test_params_of_the_defaults_the_model_and_the_agent_count_in_this_order(tmp_path: Path) -> None:
    text = """{agents: {defaults: {params: {temperature: 1, top_p: 1, seed: 1},
        models: {"a/b": {params: {temperature: 2, top_p: 2, maxTokens: 5}}}},
      list: [{id: "main", params: {temperature: 3}}]}}"""
    file = tmp_path / "openclaw.json"
    file.write_text(text)
    config = load(file, {}).config
    assert config.params_for("main", "a/b") == {"temperature": 3, "top_p": 2, "seed": 1}
    assert config.params_for("gone", "c/d") == {"temperature": 1, "top_p": 1, "seed": 1}
