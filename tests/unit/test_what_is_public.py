"""What others may use is named: by the package for programs outside, by each room for the rooms above it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import crossclaw

SRC = Path(crossclaw.__file__).parent
ROOMS = sorted(file.parent.name for file in SRC.glob("*/__init__.py"))


def named_by(init: Path) -> set[str]:
    for node in ast.parse(init.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def imports_of(file: Path) -> set[tuple[str, str]]:
    """Of other rooms: the room, and what of it."""
    own = file.relative_to(SRC).parts[0]
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            # `from crossclaw.room import name` names it; `from crossclaw.room.module import x` the module
            names = [alias.name for alias in node.names]
            whole = node.module.count(".") == 1
            modules = [f"{node.module}.{name}" for name in names] if whole else [node.module]
        for module in modules:
            parts = module.split(".")
            if parts[0] == "crossclaw" and len(parts) > 2 and parts[1] not in (own, "__version__"):
                found.add((parts[1], parts[2]))
    return found


def test_no_room_uses_of_another_what_that_one_does_not_name() -> None:
    """Not named is private: it may change without a look at the other rooms. To use it elsewhere, name it in the
    `__all__` of its room's `__init__`."""
    named = {room: named_by(SRC / room / "__init__.py") for room in ROOMS}
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    wrong: list[str] = []
    for file in sorted(SRC.rglob("*.py")):
        for room, what in imports_of(file):
            used[room].add(what)
            is_own_client = room == "client" and file.is_relative_to(
                SRC / "cli"
            )  # made of its parts
            if what not in named[room] and not is_own_client:
                wrong.append(f"{file.relative_to(SRC)} uses {room}.{what}")

    assert wrong == []
    modules = {room: {path.stem for path in (SRC / room).iterdir()} for room in ROOMS}
    unused = {room: (named[room] & modules[room]) - used[room] for room in ROOMS}
    assert {room: names for room, names in unused.items() if names} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_names_is_there(room: str) -> None:
    folder = SRC / room
    modules = {path.stem for path in folder.glob("*.py")} | {
        p.parent.name for p in folder.glob("*/__init__.py")
    }
    tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } | {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }

    assert named_by(folder / "__init__.py") - modules - names == set()


def test_the_package_names_what_programs_outside_may_use_and_brings_nothing_with_it() -> None:
    code = (
        "import sys, crossclaw;"
        "names = crossclaw.client.__all__;"
        "print([m for m in ('anyio', 'argparse', 'msgspec', 'websockets') if m in sys.modules]);"
        "print([name for name in names if not hasattr(crossclaw.client, name)]);"
        "print([m for m in ('apsw', 'rich', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(crossclaw.__all__) == {"__version__", "client", "testing"}
    assert done.stdout.splitlines() == ["[]", "[]", "[]"]
