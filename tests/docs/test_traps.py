"""docs/channels-traps.md: fifty numbers, each with a test that is there, or with a reason."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "channels-traps.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.M)
NAMED = re.compile(r"`([\w/]+\.py)`((?:[,;]?(?: and)? ?\*[^*]+\*)+)")
REASON_CHARS_MIN = 60
BY_DESIGN = {8, 14}
"""Those without a test: what would have to be tried is not there."""


def rows() -> dict[int, str]:
    found = ROW.findall(PAGE.read_text("utf-8"))
    assert len(found) == len({number for number, *_ in found}), "a number stands there twice"
    return {int(number): holds for number, _, holds in found}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return frozenset(
        node.name.removeprefix("test_").replace("_", " ")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_"
    )


def named_in(holds: str) -> list[tuple[str, str]]:
    return [
        (file, words)
        for file, several in NAMED.findall(holds)
        for words in re.findall(r"\*([^*]+)\*", several)
    ]


def test_no_trap_is_missing() -> None:
    assert sorted(rows()) == list(range(1, 51))


@pytest.mark.parametrize("number", range(1, 51))
def test_a_trap_has_tests_that_are_there_or_a_reason(number: int) -> None:
    holds = rows()[number]
    named = named_in(holds)
    for file, words in named:
        begin = words.removesuffix("…").rstrip()
        whole = begin == words
        found = [name for name in names_in(file) if name == begin or (not whole and name.startswith(begin))]  # fmt: skip
        assert len(found) == 1, f"{file}: {words}"
    assert bool(named) == (number not in BY_DESIGN)
    if not named:
        assert len(holds) >= REASON_CHARS_MIN
    assert re.findall(r"`[\w/]+\.py`", holds) == [f"`{each}`" for each, _ in NAMED.findall(holds)]
