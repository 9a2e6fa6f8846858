"""Sizes that keep the code readable."""

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
COLLABORATORS_MAX = 6
MORE = {
    "providers/registry.py: Providers": "eight ways in which the config speaks of services",
}
"""Constructors that take more than six, and why."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        yield str(path.relative_to(SRC)), ast.parse(path.read_text("utf-8"))


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        (where, node.name, length)
        for where, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not long


def test_no_file_is_longer_than_ten_pages() -> None:
    lengths = {
        str(path.relative_to(SRC)): len(path.read_text("utf-8").splitlines())
        for path in SRC.rglob("*.py")
    }

    assert not {where: lines for where, lines in lengths.items() if lines > FILE_LINES_MAX}


def test_a_constructor_with_more_than_six_collaborators_is_two_parts() -> None:
    """What everybody needs comes as one, `ServiceContext`."""
    found = {
        f"{where}: {kind.name}"
        for where, tree in modules()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for made in kind.body
        if isinstance(made, ast.FunctionDef)
        and made.name == "__init__"
        and len(made.args.args) - 1 + len(made.args.kwonlyargs) > COLLABORATORS_MAX
    }

    assert found == set(MORE)
