"""One opener: where an agent can write, the gateway opens files by `sandbox/files.py`, and never in the event loop.

A path that is looked at and then opened by its name can be swapped in between, and a pipe in a file's place
stops whoever opens it. So this test reads the source: whoever works with files is on the list below with
the reason why no agent chooses what is opened there, and no coroutine works with files by itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("V4")

SOURCE = Path(__file__).parents[2] / "src" / "crossclaw"

NO_AGENT_CHOOSES = {
    "gateway/methods/rehearsals.py": "one file of a fixed name in the state folder",
    "disk/": "makes and looks at what is the gateway's own",
    "config/": "the config, its includes and the token: refused at the start where agents can write",
    "ledger/": "the store",
    "transcripts/": "the sessions folder, by descriptors and without links",
    "app/": "the port file and the config's files",
    "channels/tokens.py": "the token's file, which the local config names",
    "channels/matrix/encryption.py": "the keys' file, in the account's own folder of the state folder",
    "channels/matrix/key_file.py": "likewise",
    "channels/signal/daemon.py": "the program and the socket that the local config names",
    "client/": "in the owner's own programs: the port file, and the token's file that they name",
    "cli/": "commands of the owner's, at a terminal",
    "gateway/http/page.py": "the page's own files, from the package",
    "display/languages.py": "the catalogues, from the package",
    "gateway/certificate.py": "the certificate and key that the config names, or that it made itself",
    "gateway/methods/clients.py": "the gateway's own log",
    "agent/transcribing.py": "a recording, in a folder of its own outside of workspaces; the program that reads it is the config's",
    "providers/local.py": "models that the owner has put there",
    "tools/mcp_servers.py": "looks for programs that the config names",
    "sandbox/masked.py": "where the config's paths lead, to cover them",
    "tools/mcp_process.py": "pipes of its own",
    "sandbox/resolving.py": "looks which program a command is, and reads it by the opener",
    "sessions/foreign_approvals.py": "a table of OpenClaw's, in a folder that the owner has named",
    "sessions/importing.py": "looks for names in a folder that the owner has named; opened by the opener",
    "sessions/foreign.py": "likewise",
    "sessions/importing_newer.py": "likewise; a database is opened without following links, and only read",
    "sandbox/files.py": "this is the opener",
    "sandbox/reach.py": "looks only where the config's paths lead, and opens nothing",
    "sandbox/places.py": "finds bubblewrap; compares the paths of folders",
    "sandbox/bubblewrap.py": "the system's own folders",
    "sandbox/host.py": "finds the shell",
    "sandbox/keeper.py": "/proc, in a process of its own; measures a folder by its handles, and opens no file",
    "sandbox/quota.py": "asks the kernel about a folder, by its handle",
}

OF_OS = frozenset(
    [
        "open",
        "stat",
        "lstat",
        "listdir",
        "scandir",
        "readlink",
        "mkdir",
        "makedirs",
        "rename",
        "replace",
        "unlink",
        "remove",
        "link",
        "symlink",
        "chmod",
        "chown",
        "truncate",
        "walk",
        "access",
        "statvfs",
        "mkfifo",
    ]
)
OF_OS_PATH = frozenset(
    ["exists", "lexists", "isfile", "isdir", "islink", "realpath", "getsize", "getmtime"]
)
OF_PATHS = frozenset(
    [
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "exists",
        "is_file",
        "is_dir",
        "is_symlink",
        "stat",
        "lstat",
        "iterdir",
        "glob",
        "rglob",
        "resolve",
        "unlink",
        "mkdir",
        "touch",
        "symlink_to",
        "hardlink_to",
        "chmod",
        "readlink",
    ]
)
OF_MODULES = frozenset({"shutil", "tempfile"})
NOT_FILES = frozenset({"resolve"})
"""Also the name of what the door's resolver does."""


def works_with_files(call: ast.Call) -> bool:
    match call.func:
        case ast.Name("open"):
            return True
        case ast.Attribute(ast.Name("os"), name):
            return name in OF_OS
        case ast.Attribute(ast.Attribute(ast.Name("os"), "path"), name):
            return name in OF_OS_PATH
        case ast.Attribute(ast.Name(module), _) if module in OF_MODULES:
            return True
        case ast.Attribute(ast.Name("path" | "file" | "folder"), "open"):
            return True
        case ast.Attribute(_, name):
            return name in OF_PATHS - NOT_FILES
    return False


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text("utf-8"))


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Those that are made when the node itself runs, not by functions that it only defines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from calls_in(child)


def test_nobody_else_opens_a_path_that_an_agent_can_influence() -> None:
    found = {
        file
        for file, tree in modules()
        if any(isinstance(node, ast.Call) and works_with_files(node) for node in ast.walk(tree))
        and not file.startswith(tuple(NO_AGENT_CHOOSES))
    }
    assert found == set(), (
        "open files of a workspace by sandbox/files.py; or say in NO_AGENT_CHOOSES why no agent "
        "chooses what is opened"
    )


# ── nothing of it in the event loop ────────────────────────────────────────────────────────────

AT_THE_START = {
    "app/opening.py:open_gateway": "the store is opened before anything is served",
    "app/opening.py:_opened_ledger": "likewise",
    "app/serving.py:serve": "the port file is removed when everything is over",
    "app/serving.py:_wait_for_room": "the disk is asked how full it is; nothing is served then",
    "app/serving.py:_until_changed": "the token is read before anything is served",
    "app/reloading.py:_changed": "a stat of the config's files, once a second",
    "app/reloading.py:next_config": "the config is read when its files have changed",
    "app/reloading.py:_quiet": "likewise, while a quiet moment is waited for",
    "sandbox/places.py:prepare": "a look at where the config's paths lead, before anything is served",
    "sandbox/places.py:of": "once an agent: whether its workspace holds the gateway's own folder",
    "sessions/importing.py:run": "the whole work of a command; nothing is served meanwhile",
    "sessions/importing.py:_bring": "likewise",
    "sessions/importing.py:_bring_approvals": "likewise",
    "sessions/importing.py:_bring_entries": "likewise",
    "sessions/importing.py:_bring_one": "likewise",
}
ROOMS = ("agent/", "app/", "delivery/", "door/", "gateway/", "runs/", "sandbox/", "schedule/", "sessions/", "tools/")  # fmt: skip


class Functions(ast.NodeVisitor):
    """The functions of one module, by their names; methods as `Class.method`."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._inside: list[str] = []
        self.visit(tree)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.found[".".join([*self._inside, node.name])] = node
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)


def imported(tree: ast.Module) -> dict[str, str]:
    """Functions of other rooms by the name they have here: `read_text` is `config/source.py:read_text`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossclaw."):
            file = "/".join((node.module or "").split(".")[1:]) + ".py"
            found |= {each.asname or each.name: f"{file}:{each.name}" for each in node.names}
    return found


class Source:
    def __init__(self) -> None:
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._imports: dict[str, dict[str, str]] = {}
        for file, tree in modules():
            self._imports[file] = imported(tree)
            for name, node in Functions(tree).found.items():
                self.functions[f"{file}:{name}"] = node
        self._calls = {name: list(calls_in(node)) for name, node in self.functions.items()}
        self.working = self._working()

    def called(self, name: str) -> Iterator[str]:
        file, _, own = name.partition(":")
        for call in self._calls[name]:
            match call.func:
                case ast.Name(called):
                    yield self._imports[file].get(called, f"{file}:{called}")
                case ast.Attribute(ast.Name("self"), called) if "." in own:
                    yield f"{file}:{own.split('.')[0]}.{called}"

    def _working(self) -> set[str]:
        """Functions that work with files, and those that call them."""
        plain = {name for name, node in self.functions.items() if isinstance(node, ast.FunctionDef)}
        found = {name for name in plain if any(map(works_with_files, self._calls[name]))}
        while more := {n for n in plain - found if any(each in found for each in self.called(n))}:
            found |= more
        return found

    def in_the_loop(self) -> Iterator[str]:
        for name, node in self.functions.items():
            if not isinstance(node, ast.AsyncFunctionDef) or not name.startswith(ROOMS):
                continue
            if any(map(works_with_files, self._calls[name])) or any(
                each in self.working for each in self.called(name)
            ):
                yield name


def test_no_coroutine_works_with_files_by_itself() -> None:
    source = Source()
    found = set(source.in_the_loop())
    short = {name.replace(name.split(":")[1], name.split(":")[1].split(".")[-1]) for name in found}

    assert short - set(AT_THE_START) == set(), (
        "hand it to a thread: anyio.to_thread, or disk.threads.Disk"
    )

    # A check that finds nothing anywhere would be green for ever.
    assert "sandbox/files.py:replace_file" in source.working
    assert "config/file.py:ConfigFile.save" in source.working
    assert "app/reloading.py:_changed" in found
    assert works_with_files(ast.parse("path.read_text()").body[0].value)  # type: ignore[attr-defined]
