"""Users read gateway, fix, warning and archived: never the words that we use among ourselves."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "crossclaw"
# "Put away" is said "archived": the command, the method and the page have that word.
OURS = re.compile(r"\b(houses?|mend(s|ed|ing)?|told|put(s|ting)? (\S+ ){0,3}away)\b", re.I)
OURS_OF_RELEASES = re.compile(r"\b(houses?|mend(s|ed|ing)?)\b", re.I)  # what is out says "told" too
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "glossary.md"),
]


def strings_of(text: str) -> Iterator[tuple[int, str]]:
    """What a program may say: every text but docstrings, which only readers of the code see."""
    tree = ast.parse(text)
    bodies = (getattr(node, "body", None) for node in ast.walk(tree))
    silent = {
        id(statement.value)
        for body in bodies
        if isinstance(body, list)
        for statement in body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield node.lineno, node.value


def is_said(text: str) -> bool:
    """A name in code (`__all__`, a key) is not said to anybody."""
    return " " in text.strip()


def test_no_error_output_or_log_line_has_a_word_of_ours() -> None:
    said = [
        f"{file.relative_to(SRC)}:{line} {text!r}"
        for file in sorted(SRC.rglob("*.py"))
        if OURS.search(whole := file.read_text("utf-8"))
        for line, text in strings_of(whole)
        if is_said(text) and OURS.search(text)
    ]

    assert said == []


def test_the_page_has_no_word_of_ours() -> None:
    texts = re.compile(r"\"[^\"\n]*\"|`[^`]*`")
    shown = [
        f"{file.name}: {text}"
        for file in sorted((SRC / "web").glob("*.js"))
        for text in texts.findall(
            re.sub(r"^\s*(//|\*|/\*\*).*$", "", file.read_text("utf-8"), flags=re.M)
        )
        if is_said(text[1:-1]) and OURS.search(re.sub(r"\$\{[^}]*\}", "", text))
    ]
    html = re.sub(r"<[^>]*>", "", (SRC / "web" / "index.html").read_text("utf-8"))

    assert shown == []
    assert not OURS.search(html)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_for_users_have_no_word_of_ours(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)

    assert [line for line in prose.splitlines() if OURS.search(line)] == []


def test_the_changelog_has_no_word_of_ours() -> None:
    prose = re.sub(r"`[^`\n]*`", "", (ROOT / "CHANGELOG.md").read_text("utf-8"))

    assert [line for line in prose.splitlines() if OURS_OF_RELEASES.search(line)] == []


def test_what_is_not_released_yet_has_no_word_of_ours() -> None:
    """But for the line that says which word is no longer used."""
    whole = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased = re.split(r"^## .+$", whole, flags=re.M)[1]
    prose = re.sub(r"`[^`\n]*`|\"[^\"\n]*\"", "", unreleased)

    assert [line for line in prose.splitlines() if OURS.search(line)] == []
