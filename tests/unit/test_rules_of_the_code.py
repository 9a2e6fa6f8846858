"""Rules of the gateway that no linter knows."""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from dev import wire_types

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "crossclaw"
LEDGER = SRC / "ledger"
SQL = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|VALUES|SET|AND|OR|IN|ON|JOIN|ORDER BY|LIMIT|OFFSET|CREATE|ALTER|PRAGMA)\b"
)
PUT_TOGETHER = {
    "postgres/migrate.py": {"sql_of(migration)", "migration.number"},
    "postgres/movable.py": {"(*SIDE_TABLES, 'entries_words')", "table.name"},
    "postgres/store.py": {"how", "name", "owner"},
    "sqlite/approvals.py": {"where", "same", "','.join('?' * len(agent_ids))"},
    "sqlite/channels.py": {"marks"},
    "sqlite/chores.py": {"columns", "only"},
    "sqlite/copying.py": {"name"},
    "sqlite/damage.py": {"sql", "number", "columns", "parts"},
    "sqlite/figures.py": {"column", "where", "name"},
    "sqlite/imports.py": {"names", "marks"},
    "sqlite/inspecting.py": {"table.order", "table.name", "columns or table.columns", "which"},
    "sqlite/jobs.py": {"ticks", "which", "wanted"},
    "sqlite/media_moving.py": {"_MARKED.format('body')", "_MARKED.format('message')"},
    "sqlite/movable.py": {"name"},
    "sqlite/outbox.py": {"pieces"},
    "sqlite/reading.py": {"clauses", "direction", "columns", "without", "visible", "text"},
    "sqlite/recovering.py": {"left", "of_it"},
    "sqlite/runs.py": {"where"},
    "sqlite/sessions.py": {"clauses", "assignments", "by_id", "text"},
    "sqlite/spawns.py": {"only"},
    "sqlite/waiting.py": {"of"},
    "sqlite/monitoring.py": {"where", "by"},
}
"""What f-strings of SQL hold beside constants, by file. Each was looked at: a fixed text chosen by the code, names of our own
tables and columns, marks for values that are bound, or a number that was counted. Nothing that anybody sent."""


def sql_of(file: Path) -> Iterator[ast.JoinedStr]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            fixed = [part.value for part in node.values if isinstance(part, ast.Constant)]
            if SQL.search(" ".join(map(str, fixed))):
                yield node


def is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id.isupper()


def test_sql_is_put_together_from_fixed_texts_only() -> None:
    """Values are always bound."""
    found, looked_at = defaultdict[str, set[str]](set), 0
    for file in (*LEDGER.glob("sqlite/**/*.py"), *LEDGER.glob("postgres/**/*.py")):
        for text in sql_of(file):
            looked_at += 1
            parts = [each.value for each in text.values if isinstance(each, ast.FormattedValue)]
            others = {ast.unparse(value) for value in parts if not is_constant(value)}
            if others:
                found[file.relative_to(LEDGER).as_posix()] |= others

    assert looked_at > 150
    assert found == PUT_TOGETHER


def test_one_module_opens_the_engines_of_the_ledger() -> None:
    engine = re.compile(r"crossclaw\.ledger\.(postgres\.\w+|sqlite\.(ledger|movable))\b")
    files = (file for file in SRC.rglob("*.py") if file.parent.name not in ("sqlite", "postgres"))

    users = {str(file.relative_to(SRC)) for file in files if engine.search(file.read_text("utf-8"))}

    assert users == {"ledger/opening.py"}


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    heavy = [
        "anthropic",
        "openai",
        "json5",
        "psycopg",
        "greenlet",
        "httpx2",
        "nio",
        "pydantic",
        "cryptography",
        "trio",
        "mcp",
        "markdown_it",
        "nh3",
        "rich",
        "genai_prices",
        "xllamacpp",
    ]
    code = f"import sys, crossclaw.app; print([m for m in {heavy} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_lock_files_have_hashes_and_name_no_registry() -> None:
    locks = (
        "requirements.lock",
        "requirements-run.lock",
        "requirements-extras.lock",
        "requirements-postgres.lock",
        "requirements-dev.lock",
        "requirements-local.lock",
    )
    for name in (*locks, "tests/browser/requirements.lock"):
        text = (ROOT / name).read_text("utf-8")
        pins = re.findall(r"^[a-z0-9][^\n]*==[^\n]*", text, re.M | re.I)
        assert pins
        assert all(pin.rstrip().endswith("\\") for pin in pins), name  # hashes follow
        assert "://" not in text


def test_words_of_the_vocabulary_that_we_do_not_use() -> None:
    """helpers, utils and managers are rooms without a subject."""
    names = [path.stem for path in SRC.rglob("*.py")]

    assert not [name for name in names if re.search(r"util|helper|manager|misc|common", name)]


NAMED_ASKED = {
    "domain/compactions.py asked": "stored so",
    "gateway/methods/trace.py asked": "so on the wire",
    "sessions/tracing.py asked": "so on the wire",
}
"""Fields that others know by this name."""


def names_given(tree: ast.AST) -> Iterator[str]:
    """Every name that a file gives: to functions, parameters, attributes and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def fields_given(tree: ast.AST) -> Iterator[str]:
    """The same without variables of functions: what is read elsewhere than where it is set."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ClassDef() | ast.Module():
                for each in node.body:
                    match each:
                        case ast.Assign(targets=[ast.Name(id=name)]):
                            yield name
                        case ast.AnnAssign(target=ast.Name(id=name)):
                            yield name


def test_nothing_is_called_told_hear_or_asked() -> None:
    """Whoever reads such a name has to look up what it holds: a callback, an event, header names, a request? A listener
    to events is `on_event`."""
    riddle = re.compile(r"(^|_)((un)?told|hear)(_|$)", re.I)
    found: set[str] = set()
    for file in SRC.rglob("*.py"):
        where, tree = file.relative_to(SRC).as_posix(), ast.parse(file.read_text("utf-8"))
        found |= {f"{where} {name}" for name in names_given(tree) if riddle.search(name)}
        found |= {f"{where} {name}" for name in fields_given(tree) if name.strip("_") == "asked"}

    assert found == NAMED_ASKED.keys()


def test_the_error_tree_at_the_top_is_the_tree_below() -> None:
    module = ast.parse((SRC / "domain" / "errors.py").read_text("utf-8"))
    drawn = re.findall(r"^[│├└─ ]*(\w+) {2,}([A-Z_]+) {2,}", ast.get_docstring(module) or "", re.M)
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef)]

    assert sorted(name for name, _ in drawn) == sorted(classes)
    scope: dict[str, object] = {}
    exec(compile(module, "errors", "exec"), scope)  # noqa: S102  our own file, read above
    for name, code in drawn:
        assert scope[name].code == code, name  # type: ignore[attr-defined]


def test_generated_pages_are_what_the_code_says() -> None:
    code = "import json, sys; sys.path.insert(0, 'docs'); import generate; print(json.dumps(generate.pages()))"
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    pages: dict[str, str] = json.loads(made.stdout)
    assert {"protocol.md", "config.md", "tools.md"} <= pages.keys()
    for name, text in pages.items():
        assert (ROOT / "docs" / name).read_text("utf-8") == text, f"{name}: run make docs"


def test_the_types_that_the_page_is_checked_by_are_those_of_the_registry() -> None:
    assert wire_types.FILE.read_text("utf-8") == wire_types.wire_types(), "run make docs"
