"""Built upward, then served: a part gets what it needs when it is made or when it serves. Nobody writes its attributes from outside,
and no closure waits for a part that is made later: either would be a cycle that the check of imports cannot see. Setters would be one too:
the few that there are are listed here."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "crossclaw"

LIBRARIES = {
    "anyio: the time of a scope": {"deadline"},
    "exceptions of Python": {"__cause__", "args"},
    "httpx and the sockets of uvicorn": {"encoding", "max_message_size", "max_size", "stream"},
    "llama.cpp: its parameters": {
        *("api_keys", "n_ctx", "n_parallel", "n_threads", "path", "verbosity", "warmup"),
    },
    "markdown-it and rich: tokens that are drawn otherwise": {
        *("children", "content", "parsed", "validateLink"),
    },
    "matrix-nio: its rooms, and its state of keys": {
        *("devices", "message_index_ok", "newly_encrypted", "shared", "uploaded_key_count"),
    },
    "psycopg": {"nonblocking", "notice_handler"},
    "selectors: how long a turn of the loop takes is measured": {"select"},
    "ssl": {"check_hostname", "minimum_version", "verify_flags", "verify_mode"},
    "tarfile": {"mode", "size"},
    "Pillow, cronsim": {"MAX_IMAGE_PIXELS", "dt"},
}
"""Attributes of objects that are not ours: their libraries have no other way."""

RECORDS = {
    "an error is told what it is about on its way up": {
        "config/source.py: explained.excerpt",
        "providers/failures.py: error.place",
        "providers/fallback.py: failed.part",
        "providers/fallback.py: failed.place",
        "providers/service.py: error.part",
    },
    "a step is answered by the thread that has stored it": {
        "ledger/postgres/writer.py: step.error",
        "ledger/sqlite/writer.py: step.error",
        "ledger/sqlite/writer.py: step.results",
    },
    "a report that is counted up, and belongs to the import that counts": {
        *(
            f"sessions/importing.py: self.report.{name}"
            for name in ("agents", "approvals", "bytes", "messages", "notes", "sessions")
        ),
        "sessions/importing.py: self.report.transcripts_before",
    },
    "what a run has said so far: handed to whoever carries it out, to be filled": {
        "agent/execute.py: progress.last_words",
        "agent/loop.py: progress.last_words",
        "sessions/guests.py: progress.last_words",
    },
    "a property of a subscription: what it hears": {
        "gateway/methods/subscribing.py: _subscription(caller).all_sessions",
        "gateway/methods/subscribing.py: caller.listening.all_sessions",
    },
}
"""Records of ours that are filled by another module than their own. No part of a gateway is among them."""

SETTERS = {
    "a command of a chat is a call at the door, whose method chat.send hands commands in; the one circle": {
        "sessions/commands.py: Commands.begin: dispatch",
        "sessions/commands.py: Commands.begin: allow",
    },
    "agents.prompt is a method of the door, and the tools of sessions that it shows are made of the door": {
        "gateway/methods/prompting.py: Prompting.begin: tools_of",
    },
    "methods ask who is connected to the server, which is built on the door that has them": {
        "gateway/server.py: Connected.begin: clients",
        "gateway/server.py: Connected.begin: presence",
    },
    "config.set applies rules to the gateway and the server that are open, and is a method of both": {
        "app/reloading.py: ConfigWritten.begin: take_rules",
    },
    "lanes ask whether a run may be claimed, and guests are built on what the lanes store": {
        "runs/claiming.py: Claiming.begin: guest_is_here",
    },
    "other gateways are asked by the parts that answer them too; links are there when the port is": {
        "runs/neighbours.py: Neighbours.begin_answering: answers",
        "runs/neighbours.py: Neighbours.begin_asking: carry",
        "runs/neighbours.py: Neighbours.begin_telling: own_clients",
    },
    "no part, but a statement: it names the lease, which is taken over the open ledger": {
        "ledger/postgres/writer.py: PostgresWriter.guard_by: statement",
    },
}
"""Parts that were built before what they call. Each is handed callables (but for the last), at one place in `app/`. A new one needs a
reason why neither its constructor nor its `serve` can take them."""

SERVED = {
    "whoever serves: what it needs until it ends": {
        "app/serving.py: _Serving.serve: leaving",
        "channels/discord/account.py: DiscordAccount.serve: task_status",
        "channels/slack/account.py: SlackAccount.serve: task_status",
        "channels/supervisor.py: ChannelSupervisor.serve: services",
        "channels/telegram/account.py: TelegramAccount.serve: host",
        "runs/lanes.py: Lanes.serve: handler",
        "testing/channel.py: MemoryChannel.serve: host",
    },
    "a connection: its transport, by the protocol of asyncio": {
        "gateway/sockets.py: GuardedHttp.enter_below: transport",
        "gateway/tls.py: TlsEntrance.connection_made: transport",
    },
}

STATE = {
    "app/shared_config.py: SharedConfig.take_config: loaded",
    "channels/hosting.py: AccountHost.connected: facts",
    "channels/hosting.py: AccountHost.learn: facts",
    "channels/supervisor.py: _SupervisedAccount.turn: state",
    "client/following.py: _Reader.begin: after",
    "client/peer.py: EventQueue.end: why",
    "delivery/send_order.py: SendOrder.follow: turn",
    "gateway/hello.py: Health.update: snapshot",
    "gateway/run_events.py: RunEvents.said: piece",
    "gateway/run_events.py: RunEvents.started: run",
    "ledger/postgres/lockstep.py: PendingRows.resolve: answer",
    "ledger/postgres/lockstep.py: RuleRun.fail: error",
    "providers/direct.py: DirectTransport.give_back: connection",
    "providers/ollama.py: _AnswerBuilder.add: line",
    "runs/under_way.py: UnderWay.note_end: status",
    "runs/under_way.py: UnderWay.stop: outcome",
    "sessions/importing.py: _Batch.add: read",
}
"""Facts that were learned, read or said last: they are looked at, and no part of a gateway is among them."""

VALUES = {"str", "int", "float", "bool", "bytes", "None", "Path", "Secret"}
"""What is no part, whoever hands it over: state that changes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> list[tuple[str, ast.Module]]:
    paths = sorted(SRC.rglob("*.py"))
    return [(str(each.relative_to(SRC)), ast.parse(each.read_text("utf-8"))) for each in paths]


def written_in(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            left = list(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            left = [target]
        case _:
            return
    while left:
        each = left.pop()
        if isinstance(each, ast.Tuple | ast.List):
            left.extend(each.elts)
        else:
            yield each


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def own_fields(tree: ast.Module) -> set[str]:
    """Of the classes of a module: their records may be filled anywhere in it."""
    found: set[str] = set()
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef):
            of_class = [each for node in kind.body for each in written_in(node)]
            found |= {each.id for each in of_class if isinstance(each, ast.Name)}
            of_self = [each for node in ast.walk(kind) for each in written_in(node)]
            found |= {
                each.attr
                for each in of_self
                if isinstance(each, ast.Attribute) and is_self(each.value)
            }
    return found


def put_from_outside(where: str, tree: ast.Module) -> Iterator[str]:
    known = own_fields(tree).union(*LIBRARIES.values())
    for node in ast.walk(tree):
        for each in written_in(node):
            if not isinstance(each, ast.Attribute) or is_self(each.value):
                continue
            if each.attr not in known:
                yield f"{where}: {ast.unparse(each)}"


def filled_later(where: str, tree: ast.Module) -> Iterator[str]:
    """Lists that a function makes empty, fills itself, and has read by a function inside it."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        inside = [
            part
            for node in ast.walk(function)
            if node is not function and isinstance(node, Function | ast.Lambda)
            for part in ast.walk(node)
        ]
        inner = {id(each) for each in inside}
        outer = [node for node in ast.walk(function) if id(node) not in inner]
        empty = {
            each.id
            for node in outer
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_empty(node.value)
            for each in written_in(node)
            if isinstance(each, ast.Name)
        }
        filled = {
            node.func.value.id
            for node in outer
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and isinstance(node.func.value, ast.Name)
        }
        read = {each.id for each in inside if isinstance(each, ast.Name)}
        yield from (f"{where}: {function.name}: {name}" for name in empty & filled & read)


def is_empty(node: ast.expr | None) -> bool:
    return isinstance(node, ast.List) and not node.elts


def put_by_constructors(where: str, tree: ast.Module) -> Iterator[str]:
    """`other.listeners.append(self.hear)`: whoever may be listened to has a method for it."""
    for made in ast.walk(tree):
        if isinstance(made, ast.FunctionDef) and made.name == "__init__":
            for node in ast.walk(made):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Attribute(value=owner), attr="append"),
                        args=[ast.Attribute(value=given)],
                    ) if not is_self(owner) and is_self(given):
                        yield f"{where}: {ast.unparse(node)}"


def handed_over_later(where: str, tree: ast.Module) -> Iterator[str]:
    """`self._x = parameter` in a method that others call after the object was made."""
    for kind in ast.walk(tree):
        if not isinstance(kind, ast.ClassDef):
            continue
        for method in kind.body:
            if isinstance(method, Function) and not method.name.startswith("_"):
                kept = set(kept_by(method))
                yield from (f"{where}: {kind.name}.{method.name}: {name}" for name in sorted(kept))


def kept_by(method: Function) -> Iterator[str]:
    """The parameters of a method that it keeps in its object, unless they are plain values."""
    given = {
        each.arg
        for each in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)
        if each.arg != "self" and not is_value(each.annotation)
    }
    for node in ast.walk(method):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in written_in(node):
            if isinstance(target, ast.Attribute) and is_self(target.value):
                yield from given & set(names_kept(node.value))


def names_kept(value: ast.expr) -> Iterator[str]:
    """The names whose objects an expression hands on: itself, one of several, or bound in a function."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (name for each in parts for name in names_kept(each))
        case ast.IfExp(body=body, orelse=otherwise):
            yield from (*names_kept(body), *names_kept(otherwise))
        case ast.Attribute(value=owner):
            yield from names_kept(owner)
        case ast.Lambda(body=body):
            yield from (each.id for each in ast.walk(body) if isinstance(each, ast.Name))
        case ast.Call(func=ast.Name(id="partial"), args=parts):
            yield from (name for each in parts for name in names_kept(each))


def is_value(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    return {each.strip() for each in ast.unparse(annotation).split("|")} <= VALUES


def test_nobody_puts_anything_into_a_part_from_outside() -> None:
    found = {each for where, tree in modules() for each in put_from_outside(where, tree)}

    assert found == set().union(*RECORDS.values())


def test_what_a_part_is_handed_after_it_was_made_is_listed_with_its_reason() -> None:
    found = {each for where, tree in modules() for each in handed_over_later(where, tree)}

    assert found == STATE.union(*SETTERS.values(), *SERVED.values())


def test_no_list_is_filled_after_the_functions_that_read_it_were_handed_out() -> None:
    assert not [each for where, tree in modules() for each in filled_later(where, tree)]


def test_no_constructor_puts_itself_into_the_list_of_another_part() -> None:
    assert not [each for where, tree in modules() for each in put_by_constructors(where, tree)]


def test_what_these_tests_look_for_is_found() -> None:
    cell = ast.parse(
        "def build():\n    doors = []\n    use(lambda: doors[0])\n    doors.append(1)\n"
    )
    put = ast.parse("def build(guests):\n    guests.elsewhere = Elsewhere(guests)\n")
    later = ast.parse(
        "class A:\n"
        "    def use(self, b: B, c: C, n: int | None):\n"
        "        self._b, self._c, self._n = b or B(), partial(print, c), n\n"
        "    def _note(self, b: B):\n        self._b = b\n"
    )
    joined = ast.parse("class A:\n    def __init__(self, b):\n        b.all.append(self.hear)\n")

    assert list(filled_later("a.py", cell)) == ["a.py: build: doors"]
    assert list(put_from_outside("a.py", put)) == ["a.py: guests.elsewhere"]
    assert list(handed_over_later("a.py", later)) == ["a.py: A.use: b", "a.py: A.use: c"]
    assert list(put_by_constructors("a.py", joined)) == ["a.py: b.all.append(self.hear)"]
