"""Every line of the mission has a test that is marked with its id, or stands here as not yet built."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

LINES = {
    "K": 7, "L": 7, "H": 4, "S": 9, "P": 8, "Y": 4, "V": 4, "M": 10, "C": 2, "G": 5, "N": 9, "B": 10,
}  # fmt: skip
IDS = {f"{letter}{number}" for letter, last in LINES.items() for number in range(1, last + 1)}

NOT_BUILT: set[str] = set()


def marks_in(text: str) -> set[str]:
    marks = re.findall(r"mark\.spec\(([^)]*)\)", text)
    return {found for mark in marks for found in re.findall(r'"(\w+)"', mark)}


def marked() -> set[str]:
    files = [file for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    return {found for file in files for found in marks_in(file.read_text("utf-8"))}


def test_every_line_that_is_built_has_a_marked_test() -> None:
    assert IDS - marked() == NOT_BUILT


def test_scale_is_marked_on_the_embedded_store_and_on_several_gateways() -> None:
    """B6 has two halves, and one of them is no part of `make test`."""
    for folder in ("ledger", "cluster"):
        files = (TESTS / folder).rglob("test_*.py")
        assert any("B6" in marks_in(file.read_text("utf-8")) for file in files), folder


def test_a_mark_names_a_line_that_there_is() -> None:
    assert marked() - IDS == set()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('@pytest.mark.spec("K1")', {"K1"}),
        ('@pytest.mark.spec(\n    "S6",\n    "B4",\n)', {"S6", "B4"}),
        ('marks=[pytest.mark.spec("Y1", "Y2")]', {"Y1", "Y2"}),
        ('# about "K1"', set()),
    ],
)
def test_marks_are_found_however_they_are_laid_out(text: str, ids: set[str]) -> None:
    assert marks_in(text) == ids
