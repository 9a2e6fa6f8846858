"""Which tests cross which lines: measured once with coverage, so that a mutant meets only tests that can
notice it, the quickest first. A plugin of pytest; lines are counted from the function's first one, so the map
outlives changes elsewhere in a file."""

import ast
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.making import ROOMS, SRC, functions

FOLDER = Path(__file__).parents[2] / ".mutants"
TESTS = (
    "tests/unit", "tests/flows", "tests/ledger", "tests/properties", "tests/proof", "tests/channels",
)  # fmt: skip
"""The rooms' own tests; those of processes, sockets and browsers are for other rooms."""

Map = dict[str, list[str]]
"""By `file function +line`: tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop is enough: what a room decides is the same on both."""
    items[:] = [item for item in items if "[trio" not in item.nodeid]


class Mapping:
    def __init__(self) -> None:
        files = [f"{SRC}/crossclaw/{room}/*.py" for room in ROOMS]
        self._coverage = coverage.Coverage(data_file=None, include=files, config_file=False)
        self._seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        began = time.process_time()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")
            self._seconds[item.nodeid] = time.process_time() - began

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        found = {"seconds": self._seconds, "lines": _lines(self._coverage.get_data())}
        FOLDER.mkdir(exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        (FOLDER / f"map-{worker}.json").write_text(json.dumps(found), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("MUTANTS_MAP") and (
        hasattr(config, "workerinput") or not config.getoption("numprocesses", 0)
    ):
        config.pluginmanager.register(Mapping())


def _lines(data: coverage.CoverageData) -> Map:
    found: Map = defaultdict(list)
    for path in data.measured_files():
        file = Path(path).relative_to(SRC).as_posix()
        by_line = data.contexts_by_lineno(path)
        for name, function in functions(ast.parse(Path(path).read_text("utf-8"))):
            for line in range(function.lineno, (function.end_lineno or 0) + 1):
                tests = [each for each in by_line.get(line, ()) if each]
                if tests:
                    found[f"{file} {name} +{line - function.lineno}"] += tests
    return found


def read_map() -> tuple[dict[str, float], Map]:
    seconds: dict[str, float] = {}
    lines: Map = defaultdict(list)
    for path in FOLDER.glob("map-*.json"):
        found = json.loads(path.read_text("utf-8"))
        seconds |= found["seconds"]
        for key, tests in found["lines"].items():
            lines[key] += tests
    return seconds, lines
