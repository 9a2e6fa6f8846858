"""make guards: takes one guard away at a time, in a copy, and runs the tests that must turn red then.

    python -m tests.guards [--only TEXT]

A mutant that its tests do not notice, a text that is not found once, and tests that are red without any mutant are
failures. The copy is a folder of its own; nothing here is changed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.guards.guard import Guard
from tests.guards.table import GUARDS

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "bench", "docs")
COPIED_FILES = ("pyproject.toml", "Makefile", "README.md", "SECURITY.md", "requirements.lock")
PATIENCE_S = 300  # for the tests of one guard
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M)
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
        red = _red(copy, sorted({test for guard in chosen for test in guard.tests}))
        survivors = [guard for guard in chosen if not _is_noticed(copy, guard, red)]
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


def _red(copy: Path, tests: Sequence[str]) -> set[str]:
    """Tests that fail without any mutant, twice: the second time alone, because a busy machine fails some."""
    for more in (("-n", "2"), ()):
        tests = _FAILED.findall(_pytest(copy, tests, *more).stdout) if tests else []
    return set(tests)


def _is_noticed(copy: Path, guard: Guard, red: set[str]) -> bool:
    began, verdict = time.monotonic(), "NOT FOUND"
    if any(test.startswith(named) for named in guard.tests for test in red):
        print(f"RED WITHOUT IT  {guard.item}  {guard.what}: {guard.tests}", flush=True)
        return False
    with _taken_away(copy, guard) as found:
        if found:
            ended = _pytest(copy, guard.tests, "-x").returncode
            verdict = "noticed" if ended == RED else f"SURVIVED ({ended})"
    took_s = time.monotonic() - began
    print(f"{verdict}  {guard.item}  {guard.path}: {guard.what}  ({took_s:.0f} s)", flush=True)
    return verdict == "noticed"


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
