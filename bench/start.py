"""Starting: what importing costs, what an open gateway holds in memory, what lies on disk."""

import re
import subprocess
import sys
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from statistics import median

from bench import reference
from bench.stores import Stores
from bench.work import MB, Row, Spent, Stopwatch, Work

STARTS = 10


def importing(module: str, _stores: Stores) -> Spent:
    """The cost of an import: a process that imports it, less one that imports nothing, taken in turns."""
    loaded, bare, cpu_s = Stopwatch(), Stopwatch(), 0.0
    for _ in range(STARTS):
        with bare.piece():
            cpu_s -= reference.run_python("pass")[1]
        with loaded.piece():
            cpu_s += reference.run_python(f"import {module}")[1]
    net_ms = median(loaded.each_ms) - median(bare.each_ms)
    return Spent({"net": net_ms}, net_ms, cpu_s * 1_000 / STARTS)


def memory(stores: Stores) -> Spent:
    command = [sys.executable, "-m", "bench.resident", str(stores.fresh().home)]
    told = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=reference.ROOT
    ).stdout
    idle, loaded = map(float, told.split())
    return Spent({"idle": idle, "loaded": loaded})


def on_disk(_stores: Stores) -> Spent:
    """The size of what the lock file installs, and of the gateway itself; without pip and setuptools."""
    packages = [found for name in _locked_names() if (found := _find_distribution(name))]
    sources = sum(
        path.stat().st_size for path in (reference.ROOT / "src").rglob("*") if path.is_file()
    )
    size = sources + sum(map(_size, packages))
    return Spent({"packages": len(packages) + 1, "size": size / MB})


def _locked_names() -> list[str]:
    text = (reference.ROOT / "requirements.lock").read_text("utf-8")
    return re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)


def _find_distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:  # locked for another platform
        return None


def _size(package: Distribution) -> int:
    paths = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


WORKS = (
    Work(
        partial(importing, "crossclaw.app"),
        reference.START,
        (Row("start: import crossclaw.app", "net", "ms"),),
    ),
    Work(
        partial(importing, "crossclaw.config"),
        reference.START,
        (Row("start: import crossclaw.config", "net", "ms"),),
    ),
    Work(
        memory,
        reference.MEMORY,
        (
            Row("start: memory of an idle gateway", "idle", "MB", bar=70),
            Row("start: memory after 1,000 sessions' load", "loaded", "MB", bar=160),
        ),
    ),
    Work(
        on_disk,
        None,
        (
            Row("start: installed packages", "packages", "packages", bar=45),
            Row("start: installed size", "size", "MB", bar=100),
        ),
    ),
)
