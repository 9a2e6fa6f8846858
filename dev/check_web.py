"""Checks the page's JavaScript: `tsc` checks types, `eslint` habits. Called by `make check`.

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
PAGE = ROOT / "src" / "crossclaw" / "web"
PROGRAMS = NpmFolder(HERE, INTO)

NO_NPM = """\
The page's JavaScript is checked by TypeScript and eslint, which are fetched from npm once, and npm failed:

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
    types = check_types(ROOT)
    shutil.copy(HERE / "eslint.config.mjs", INTO / "eslint.config.mjs")  # finds its modules there
    habits = PROGRAMS.run(
        "eslint/bin/eslint.js", "--config", str(INTO / "eslint.config.mjs"), str(PAGE)
    )
    return types or habits


def check_types(tree: Path) -> int:
    """What tsc says of the page in a checkout, this one or a copy."""
    return PROGRAMS.run(
        "typescript/bin/tsc", "--project", str(tree / "dev" / "web" / "tsconfig.json")
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
