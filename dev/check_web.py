"""Checks all JavaScript here, the page's and that of tests: `tsc` checks types, `eslint` habits. Called by `make check`.

The two programs come from npm, pinned with their hashes in dev/web/package-lock.json, into .venv/web. They are
fetched once and again when the lock changes.
"""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dev.npm import NpmFolder, say

ROOT = Path(__file__).parents[1]
HERE = ROOT / "dev" / "web"
INTO = Path(sys.prefix) / "web"
FOLDERS = ("bench", "deploy", "dev", "docs", "examples", "src", "tests")
PAGE, TESTS = "tsconfig.json", "tsconfig.tests.json"
PROGRAMS = NpmFolder(HERE, INTO)

NO_NPM = """\
The JavaScript here is checked by TypeScript and eslint, which are fetched from npm once, and npm failed:

{why}

Where there is a mirror of npm, say so: npm_config_registry=<address> make check
Without any: make check-python does all the other checks.
"""


def main(words: list[str]) -> int:
    if "--lock" in words:
        PROGRAMS.lock()
        return 0
    if not PROGRAMS.is_installed() and (why := PROGRAMS.install()) is not None:
        say(NO_NPM.format(why=why))
        return 1
    if "--install" in words:
        return 0
    types = [check_types(ROOT, project) for project in (PAGE, TESTS)]
    shutil.copy(HERE / "eslint.config.mjs", INTO / "eslint.config.mjs")  # finds its modules there
    habits = PROGRAMS.run(
        "eslint/bin/eslint.js",
        "--config",
        str(INTO / "eslint.config.mjs"),
        *(str(path) for path in scripts()),
    )
    return max(*types, habits)


def scripts() -> list[Path]:
    """Every file of JavaScript that is ours."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*js")]
    return sorted(
        path
        for path in found
        if path.suffix in (".js", ".mjs", ".cjs") and "node_modules" not in path.parts
    )


def check_types(tree: Path, project: str = PAGE, *words: str) -> int:
    """What tsc says of a checkout, this one or a copy."""
    return PROGRAMS.run(
        "typescript/bin/tsc", "--project", str(tree / "dev" / "web" / project), *words
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
