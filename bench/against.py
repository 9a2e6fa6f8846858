"""make bench-against TREE=…: this tree beside another one that is set up, each work in turn, the best of several runs.

Machines are noisy and change from day to day, so a claim like "no row is dearer by more than 3 %" is only good if both
trees did the same work in the same minutes. Works that are in one tree only are left out and named.
"""

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.against_worker import Measured

T = TypeVar("T")

HERE = Path(__file__).parent.parent
WORKER = Path(__file__).with_name("against_worker.py")
OLD_NAMES = {"house: ": "in process: "}
"""How rows were called before they had their present name."""


class Tree:
    """A checkout with its environment, and a process in it that does the works that it is told."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.folder = folder
        self.names = self._read(list[str])

    def run(self, name: str) -> Measured:
        assert self._process.stdin is not None
        self._process.stdin.write(name.encode() + b"\n")
        self._process.stdin.flush()
        return self._read(Measured)

    def _read(self, kind: type[T]) -> T:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process in {self.folder} has ended")
        return msgspec.json.decode(line, type=kind)


@contextmanager
def open_tree(folder: Path, only: str) -> Iterator[Tree]:
    python = folder / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{folder} has no environment: run make setup there")
    process = subprocess.Popen(
        [python, WORKER, only, ""],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin:/usr/sbin",
            "PYTHONPATH": str(folder),
            "HOME": str(Path.home()),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Tree(folder, process)
    finally:
        process.communicate()


def present(name: str) -> str:
    for old, new in OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def compare(mine: Tree, other: Tree, times: int) -> None:
    theirs = {present(name): name for name in other.names}
    both = [name for name in mine.names if name in theirs]
    print(f"{'best of ' + str(times):48} {'before':>9} {'now':>9} {'now ÷ before':>13}")
    for name in both:
        pairs = [(other.run(theirs[name]), mine.run(name)) for _ in range(times)]
        before, now = (min(each.cost for each in side) for side in zip(*pairs, strict=True))
        unit = pairs[0][1].unit
        print(f"{name:48} {before:9.3f} {now:9.3f} {now / before:10.2f} ×  {unit}", flush=True)
    for name in sorted(set(mine.names) ^ set(theirs)):
        print(f"in one tree only: {name}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("tree", type=Path, help="the other checkout, set up by `make setup`")
    parser.add_argument("--only", default="", metavar="NAME", help="rows whose name contains this")
    parser.add_argument("--times", type=int, default=5, metavar="N")
    options = parser.parse_args()
    with (
        open_tree(HERE, options.only) as mine,
        open_tree(options.tree.resolve(), options.only) as other,
    ):
        compare(mine, other, options.times)


if __name__ == "__main__":
    main()
