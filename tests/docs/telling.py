"""Examples of docs/tools.md: what the page calls, and what the gateway answers, made comparable."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from crossclaw.app import Gateway
from crossclaw.config.load import load
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.spawning import announces_in
from tests.flows.talking import results_of, say

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
TEXT = PAGE.read_text("utf-8")

_EXAMPLE = re.compile(r"```json call=(\w+)\n(.*?)```\n+```json answer\n(.*?)```", re.S)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CHANGING = {
    "runId": "<run>", "timestamp": "<ms>", "updatedAt": "<ms>", "updated": "<time>", "totalTokens": "<tokens>",
    "usage": "<usage>",
}  # fmt: skip


class Example(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    answer: Any


def examples() -> list[Example]:
    return [
        Example(tool, json.loads(asked), json.loads(answer))
        for tool, asked, answer in _EXAMPLE.findall(TEXT)
    ]


def config_of_the_page(folder: Path) -> Any:
    (found,) = re.findall(r"```json5\n(.*?)```", TEXT, re.S)
    (folder / "openclaw.json").write_text(found, "utf-8")
    return load(folder / "openclaw.json", {}).config


async def answers(folder: Path, asked: list[Example]) -> list[Any]:
    """The main session calls one tool after the other; other work settles in between. Last comes
    what its sub-agent has reported."""
    config = config_of_the_page(folder)
    async with open_gateway(folder, RehearsalProvider(), config=config) as gateway:
        await say(gateway, "agent:main:notes", "say: The keys are under the mat.", "r0")
        found = []
        for number, example in enumerate(asked, 1):
            result = await tool_result(
                gateway, "main", example.tool, example.arguments, f"r{number}"
            )
            found.append(comparable(result, folder))
            await anyio.sleep(60)
        return [*found, *(comparable(text, folder) for text in await announces_in(gateway))]


async def tool_result(
    gateway: Gateway, session: str, tool: str, arguments: dict[str, Any], run_id: str
) -> Any:
    """What a tool answers to a run of that session."""
    run = await say(gateway, session, f"tool: {tool} {json.dumps(arguments)}", run_id)
    (result,) = await results_of(gateway, run)
    return result


def comparable(value: Any, folder: Path) -> Any:
    """Ids and times by their names, paths as they are for most people."""
    match value:
        case dict():
            changing = {**_CHANGING, "id": "<entry>"} if "role" in value else _CHANGING
            return {
                name: changing.get(name) or comparable(each, folder) for name, each in value.items()
            }
        case list():
            return [comparable(each, folder) for each in value]
        case str():
            text = _UUID.sub("<uuid>", value.replace(str(folder / "state"), "~/.openclaw"))
            text = re.sub(r"tokens \S+ \(in \S+ / out \S+\)", "tokens <n> (in <n> / out <n>)", text)
            return re.sub(
                r"Tokens: \d+ (.*?); \d+ in, \d+ out", r"Tokens: <n> \1; <n> in, <n> out", text
            )
    return value


def as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
