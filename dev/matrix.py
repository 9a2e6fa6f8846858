"""Runs the tests on every Python from 3.11 on that this machine has: `python dev/matrix.py [pytest's arguments]`.

Only the standard library. Each version gets an environment of its own from the development lock, in
`.venv/matrix/<version>`, which the next time finds ready. Interpreters are looked for on the path, in pyenv, and where uv
has put them. A version that is not here is named, not passed over in silence.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LOCK = ROOT / "requirements-dev.lock"

# What differs between versions: threads and the event loop, SQLite, compression, typing at run time, the terminal.
# Everything else is `make matrix ARGS=tests`.
SAMPLE = (
    "tests/unit",
    "tests/ledger",
    "tests/contracts",
    "tests/cli/test_help.py",
    "tests/cli/test_message_send.py",
    "tests/cli/test_onboard.py",
    "tests/flows/test_after_a_crash.py",
    "tests/flows/test_agents_talk.py",
    "tests/flows/test_leaving.py",
    "tests/flows/test_spawns.py",
    "tests/process/test_gateway_process.py",
)


def main() -> int:
    wanted = sys.argv[1:] or list(SAMPLE)
    outcomes: dict[str, str] = {}
    for version in VERSIONS:
        python = find(version)
        if python is None:
            outcomes[version] = "not on this machine"
            continue
        print(f"── Python {version}: {python}", flush=True)
        outcomes[version] = _run(version, python, wanted)
    print("\n".join(f"Python {version}: {outcome}" for version, outcome in outcomes.items()))
    failed = [each for each in outcomes.values() if each not in ("passed", "not on this machine")]
    return 1 if failed or "passed" not in outcomes.values() else 0


def find(version: str) -> str | None:
    """An interpreter of that version which starts; the newest of its patch releases."""
    return next((each for each in _candidates(version) if _is_version(each, version)), None)


def _candidates(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for folder in sorted(root.glob(f"{version}.*"), key=_patch, reverse=True):
        yield str(folder / "bin" / "python")
    if uv := shutil.which("uv"):
        asked = [uv, "python", "find", "--no-python-downloads", version]
        yield subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _patch(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.name)))


def _is_version(python: str, version: str) -> bool:
    if not python or not Path(python).exists():
        return False
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def _run(version: str, python: str, wanted: list[str]) -> str:
    folder = ROOT / ".venv" / "matrix" / version
    try:
        _prepare(folder, python)
    except subprocess.CalledProcessError as error:
        return f"could not be set up: {error}"
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", *wanted]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return "passed" if done.returncode == 0 else f"failed (pytest ended with {done.returncode})"


def _prepare(folder: Path, python: str) -> None:
    """Sets up the environment anew if the lock has changed."""
    mark = folder / "lock"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text("ascii") == digest:
        return
    if not (folder / "bin" / "python").exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--require-hashes", "--no-deps", "-r", str(LOCK)], check=True)
    own = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    subprocess.run([*pip, "install", *own], check=True)
    mark.write_text(digest, "ascii")


if __name__ == "__main__":
    sys.exit(main())
