"""A docstring says first what a thing is or does, then why."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
FOLDERS = sorted(path.parent.name for path in SRC.glob("*/__init__.py"))
FRAGMENTS = re.findall(
    r"\w+",
    """
    After Afterwards Again Also And As Asked At Before Beside Between But By Else Empty False For
    From If In It Never Nobody None Not Of On Once Or Out Over Should Since So
    Somebody Told There They Those To Under Unless Unlike Until Up Whatever While Whoever With
    Within Without
    """,
)
"""Words that begin a reason or an exception: whoever reads them first does not know of what."""


NEIGHBOUR = re.compile(
    r"The same(,|;|:|\.| (for|by|when|while|with|without|in|on|at|to|of|as long|rule)\b)"
)
"""The same as what? Whoever came here by a search does not see the neighbour; "The same as `x`" says it."""


def begins_with_a_fragment(text: str) -> bool:
    first = re.match(r"\s*([\w'-]+)", text)
    return (first is not None and first[1] in FRAGMENTS) or NEIGHBOUR.match(
        text.strip()
    ) is not None


def docstrings(folder: Path) -> Iterator[tuple[str, str]]:
    """The place and the text of every string that is a statement: also those under attributes."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield f"{path.relative_to(SRC)}:{node.lineno}", text


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_says_the_thing_first(folder: str) -> None:
    found = dict(docstrings(SRC / folder))

    assert found
    assert not {where: text for where, text in found.items() if begins_with_a_fragment(text)}


@pytest.mark.parametrize(
    "text",
    [
        "And files.",
        "Of the lease, at least.",
        "None: it stays.",
        "Until it is ours.",
        "As in `Claim`.",
        "The same, for one address.",
        "The same for protocol 4.",
        "The same rule for all targets.",
    ],
)
def test_a_riddle_is_found(text: str) -> None:
    assert begins_with_a_fragment(text)


@pytest.mark.parametrize(
    "text",
    [
        "The pictures and files of a message.",
        "Whether it is ours.",
        "Forks: copies rows.",
        "`x`: y.",
        "The same as `allowFrom`.",
        "The same key again is the same event.",
    ],
)
def test_a_thing_or_a_deed_may_come_first(text: str) -> None:
    assert not begins_with_a_fragment(text)
