"""Habits that no linter holds: how long a function is, what a release does, lists that are complete."""

import ast
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dev import release

ROOT = Path(__file__).parents[2]
LINES_MAX = 80
PYTHON = [
    file
    for folder in ("src", "tests", "bench", "dev", "docs")
    for file in (ROOT / folder).rglob("*.py")
]


def test_no_function_is_over_eighty_lines() -> None:
    """Of JavaScript eslint holds the same number (dev/web/eslint.config.mjs)."""
    long = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in PYTHON
        if len((text := file.read_text("utf-8")).splitlines()) > LINES_MAX
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LINES_MAX
    ]

    assert long == []
    assert f"max: {LINES_MAX} " in (ROOT / "dev" / "web" / "eslint.config.mjs").read_text("utf-8")


def test_every_module_of_the_page_has_its_types_checked_in_an_editor_too() -> None:
    """`make check` checks all of them (dev/web/tsconfig.json); an editor only those that say so."""
    modules = sorted((ROOT / "src" / "crossclaw" / "web").glob("*.js"))
    templates = sorted((ROOT / "dev" / "templates").glob("*.js.txt"))

    assert len(modules) > 40
    assert templates
    files = [*modules, *templates]
    assert [f.name for f in files if not f.read_text("utf-8").startswith("// @ts-check\n")] == []


def test_the_lock_of_the_page_s_checks_has_hashes_and_names_no_registry() -> None:
    text = (ROOT / "dev" / "web" / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert all("integrity" in package for name, package in packages.items() if name)
    wanted = json.loads((ROOT / "dev" / "web" / "package.json").read_text("utf-8"))
    assert packages[""]["devDependencies"] == wanted["devDependencies"]
    assert not [pin for pin in wanted["devDependencies"].values() if not re.match(r"\d", pin)]


def test_a_lock_is_installed_as_it_is() -> None:
    """Without `--no-deps` pip looks for newer releases of what is asked for with extras, and refuses those for want of a hash."""
    places = [ROOT / "Makefile", ROOT / "Dockerfile", *(ROOT / "dev").glob("*.py")]
    calls = [
        line
        for place in places
        for line in place.read_text("utf-8").splitlines()
        if "--require-hashes" in line
    ]

    assert len(calls) > 6
    assert [line for line in calls if "--no-deps" not in line] == []


def _copied(folder: Path) -> Path:
    (folder / "src" / "crossclaw").mkdir(parents=True)
    for name in ("src/crossclaw/__init__.py", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_a_release_is_one_command(tmp_path: Path) -> None:
    root = _copied(tmp_path)
    before = (root / "CHANGELOG.md").read_text("utf-8")

    assert release.main(["97.0.1"], root) == 0

    changes = (root / "CHANGELOG.md").read_text("utf-8")
    today = datetime.now(UTC).date().isoformat()
    assert '__version__ = "97.0.1"' in (root / "src/crossclaw/__init__.py").read_text("utf-8")
    assert f"## Unreleased\n\n## 97.0.1 – {today}\n" in changes
    assert len(changes) == len(before) + len(f"\n## 97.0.1 – {today}\n")


@pytest.mark.parametrize(
    ("version", "why"),
    [("0.0.1", "is not newer than"), ("soon", "as three numbers"), ("", "as three numbers")],
)
def test_a_release_that_cannot_be_changes_nothing(
    version: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _copied(tmp_path)
    before = (root / "CHANGELOG.md").read_text("utf-8")

    assert release.main([version] if version else [], root) == 1

    assert why in capsys.readouterr().err
    assert (root / "CHANGELOG.md").read_text("utf-8") == before


def test_releases_are_dated_and_the_newest_is_the_package_s() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"^## (.+)$", text, re.M)
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) – \d{4}-\d{2}-\d{2}", head) for head in heads[1:]]

    assert heads[0] == "Unreleased"
    assert all(released)
    package = (ROOT / "src/crossclaw/__init__.py").read_text("utf-8")
    assert released[0] is not None
    assert f'__version__ = "{released[0][1]}"' in package


def test_the_index_of_decisions_has_each_by_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    shown = re.findall(
        r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (folder / "README.md").read_text("utf-8"), re.M
    )
    first = {page.name: page.read_text("utf-8").splitlines()[0] for page in folder.glob("0*.md")}

    assert [(f"# {number}. {title}", name) for number, title, name in shown] == [
        (first[name], name) for name in sorted(first)
    ]


def test_every_decision_opens_with_what_was_decided() -> None:
    """Or with the question, where that needs words of its own; a line above may name what came after it."""
    opening = re.compile(
        r"# .+\n\n(\*[^*\n]+\*\n\n)?(\*\*Decided\*\*: |\*\*Question\.\*\* (?s:.+?)\n\n\*\*Decided\.\*\* )"
    )
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))

    assert len(pages) > 25
    assert [page.name for page in pages if not opening.match(page.read_text("utf-8"))] == []


def test_every_target_of_make_stands_in_a_group_of_its_help() -> None:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    first_group = next(at for at, line in enumerate(lines) if line.startswith("##@ "))
    targets = [at for at, line in enumerate(lines) if re.match(r"[a-z-]+:.*## ", line)]
    named = {name for line in lines if line.startswith(".PHONY:") for name in line.split()[1:]}

    assert min(targets) > first_group
    assert {lines[at].partition(":")[0] for at in targets} == named
