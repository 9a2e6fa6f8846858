"""A type alias stands at one place: the same meaning under one name, where everybody finds it."""

import ast
from collections import defaultdict
from pathlib import Path

import crossclaw

SRC = Path(crossclaw.__file__).parent


def aliases() -> dict[tuple[str, str], list[str]]:
    """By their name and what they mean: where they stand."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in sorted(SRC.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)):
                continue
            name, meaning = ast.unparse(node.targets[0]), ast.unparse(node.value)
            is_type = name[0].isupper() and not name.isupper() and "[" in meaning
            if is_type and not meaning.startswith("Literal"):
                found[name, meaning].append(str(file.relative_to(SRC)))
    return found


def test_no_alias_is_written_twice() -> None:
    """What several rooms use stands in domain/aliases.py, the rest where its first user is."""
    assert {what: where for what, where in aliases().items() if len(where) > 1} == {}
