"""What is changed: one small mistake in one function, such as people make.

Only what functions do is changed. Words for people (texts, logs), types and what a module or a class says
at its top level are left alone.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[2] / "src"
ROOMS = ("runs", "policy", "door", "sessions", "delivery")

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}

Change = Callable[[], None]
Instead = Callable[[ast.AST], Change]
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    file: str
    """From `src`."""
    function: str
    """`Class.method` or `function`: whose code is exchanged."""
    number: int
    """Among the changes of that function."""
    line: int
    what: str
    """With a number where the same change can be made at several places of the function."""

    @property
    def name(self) -> str:
        """Without its line, which moves."""
        return f"{self.file} {self.function}: {self.what}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.what}"

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")


def all_mutants() -> list[Mutant]:
    files = [path for room in ROOMS for path in sorted((SRC / "crossclaw" / room).glob("*.py"))]
    return [mutant for path in files for mutant in _of_file(path)]


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """In a mixed order, so that what is known half way is a sample too. Whether a mutant is in it depends on its own
    name alone: a change of the program elsewhere leaves the others in."""
    return sorted(mutants, key=lambda each: _lot(each.name, seed))[:count]


def _lot(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def mutated(mutant: Mutant) -> ast.Module:
    """The module with that change."""
    tree = ast.parse((SRC / mutant.file).read_text("utf-8"))
    function = dict(functions(tree))[mutant.function]
    changes = list(_changes(function))
    changes[mutant.number][2]()
    return ast.fix_missing_locations(tree)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def _of_file(path: Path) -> Iterator[Mutant]:
    file = path.relative_to(SRC).as_posix()
    seen = set()
    for name, function in functions(ast.parse(path.read_text("utf-8"))):
        if name in seen:  # an overload or a setter: the last one counts, and it is rare
            continue
        seen.add(name)
        same = Counter[str]()
        for number, (node, what, _) in enumerate(_changes(function)):
            same[what] += 1
            unique = what if same[what] == 1 else f"{what} ({same[what]})"
            yield Mutant(file, name, number, node.lineno, unique)


def _changes(function: Function) -> Iterator[tuple[ast.stmt | ast.expr, str, Change]]:
    for node, parent, field, index in _walk(function):
        for what, change in _of_node(node, parent, field, index, function.name):
            yield node, what, change


Place = tuple[ast.stmt | ast.expr, ast.AST, str, int | None]


def _walk(function: Function) -> Iterator[Place]:
    stack: list[Place] = [(each, function, "body", n) for n, each in enumerate(function.body)]
    while stack:
        place = stack.pop(0)
        node = place[0]
        if _is_for_people(node):
            continue
        yield place
        stack[:0] = list(_below(node))


def _below(node: ast.AST) -> Iterator[Place]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "args", "decorator_list") and isinstance(
            node, Function | ast.AnnAssign
        ):
            continue
        for index, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(each, ast.stmt | ast.expr):
                yield each, node, field, index
            elif isinstance(each, ast.AST):  # arguments, keywords, handlers, comprehensions
                yield from _below(each)


def _is_for_people(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    called = node.value if isinstance(node, ast.Expr) else node
    if isinstance(called, ast.Constant):
        return isinstance(node, ast.Expr)
    return isinstance(called, ast.Call) and ast.unparse(called.func).startswith(("log.", "cast"))


def _of_node(
    node: ast.stmt | ast.expr, parent: ast.AST, field: str, index: int | None, function: str
) -> Iterator[tuple[str, Change]]:
    def instead(new: ast.AST) -> Change:
        def change() -> None:
            if index is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[index] = new

        return change

    yield from _of_conditions(node, instead)
    yield from _of_values(node)
    yield from _of_statements(node, instead, function)
    if isinstance(node, ast.Call):
        yield from _of_calls(node)


def _of_conditions(node: ast.AST, instead: Instead) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            other = _COMPARED[type(op)]
            yield f"{_short(node)}: {other.__name__}", lambda: node.ops.__setitem__(0, other())
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"and/or in {_short(node)}", lambda: setattr(node, "op", swapped)
        case ast.UnaryOp(op=ast.Not()):
            yield f"without not: {_short(node)}", instead(node.operand)
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
        ):
            turned = ast.UnaryOp(ast.Not(), node.test)
            yield f"not {_short(node.test)}", lambda: setattr(node, "test", turned)


def _of_values(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield f"{value} turned", lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(number)):
            yield f"{number} + 1", lambda: setattr(node, "value", number + 1)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _COUNTED:
            counted = _COUNTED[type(node.op)]
            yield f"{_short(node)}: {counted.__name__}", lambda: setattr(node, "op", counted())
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield f"None for {_short(value)}", lambda: setattr(node, "value", ast.Constant(None))


def _of_statements(node: ast.AST, instead: Instead, function: str) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Delete():
            yield f"without {_short(node)}", instead(ast.Pass())
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if function != "__init__":
            yield f"without {_short(node)}", instead(ast.Pass())
        case ast.Continue():
            yield "break for continue", instead(ast.Break())
        case ast.Break():
            yield "continue for break", instead(ast.Continue())


def _of_calls(node: ast.Call) -> Iterator[tuple[str, Change]]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in _CALLED:
        other = _CALLED[called.id]
        yield f"{other} for {called.id}", lambda: setattr(called, "id", other)
        return
    for at, keyword in enumerate(node.keywords):
        named_for_people = keyword.arg == "name" and _short(called).endswith("start_soon")
        if keyword.arg is not None and not named_for_people:
            yield f"{_short(called)} without {keyword.arg}=", _drop(node.keywords, at)


def _drop(keywords: list[ast.keyword], at: int) -> Change:
    def change() -> None:
        del keywords[at]

    return change


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
