"""make guards: takes one guard away at a time, in a copy, and runs the tests that must turn red then.

    python -m tests.guards [--only TEXT]

A mutant that its tests do not notice, a text that is not found once, and tests that are red without any mutant are
failures. The copy is a folder of its own; nothing here is changed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.guards.table import GUARDS, Guard

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "bench", "docs")
COPIED_FILES = ("pyproject.toml", "Makefile", "README.md", "SECURITY.md", "requirements.lock")
PATIENCE_S = 300  # for the tests of one guard
RED = 1  # what pytest ends with when tests failed; 2 and more are mistakes of another kind


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument(
        "--only", default="", help="guards whose item, file or reason contains this"
    )
    only = parser.parse_args().only
    chosen = [guard for guard in GUARDS if only in f"{guard.item} {guard.path} {guard.what}"]
    with tempfile.TemporaryDirectory(prefix="crossclaw-guards-") as folder:
        copy = _copied(Path(folder))
        if not _are_green(copy, sorted({test for guard in chosen for test in guard.tests})):
            return 1
        survivors = [guard for guard in chosen if not _is_noticed(copy, guard)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were noticed")
    return 1 if survivors else 0


def _copied(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in COPIED_FILES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    return folder


def _are_green(copy: Path, tests: Sequence[str]) -> bool:
    ended = _pytest(copy, tests, "-n", "2")
    if ended.returncode:
        print(ended.stdout[-3000:], "\nthe tests are red without any mutant", sep="")
    return ended.returncode == 0


def _is_noticed(copy: Path, guard: Guard) -> bool:
    began = time.monotonic()
    with _taken_away(copy, guard) as found:
        if not found:
            print(f"NOT FOUND  {guard.item}  {guard.path}: {guard.old!r}", flush=True)
            return False
        ended = _pytest(copy, guard.tests, "-x")
    noticed = ended.returncode == RED
    verdict = "noticed  " if noticed else f"SURVIVED ({ended.returncode})"
    print(f"{verdict}  {guard.item}  {guard.what}  ({time.monotonic() - began:.0f} s)", flush=True)
    return noticed


@contextmanager
def _taken_away(copy: Path, guard: Guard) -> Iterator[bool]:
    path = copy / "src" / "crossclaw" / guard.path
    whole = path.read_text("utf-8") if path.exists() else ""
    if whole.count(guard.old) != 1:
        yield False
        return
    path.write_text(whole.replace(guard.old, guard.new), "utf-8")
    try:
        yield True
    finally:
        path.write_text(whole, "utf-8")


def _pytest(copy: Path, tests: Sequence[str], *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, *tests]
    environ = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command, cwd=copy, env=environ, text=True, capture_output=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:  # whoever waits for ever has noticed something too
        return subprocess.CompletedProcess(command, RED, "", "")


if __name__ == "__main__":
    sys.exit(main())
