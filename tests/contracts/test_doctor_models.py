"""`doctor --models` against the strict fake: what it finds is so, and it asks no model anything."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossclaw.cli.checks import Finding, models
from crossclaw.cli.model_checks import look_at_models
from crossclaw.cli.place import find_place
from crossclaw.testing import FakeModelServer
from tests.cli.person import Person

KEY = "sk-good-0123456789"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(key=KEY) as server:
        yield server


def written(folder: Path, primary: str, *fallbacks: str, **providers: Any) -> dict[str, str]:
    """The environment of somebody with such a config."""
    model = {"primary": primary, "fallbacks": fallbacks}
    raw = {"agents": {"defaults": {"model": model}}, "models": {"providers": providers}}
    path = folder / "openclaw.json"
    path.write_text(json.dumps(raw))
    return {
        "HOME": str(folder),
        "OPENCLAW_CONFIG_PATH": str(path),
        "OPENCLAW_STATE_DIR": str(folder / "s"),
    }


async def found(environ: dict[str, str]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in await look_at_models(find_place(environ))}


async def test_a_good_key_and_a_model_that_is_there_are_well_on_every_wire(
    tmp_path: Path, server: FakeModelServer
) -> None:
    used = [
        "anthropic/claude-opus-5-5",
        "openai/gpt-6-astra",
        "google/gemini-4-argon",
        "ollama/qwen3:8b",
    ]
    environ = written(
        tmp_path,
        *used,
        anthropic={"baseUrl": server.url, "apiKey": KEY},
        openai={"baseUrl": server.openai_url, "apiKey": KEY, "api": "openai-responses"},
        google={"baseUrl": server.gemini_url, "apiKey": KEY},
        ollama={"baseUrl": server.url, "apiKey": KEY},
    )
    findings = await found(environ)
    assert list(findings) == used
    assert {each.grade for each in findings.values()} == {"ok"}, findings
    assert "window 1,000,000" in findings["anthropic/claude-opus-5-5"].text
    assert "window 32,768" in findings["ollama/qwen3:8b"].text
    assert server.requests == []  # no model was asked: it costs nothing


async def test_a_wrong_key_is_an_error_that_says_where_the_key_goes_and_not_the_key(
    tmp_path: Path, server: FakeModelServer
) -> None:
    for name, url in (
        ("anthropic", server.url),
        ("google", server.gemini_url),
        ("own", server.openai_url),
    ):
        wrong = {name: {"baseUrl": url, "apiKey": "sk-wrong-0123456789"}}
        (finding,) = (await found(written(tmp_path, f"{name}/m", **wrong))).values()
        assert finding.grade == "error"
        assert f"{name.upper()}_API_KEY" in finding.text
        assert "wrong-0123456789" not in finding.text


async def test_a_model_that_is_not_listed_is_a_warning_with_what_there_is(
    tmp_path: Path, server: FakeModelServer
) -> None:
    at = {"baseUrl": server.url, "apiKey": KEY}
    findings = await found(written(tmp_path, "anthropic/claude-opus-9", anthropic=at))
    finding = findings["anthropic/claude-opus-9"]
    assert finding.grade == "warning"
    assert "does not list it" in finding.text
    assert "claude-opus-5-5" in finding.text


async def test_a_model_is_ticked_only_where_the_service_names_it(
    tmp_path: Path, server: FakeModelServer
) -> None:
    at = {"baseUrl": server.openai_url, "apiKey": KEY}
    for listed, told in (([], "lists no models"), ([{"id": "qwen3"}], "lists only qwen3")):
        server.plain["/v1/models"] = {"data": listed}
        finding = (await found(written(tmp_path, "own/other", own=at)))["own/other"]
        assert finding.grade == "warning"
        assert told in finding.text
    entry = {**at, "models": [{"id": "qwen3"}]}
    by_config = list(models(find_place(written(tmp_path, "own/other", own=entry))))
    assert [(each.grade, "which has qwen3" in each.text) for each in by_config] == [
        ("warning", True)
    ]


async def test_a_server_that_is_down_and_a_missing_key_are_errors(
    tmp_path: Path, server: FakeModelServer
) -> None:
    server.close()
    down = {"own": {"baseUrl": server.openai_url}}
    findings = await found(written(tmp_path, "own/m", "openai/gpt-6-astra", **down))
    assert {each.grade for each in findings.values()} == {"error"}
    assert "cannot be reached" in findings["own/m"].text
    assert "OPENAI_API_KEY" in findings["openai/gpt-6-astra"].text


async def test_the_window_is_what_the_server_says_and_one_written_too_large_is_a_warning(
    tmp_path: Path, server: FakeModelServer
) -> None:
    server.plain["/v1/models"] = {"data": [{"id": "qwen3", "max_model_len": 8_192}]}
    at: dict[str, Any] = {"baseUrl": server.openai_url, "apiKey": KEY}
    findings = await found(written(tmp_path, "own/qwen3", own=at))
    assert (findings["own/qwen3"].grade, "window 8,192" in findings["own/qwen3"].text) == (
        "ok",
        True,
    )
    at["models"] = [{"id": "qwen3", "contextWindow": 32_768}]
    finding = (await found(written(tmp_path, "own/qwen3", own=at)))["own/qwen3"]
    assert finding.grade == "warning"
    assert "8,192 tokens, and 32,768 are assumed" in finding.text
    assert "contextWindow: 8192" in (finding.todo or "")


@pytest.mark.spec("C2")
def test_the_command_prints_what_was_found_and_fails_where_something_is_wrong(
    person: Person, server: FakeModelServer
) -> None:
    good = {"baseUrl": server.url, "apiKey": KEY}
    person.write_config(
        json.dumps(
            {
                "agents": {"defaults": {"model": "anthropic/claude-opus-5-5"}},
                "models": {"providers": {"anthropic": good}},
            }
        )
    )
    said = person.types("doctor", "--models")
    assert "✓ anthropic/claude-opus-5-5: the service takes the key" in said.stdout
    server.key = "another"
    said = person.types("doctor", "--models", "--json")
    found = {each["subject"]: each["grade"] for each in json.loads(said.stdout)}
    assert found["anthropic/claude-opus-5-5"] == "error"
    assert said.returncode != 0


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)
