"""A type alias stands at one place: the same meaning under one name, where everybody finds it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import crossclaw

SRC = Path(crossclaw.__file__).parent
ROOMS_MANY = 4

ALIKE: dict[str, tuple[set[str], str]] = {
    "dict[str, Any]": (
        {
            "ContentPart",
            "EventContent",
            "Extra",
            "Frame",
            "Json",
            "Schema",
            "SheetRow",
            "Shown",
        },
        "JSON of different makers: each name says whose fields are in it",
    ),
    "Callable[[str], str | None]": (
        {"Against", "Normalize", "WhyNot"},
        "the name of a tool or the hash of a picture → why not; a sender as written → its id",
    ),
    "Callable[[str], None]": (
        {"RenewKey", "Tell"},
        "one takes the name of a provider, the other a sentence for a person",
    ),
    "tuple[str, str]": (
        {"AccountPlace", "Condition"},
        "channel and account; a clause of SQL and its one parameter",
    ),
    "tuple[str | int, ...]": (
        {"KeyPath", "Senders"},
        "steps to a value in the config; people on a chat platform",
    ),
}
"""Aliases that are equal by chance: what they mean, their names, and why each has its own."""


def subscripts() -> Iterator[tuple[str, str, ast.Subscript]]:
    """Where each stands, its name, and what it means."""
    for file in sorted(SRC.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                name = ast.unparse(node.targets[0])
                if name[0].isupper() and not name.isupper():
                    yield str(file.relative_to(SRC)), name, node.value


def aliases() -> dict[str, dict[str, str]]:
    """By what they mean: their names, and where each stands."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for file, name, value in subscripts():
        meaning = ast.unparse(value)
        if not meaning.startswith("Literal"):
            found[meaning][name] = file
    return found


def literals() -> dict[frozenset[str], list[str]]:
    """By the texts that they allow, in whatever order: where they stand, and their names."""
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for file, name, value in subscripts():
        if ast.unparse(value.value) == "Literal":
            parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
            found[frozenset(map(ast.unparse, parts))].append(f"{file}: {name}")
    return found


def users() -> dict[str, set[str]]:
    """The rooms that use each name: the one in which it stands, and those that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossclaw."):
                for each in node.names:
                    found[each.name].add(file.relative_to(SRC).parts[0])
    for file_name, name, _ in subscripts():
        found[name].add(file_name.partition("/")[0])
    return found


def test_no_alias_is_written_twice() -> None:
    """What several rooms use stands in domain/aliases.py, the rest where its first user is."""
    twice = {what: set(names) for what, names in aliases().items() if len(names) > 1}

    assert twice == {what: names for what, (names, _why) in ALIKE.items()}


def test_what_many_rooms_use_stands_at_the_bottom() -> None:
    rooms = users()
    shared = {
        name: file
        for names in aliases().values()
        for name, file in names.items()
        if len(rooms[name]) >= ROOMS_MANY
    }

    assert {"KeyPath", "Hints", "Callback"} <= shared.keys()
    assert {n: file for n, file in shared.items() if not file.startswith("domain/")} == {}


def test_a_callback_without_arguments_is_called_so() -> None:
    written = "Callable[[], None]"
    files = [file for file in SRC.rglob("*.py") if written in file.read_text("utf-8")]

    assert [str(file.relative_to(SRC)) for file in files] == ["domain/aliases.py"]


def test_the_same_choice_of_texts_has_one_name() -> None:
    """Who needs it imports the lower one: two that are equal today part ways when one of them grows."""
    found = literals()

    assert len(found) > 50
    assert {tuple(sorted(what)): where for what, where in found.items() if len(where) > 1} == {}
