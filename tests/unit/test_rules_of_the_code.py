"""Rules of the gateway that no linter knows."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "crossclaw"
LEDGER_FILES = sorted((SRC / "ledger" / "sqlite").glob("*.py"))


@pytest.mark.parametrize("file", LEDGER_FILES, ids=lambda file: file.name)
def test_sql_is_put_together_from_fixed_texts_only(file: Path) -> None:
    """Values are always bound. What an f-string may hold: a plain name, or a join of plain names."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in {"execute", "get", "executemany"}
        ):
            continue
        for part in ast.walk(node.args[0]) if node.args else ():
            if isinstance(part, ast.FormattedValue):
                assert isinstance(part.value, ast.Name) or "join(where)" in ast.unparse(
                    part.value
                ), f"{file.name}:{part.lineno} puts a value into SQL"


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
