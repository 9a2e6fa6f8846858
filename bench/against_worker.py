"""Does the works of the tree it is started in, one by one, as `bench/against.py` asks for them on its input.

Each is done in a new process: what one leaves in memory would make the next dearer. This file is run by another
tree's Python, so it imports nothing but what every tree has had.
"""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec


class Measured(msgspec.Struct):
    cost: float
    """The processor time of one piece of the work, in milliseconds; what a row says where none is measured."""
    unit: str


def main() -> None:
    only, folder = sys.argv[1:3]
    if folder:
        work_once(only, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="crossclaw-bench-") as made:
        tell([name for name, work in known(stores_in(Path(made))).items() if only in all_of(work)])
        kept: dict[str, Any] = {}
        for line in sys.stdin:
            command = [sys.executable, __file__, line.strip(), made]
            done = subprocess.run(
                command, input=pickle.dumps(kept), stdout=subprocess.PIPE, check=True
            )
            measured, kept = pickle.loads(done.stdout)  # noqa: S301  our own process has written it
            tell(Measured(*measured))


def work_once(name: str, folder: Path) -> None:
    """Does one work, and hands back which stores there are now."""
    stores = stores_in(folder)
    vars(stores).update(pickle.load(sys.stdin.buffer))  # noqa: S301
    work = known(stores)[name]
    spent, row = work.run(stores), work.rows[0]
    found = (spent.cpu_ms, "ms CPU")
    if spent.cpu_ms is None:
        found = (row.cost(spent.figures[row.figure]), row.unit)
    sys.stdout.buffer.write(pickle.dumps((found, vars(stores))))


def stores_in(folder: Path) -> Any:
    from bench.stores import Stores  # noqa: PLC0415  the benchmarks of the tree at hand

    return Stores(folder, quick=True)


def known(stores: Any) -> dict[str, Any]:
    from bench.__main__ import works  # noqa: PLC0415

    return {work.rows[0].name: work for work in works(stores)}


def all_of(work: Any) -> str:
    return "\n".join(row.name for row in work.rows)


def tell(what: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
