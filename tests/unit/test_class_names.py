"""One class name, one class: a search for a public name finds the one place that defines it."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "crossclaw"


def test_public_class_names_are_unique() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(file.relative_to(SOURCE)))
    repeated = {name: files for name, files in where.items() if len(files) > 1}
    assert where
    assert not repeated
