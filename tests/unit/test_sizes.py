"""Sizes that keep the code readable."""

import ast
import copy
from collections import defaultdict
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
COLLABORATORS_MAX = 6
SAME_NODES_MIN = 30
"""Parts of a function: what is smaller says too little to be a rule of its own."""
MORE = {
    "providers/registry.py: Providers": "eight ways in which the config speaks of services",
}
"""Constructors that take more than six, and why."""


class _Nameless(ast.NodeTransformer):
    """Arguments and variables by their order, so that other names for them make no other function."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=self._number(node.arg))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        known = isinstance(node.ctx, ast.Store) or node.id in self._numbers
        return ast.Name(id=self._number(node.id) if known else node.id, ctx=ast.Load())

    def _number(self, name: str) -> str:
        return self._numbers.setdefault(name, str(len(self._numbers)))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def body_of(function: Function) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) else function.body


def shape_of(function: Function) -> tuple[type[ast.AST], ...]:
    return tuple(type(node) for each in body_of(function) for node in ast.walk(each))


def what_it_does(function: Function) -> str:
    """Without its name, its documentation and the names inside."""
    whole = ast.Lambda(function.args, ast.Constant(None))
    told = ast.Module(body=[ast.Expr(whole), *body_of(function)], type_ignores=[])
    return ast.dump(_Nameless().visit(copy.deepcopy(told)))


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(SRC)), ast.parse(path.read_text("utf-8")))
        for path in sorted(SRC.rglob("*.py"))
    ]


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


def test_no_function_stands_twice() -> None:
    alike: defaultdict[tuple[type[ast.AST], ...], list[tuple[str, Function]]] = defaultdict(list)
    for where, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, Function) and len(shape := shape_of(node)) >= SAME_NODES_MIN:
                alike[shape].append((f"{where}: {node.name}", node))
    same: defaultdict[str, list[str]] = defaultdict(list)
    for group in alike.values():
        for name, node in group if len(group) > 1 else ():
            same[what_it_does(node)].append(name)

    assert not [names for names in same.values() if len(names) > 1]
