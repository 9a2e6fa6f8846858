"""A type alias stands at one place: the same meaning under one name, where everybody finds it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import crossclaw

SRC = Path(crossclaw.__file__).parent


def subscripts() -> Iterator[tuple[str, str, ast.Subscript]]:
    """Where each stands, its name, and what it means."""
    for file in sorted(SRC.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                name = ast.unparse(node.targets[0])
                if name[0].isupper() and not name.isupper():
                    yield str(file.relative_to(SRC)), name, node.value


def aliases() -> dict[tuple[str, str], list[str]]:
    """By their name and what they mean: where they stand."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file, name, value in subscripts():
        meaning = ast.unparse(value)
        if not meaning.startswith("Literal"):
            found[name, meaning].append(file)
    return found


def literals() -> dict[frozenset[str], list[str]]:
    """By the texts that they allow, in whatever order: where they stand, and their names."""
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for file, name, value in subscripts():
        if ast.unparse(value.value) == "Literal":
            parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
            found[frozenset(map(ast.unparse, parts))].append(f"{file}: {name}")
    return found


def test_no_alias_is_written_twice() -> None:
    """What several rooms use stands in domain/aliases.py, the rest where its first user is."""
    assert {what: where for what, where in aliases().items() if len(where) > 1} == {}


def test_the_same_choice_of_texts_has_one_name() -> None:
    """Who needs it imports the lower one: two that are equal today part ways when one of them grows."""
    found = literals()

    assert len(found) > 50
    assert {tuple(sorted(what)): where for what, where in found.items() if len(where) > 1} == {}
