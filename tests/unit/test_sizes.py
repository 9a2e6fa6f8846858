"""Sizes that keep the code readable. How long a function may be stands in test_habits.py, for JavaScript too."""

import ast
import copy
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
FILE_LINES_MAX = 500
ARGUMENTS_MAX = 6
HANDLER_LINES_MAX, HANDLER_STATEMENTS_MAX = 15, 10
"""Of what a handler does, without its signature and documentation. Lines alone would be met by crowded ones; statements
count those inside of others too."""
SAME_NODES_MIN = 30
"""Parts of a function: what is smaller says too little to be a rule of its own."""
MORE = {
    "app/serving.py: run_gateway": "what the command line hands over, each with a default",
    "channels/http.py: ChannelHttp._request": "the parts of an HTTP request",
    "client/asynchronous.py: AsyncGatewayClient.spawn": "the parameters of sessions_spawn",
    "client/asynchronous.py: connect_async": "what a program may say about its gateway, each with a default",
    "client/blocking.py: GatewayClient.spawn": "the parameters of sessions_spawn",
    "client/blocking.py: connect": "what a program may say about its gateway, each with a default",
    "delivery/sender.py: DeliverySender.settle": "the columns of a delivery that an attempt changes",
    "domain/keys.py: SessionKey.direct": "the parts of a key",
    "domain/states.py: lane_state": "what is known about a lane; rows of several kinds know it",
    "ledger/contract.py: Reads.list_entries": "a query: each narrows it by its name",
    "ledger/contract.py: Reads.list_sessions": "a query: each narrows it by its name",
    "ledger/sqlite/reading.py: list_entries": "a query: each narrows it by its name",
    "ledger/sqlite/reads.py: ReadTable.list_sessions": "a query: each narrows it by its name",
    "ledger/sqlite/monitoring.py: SqliteMonitoring.page": "a query: each narrows it by its name",
    "ledger/monitoring.py: MonitoringReads.page": "a query: each narrows it by its name",
    "providers/registry.py: Providers.__init__": "eight ways in which the config speaks of services",
    "runs/run_store.py: RunStore.accept_ended": "what is stored with a run in its one step",
    "sessions/exchange.py: Exchanges._follow": "the fields of the run that follows",
    "sessions/rows.py: tool_row": "the columns of a row on the wire",
    "sessions/run_builder.py: RunBuilder.following": "the fields of a run",
    "sessions/run_builder.py: RunBuilder.new": "the fields of a run",
    "testing/gateway.py: open_gateway": "what a test may have otherwise, each with a default",
}
"""What takes more than six arguments, and why. All beyond the sixth are given by their names."""
LONGER_HANDLERS = {
    "gateway/methods/runs.py: agent": "four statements: one Arrival with its twelve fields, and two answers",
}
"""Handlers of methods that are longer, and why."""


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


def test_no_file_is_longer_than_ten_pages() -> None:
    lengths = {
        str(path.relative_to(SRC)): len(path.read_text("utf-8").splitlines())
        for path in SRC.rglob("*.py")
    }

    assert not {where: lines for where, lines in lengths.items() if lines > FILE_LINES_MAX}


def arguments_of(function: Function) -> tuple[int, int]:
    """How many may be given by their place, without `self`, and how many there are in all."""
    args = function.args
    placed = [each.arg for each in (*args.posonlyargs, *args.args)]
    count = len(placed) - (placed[:1] in (["self"], ["cls"]))
    return count, count + len(args.kwonlyargs)


def functions() -> Iterator[tuple[str, Function]]:
    """All of them, each by its file, its class and its name."""
    for where, tree in modules():
        for parent in ast.walk(tree):
            of = f"{parent.name}." if isinstance(parent, ast.ClassDef) else ""
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, Function):
                    yield f"{where}: {of}{node.name}", node


def test_what_takes_more_than_six_arguments_is_two_parts() -> None:
    """What everybody needs comes as one, `ServiceContext`; what belongs together as a type of its own."""
    counts = {name: arguments_of(node) for name, node in functions()}

    assert len(counts) > 5_000
    assert {name for name, (_, every) in counts.items() if every > ARGUMENTS_MAX} == set(MORE)
    assert not [name for name, (placed, _) in counts.items() if placed > ARGUMENTS_MAX]


def is_handler(node: ast.AST) -> bool:
    marks = node.decorator_list if isinstance(node, Function) else []
    return any(ast.unparse(mark).startswith("method(") for mark in marks)


def test_a_handler_of_a_method_is_thin() -> None:
    """Parameters, one service, a result: what is decided lies below."""
    handlers = {
        f"{where}: {node.name}": body_of(node)
        for where, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, Function) and is_handler(node)
    }
    long = {
        name
        for name, body in handlers.items()
        if (body[-1].end_lineno or 0) - body[0].lineno + 1 > HANDLER_LINES_MAX
        or sum(isinstance(part, ast.stmt) for each in body for part in ast.walk(each))
        > HANDLER_STATEMENTS_MAX
    }

    assert len(handlers) > 100
    assert long <= set(LONGER_HANDLERS)


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
