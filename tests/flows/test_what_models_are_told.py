"""What a model is told of itself and its tools: complete, plain, within its budget, and open to its owner."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.providers.contract import ModelRequest
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say, two_agents

BUDGET_TOKENS = 3_000


async def first_request(folder: Path, **options: Any) -> ModelRequest:
    model = ScriptedProvider(["yes"])
    async with open_gateway(folder, model, **options) as gateway:
        await say(gateway, "main", "hello", "r1")
    return model.seen[0]


@pytest.mark.spec("M6")
async def test_prompt_and_built_in_tools_stay_within_three_thousand_tokens(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        told = await call(gateway, "agents.prompt")

    assert {"read", "write", "edit", "exec", "sessions_send"} <= {t["name"] for t in told["tools"]}
    assert told["totalTokens"] == told["systemTokens"] + told["toolTokens"]
    assert 1_000 < told["totalTokens"] <= BUDGET_TOKENS


@pytest.mark.spec("M6")
async def test_the_owner_is_shown_exactly_what_the_model_gets(tmp_path: Path) -> None:
    config = two_agents()
    request = await first_request(tmp_path, config=config)
    async with open_gateway(tmp_path, ScriptedProvider([]), config=config) as gateway:
        told = await call(gateway, "agents.prompt", agentId="main")

    assert told["system"] == request.system
    assert [(t["name"], t["description"], t["schema"]) for t in told["tools"]] == [
        (tool.name, tool.description, tool.schema) for tool in request.tools
    ]


async def test_every_parameter_of_every_tool_says_what_it_is_for_and_none_is_nullable(
    tmp_path: Path,
) -> None:
    tools = (await first_request(tmp_path)).tools

    assert len(tools) > 10
    assert sum(len(tool.schema.get("properties", {})) for tool in tools) > 30
    for tool in tools:
        assert tool.description.count(".") >= 1, tool.name
        for name, told in tool.schema.get("properties", {}).items():
            assert told.get("description"), f"{tool.name}.{name}"
            assert "null" not in str(told), f"{tool.name}.{name}"
        assert not {"anyOf", "oneOf", "allOf"} & set(tool.schema), tool.name


async def test_what_takes_one_of_a_few_words_lists_them(tmp_path: Path) -> None:
    tools = {tool.name: tool.schema["properties"] for tool in (await first_request(tmp_path)).tools}

    assert tools["sessions_list"]["kinds"]["items"]["enum"][:2] == ["main", "group"]
    assert tools["sessions_spawn"]["cleanup"]["enum"] == ["delete", "keep"]
    assert "high" in tools["sessions_spawn"]["thinking"]["enum"]


@pytest.mark.spec("M10")
async def test_prompt_and_agents_list_name_the_same_agents_and_what_may_be_done_with_each(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([]), config=two_agents()) as gateway:
        listed = await call(gateway, "tool.agents_list")
        told = await call(gateway, "agents.prompt")

    ways = {row["id"]: (row["canSend"], row["canSpawn"]) for row in listed["agents"]}
    assert ways == {"main": (False, True), "librarian": (True, False)}
    assert "- librarian (send)" in told["system"]
