"""The recorded run: what a later one is compared with. Nothing in it identifies the machine."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from bench.work import Result

PATH = Path(__file__).parent / "last.json"
DIGITS = 4  # more would only be noise in the diff


class Kept(msgspec.Struct, frozen=True):
    value: float
    unit: str
    cpu_ms: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None


class Record(msgspec.Struct, frozen=True):
    python: str
    sqlite: str
    cores: int
    rows: dict[str, Kept] = {}


def read() -> Record:
    return msgspec.json.decode(PATH.read_bytes(), type=Record) if PATH.exists() else _here({})


def write(results: Sequence[Result], *, whole: bool) -> None:
    """Writes the results. A run of some rows leaves the others as they were."""
    rows = {} if whole else dict(read().rows)
    rows.update((result.row.name, _kept(result)) for result in results)
    text = msgspec.json.format(msgspec.json.encode(_here(rows)), indent=1)
    PATH.write_bytes(text + b"\n")


def _here(rows: dict[str, Kept]) -> Record:
    version = platform.python_version()
    return Record(version, apsw.sqlite_lib_version(), os.cpu_count() or 1, rows)


def _kept(result: Result) -> Kept:
    return Kept(
        float(f"{result.value:.{DIGITS}g}"),
        result.row.unit,
        _short(result.cpu_ms),
        _short(result.ratio),
        _short(result.cpu_ratio),
    )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
