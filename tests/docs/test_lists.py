"""Lists that many hands add to stay lists: each thing once, in its place."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_changelog_has_each_heading_and_each_line_once() -> None:
    for release in (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]:
        headings = re.findall(r"^### ([^:\n]+)", release, re.M)
        lines = [" ".join(text.split()) for text in re.split(r"\n(?=- |#)", release)]
        said = [line for line in lines if line.startswith("- ")]

        assert sorted(headings) == sorted(set(headings))
        assert sorted(said) == sorted(set(said))


def test_the_changelog_has_lines_under_each_heading_and_no_gap_between_them() -> None:
    lines = [*(ROOT / "CHANGELOG.md").read_text("utf-8").splitlines(), "## the end"]
    filled = pairwise(line for line in lines if line)
    gaps = zip(lines, lines[1:], lines[2:], strict=False)

    assert [one for one, after in filled if one.startswith("###") and after.startswith("#")] == []
    assert [
        after for one, gap, after in gaps if one[:1] in "- " and not gap and after[:1] == "-"
    ] == []


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    """A word may have a second meaning beside another one (`service, line`), never a second row of its own."""
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    first = [name.split(", ")[0] for name in re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.M)]
    order = [re.sub(r"[^a-z ]", "", word.lower()) for word in first]

    assert 40 < len(order) < 80  # words of our own; common ones need no row
    assert [pair for pair in pairwise(order) if pair[0] >= pair[1]] == []


def test_every_folder_of_tests_has_its_row() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = set(re.findall(r"`tests/(\w+)`", "".join(re.findall(r"^\| `tests.* \|", text, re.M))))
    folders = {each.parent.name for each in (ROOT / "tests").glob("*/__init__.py")}

    assert folders - rows == set()


def test_no_table_is_cut_in_two() -> None:
    """Behind a gap a row is shown as it is typed: a table begins with its head and the line under it."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    rows = re.compile(r"\n\n(\|.*)\n(?!\|[ :|-]*-[ :|-]*\|)")

    assert {
        page.name: found for page in pages if (found := rows.findall(page.read_text("utf-8")))
    } == {}
