"""One name, one thing: a search for a public class or type alias finds the one place that defines it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "crossclaw"


def defined(node: ast.stmt) -> str | None:
    """The name of the class or of the alias that a statement of a module defines. Constants are in capitals."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name if name[0].isupper() and not name.isupper() else None
    return None


def names() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            name = defined(node)
            if name is not None and not name.startswith("_"):
                yield name, str(file.relative_to(SOURCE))


def test_public_names_of_classes_and_aliases_are_unique() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for name, file in names():
        where[name].append(file)

    assert len(where) > 1_500
    assert {name: files for name, files in where.items() if len(files) > 1} == {}
