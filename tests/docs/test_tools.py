"""The page about the session tools: schemas, examples and refusals are what the program has."""

import re
from pathlib import Path
from typing import Any

import pytest

from crossclaw.config.supported import unsupported
from crossclaw.domain.tools import SESSION_TOOLS
from crossclaw.sessions.commands import COMMANDS
from crossclaw.testing import VirtualLoop
from tests.docs.refusing import CASES, texts_heard
from tests.docs.telling import TEXT, answers, config_of_the_page, examples

ROWS = re.findall(r"^\| (?:`` (.+?) ``|`([^`]+)`) \|", TEXT.split("## Refusals")[1], re.M)
REFUSALS = [double or single for double, single in ROWS]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


def test_every_session_tool_has_its_section_schema_and_example() -> None:
    assert set(re.findall(r"^## (\w+_\w+)$", TEXT, re.M)) == SESSION_TOOLS
    assert set(re.findall(r"<!-- schema: (\w+) -->", TEXT)) == SESSION_TOOLS
    assert {example.tool for example in examples()} == SESSION_TOOLS


def test_the_config_of_the_page_is_understood(tmp_path: Path) -> None:
    assert list(unsupported(config_of_the_page(tmp_path))) == []


@pytest.mark.spec("L1", "L3", "L4", "H1", "H2", "S1", "S2", "P2", "P3", "P5", "P6")
async def test_every_example_answers_as_printed(tmp_path: Path) -> None:
    asked = examples()
    *found, report = await answers(tmp_path, asked)

    for example, answer in zip(asked, found, strict=True):
        assert answer == example.answer, example.tool
    assert re.findall(r"```text\n(.*?)\n```", TEXT, re.S) == [report]


def test_the_table_of_refusals_is_the_list_that_is_tried() -> None:
    assert sorted(REFUSALS) == sorted(CASES)


@pytest.mark.spec("K6", "L1", "S1", "S3", "S8", "S9", "P1", "P3", "P4", "B4", "Y4", "V3")
@pytest.mark.parametrize("text", REFUSALS)
async def test_a_refusal_is_heard_as_printed(tmp_path: Path, text: str) -> None:
    heard = await texts_heard(tmp_path, CASES[text])

    beginning = text.removesuffix("…")
    assert any(each.startswith(beginning) if beginning != text else each == text for each in heard)


def test_the_commands_on_the_page_exist() -> None:
    section = TEXT.split("## Commands")[1].split("## ")[0]

    assert set(re.findall(r"`/(\w+)", section)) <= set(COMMANDS)
