"""Sets up an environment from a lock file and shows how far it is: `python dev/install.py .venv requirements-run.lock`.

Only the standard library: this runs before anything is installed. Pip does the work; of its many lines
one is shown, which counts the packages.
"""

import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from crossclaw.display.languages import tr  # the standard library alone

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)
PIP_THAT_INSTALLS_ELSEWHERE = (22, 3)  # the first with --python; saves setting pip up a second time
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.M)
BEGUN = re.compile(r"^Collecting ([\w.-]+)")
# Python compiles what it uses when it first does; all of it, with every lexer of Pygments, is 28 MB and 3 s more.
QUIETLY = ("--progress-bar", "off", "--no-compile")
KEPT_LINES = 30  # of pip's output, shown when it fails


def main() -> int:
    folder, lock = Path(sys.argv[1]), Path(sys.argv[2])
    if sys.version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        text = tr("Crossclaw needs Python {oldest} or newer: make PYTHON=python3.12 run")
        print(text.format(oldest=oldest))
        return 1
    text = tr("Setting up in {folder}, once. Nothing is installed outside of it.")
    print(text.format(folder=folder), flush=True)
    python = folder / "bin" / "python"
    pip = _make(folder, python)
    total = len(set(PIN.findall(lock.read_text("utf-8"))))
    wanted = ["--require-hashes", "--no-deps", "-r", str(lock)]
    failed = _install(pip, wanted, total)
    if not failed:
        _put_on_path(python)
    return failed


def _make(folder: Path, python: Path) -> list[str]:
    """Makes the environment; returns how pip is called for it."""
    here = [sys.executable, "-m", "pip"]
    alone = _pip_version(here) < PIP_THAT_INSTALLS_ELSEWHERE
    if not python.exists():
        venv.create(folder, with_pip=alone, symlinks=True)
    own = [str(python), "-m", "pip"]
    if alone and not any(_pip_version(own)):  # somebody made it without, as uv does
        subprocess.run([str(python), "-m", "ensurepip"], capture_output=True, check=False)
    return own if alone else [*here, "--python", str(python)]


def _put_on_path(python: Path) -> None:
    """Puts this folder's own code and its commands on the path: two small files, for which pip would need a
    build and two seconds."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True)
    (Path(asked.stdout.strip()) / "crossclaw.pth").write_text(f"{ROOT / 'src'}\n", "utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, place in project["scripts"].items():
        module, _, function = place.partition(":")
        script = python.parent / name
        run = f"import sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        script.write_text(f"#!{python.absolute()}\n{run}", "utf-8")
        script.chmod(0o755)


def _pip_version(pip: list[str]) -> tuple[int, ...]:
    done = subprocess.run([*pip, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"pip (\d+)\.(\d+)", done.stdout)
    return tuple(map(int, found.groups())) if found else (0,)


def _install(pip: list[str], wanted: list[str], total: int) -> int:
    command = [*pip, "--disable-pip-version-check", "install", *QUIETLY, *wanted]
    work = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert work.stdout is not None
    last = _follow(work.stdout, total)
    if work.wait() != 0:
        print("\n" + tr("Setting up failed; pip's last words were:") + "\n" + "".join(last))
    return work.returncode


def _follow(lines: Iterator[str], total: int) -> list[str]:
    """Shows each package as it begins; keeps the last lines in case of a failure."""
    kept: list[str] = []
    count = 0
    for line in lines:
        kept = [*kept[1 - KEPT_LINES :], line]
        if total and (begun := BEGUN.match(line)):
            count += 1
            text = tr("{count} of at most {total}: {name}")
            _show("  " + text.format(count=count, total=total, name=begun[1]))
        elif total and line.startswith("Installing collected"):
            _show("  " + tr("downloaded; unpacking …"))
    if total:
        _show("")
    return kept


def _show(text: str) -> None:
    """Shows a line: on a terminal it overwrites the one before; in a log each has its own."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text}", end="", flush=True)
    elif text:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
