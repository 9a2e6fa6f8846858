"""SECURITY.md: every line of promise names the test that holds it, and that test is there."""

import ast
import re
from pathlib import Path

import pytest

from tests.guards.table import GUARDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
ATTACKERS = (
    "The network", "A web page", "A local process", "An agent", "A sandboxed agent", "A model service",
    "An MCP server", "A stranger in a chat", "A credential that was lost",
)  # fmt: skip
ITEMS = set(range(1, 18)) - {11}
"""Of the review that brought the guards; 11 is this page."""


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


def test_every_promise_names_a_test_that_exists() -> None:
    rows = [
        line for line in PAGE.splitlines() if line.startswith("| ") and "| held by |" not in line
    ]
    assert len(rows) > 30
    for row in rows:
        named = NAMED.findall(row.split("|")[2])
        assert named, f"nothing holds: {row}"
        for path, function in named:
            assert (ROOT / path).is_file(), row
            functions = functions_of(path)
            assert any(name.startswith("test_") for name in functions), path
            assert not function or function in functions, f"{path} has no {function}"


@pytest.mark.parametrize("who", ATTACKERS)
def test_every_attacker_of_the_threat_model_has_its_promises(who: str) -> None:
    section = re.search(rf"^### {who}.*?(?=^##)", PAGE, re.M | re.S)
    assert section is not None
    assert NAMED.search(section[0])


def test_it_says_how_to_report() -> None:
    assert "## How to report" in PAGE


def test_every_guard_stands_once_and_its_tests_exist() -> None:
    for guard in GUARDS:
        text = (ROOT / "src/crossclaw" / guard.path).read_text("utf-8")
        assert text.count(guard.old) == 1, f"{guard.path}: {guard.old!r}"
        assert guard.old != guard.new
        for test in guard.tests:
            path, _, function = test.partition("::")
            assert not function or function in functions_of(path), test


def test_every_item_has_a_guard_that_is_tried() -> None:
    assert ITEMS - {guard.item for guard in GUARDS} == set()
