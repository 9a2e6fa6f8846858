"""One mutant against its tests: a fork of a process that has everything imported exchanges the code of one
function and runs the tests that cross the changed line, until one fails.

A busy machine notices nothing: a test that failed must fail a second time, alone, before it counts, and how long a mutant
may take is measured in processor time. Only what neither works nor ends is stopped by the clock."""

import contextlib
import functools
import importlib
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import hypothesis
import pytest

from tests.mutants.making import Mutant, mutated

Fate = Literal["killed", "survived", "timeout", "untested", "unfit"]

SECONDS_MORE = 30.0  # of processor time, beyond ten times what its tests took when they were mapped
IDLE_S = 120.0  # without a second of processor time: it waits for what never comes
TEST_S = 40  # of one test, by the clock
LOOP_S = 10.0  # of processor time in a test that failed, beyond ten times what it took: it need not fail twice
MEMORY_MAX = 4 * 1024**3  # of a mutant that never stops collecting
_CODES: dict[int, Fate] = {
    0: "survived",
    4: "unfit",
    5: "untested",
}  # pytest's; others: a test failed
_UNFIT = 77
_ARGUMENTS = ["-q", "--assert=plain", "-p", "no:xdist", "-p", "no:cacheprovider"]


class _Collected:
    def __init__(self) -> None:
        self.ids = frozenset[str]()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.ids = frozenset(item.nodeid for item in session.items)


def collect(paths: list[str]) -> frozenset[str]:
    """Imports all tests, and with them the program; forks have them then. Answers which there are."""
    collected = _Collected()
    with _silence():
        code = pytest.main(["--collect-only", *_ARGUMENTS, *paths], plugins=[collected])
    if code:
        raise SystemExit("the tests cannot be collected")
    return collected.ids


def attempt(mutant: Mutant, tests: dict[str, float]) -> tuple[Fate, float]:
    """Tests in their order, each with the processor time that it takes."""
    began, left = time.monotonic(), dict(tests)
    fate: Fate = "untested"
    while left:
        fate, failed, used_s = _try(mutant, left)
        if fate != "killed" or failed not in left or used_s > left[failed] * 10 + LOOP_S:
            break
        fate, _, _ = _try(mutant, {failed: left.pop(failed)})
        if fate != "survived":
            break
    return fate, time.monotonic() - began


def _try(mutant: Mutant, tests: dict[str, float]) -> tuple[Fate, str, float]:
    """Also which test failed, and the processor time it had used."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _child(mutant, tests, writer)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        fate = _wait(pid, sum(tests.values()) * 10 + SECONDS_MORE)
        failed, _, used = pipe.read().partition("\n") if fate == "killed" else ("", "", "")
    return fate, failed, float(used or 0)


def _wait(pid: int, limit_s: float) -> Fate:
    worked_s, worked_at = 0.0, time.monotonic()
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return "unfit" if code == _UNFIT else _CODES.get(code, "killed")
        now, used_s = time.monotonic(), _processor_s(pid)
        if used_s > worked_s + 1:
            worked_s, worked_at = used_s, now
        if used_s > limit_s or now - worked_at > IDLE_S:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "timeout"
        time.sleep(0.02)


def _processor_s(pid: int) -> float:
    """Of the process and of its children that have ended."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class _Failure:
    """Writes down the first test that fails."""

    def __init__(self, writer: int) -> None:
        self._writer, self._began = writer, 0.0

    def pytest_runtest_logstart(self) -> None:
        self._began = time.process_time()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._writer >= 0:
            used_s = time.process_time() - self._began
            os.write(self._writer, f"{report.nodeid}\n{used_s}".encode())
            self._writer = -1


def _child(mutant: Mutant, tests: Iterable[str], writer: int) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    code: int = _UNFIT
    with _silence():
        if exchange(mutant):
            arguments = ["-x", "--tb=no", f"--timeout={TEST_S}", *_ARGUMENTS, *tests]
            code = int(pytest.main(arguments, plugins=[_Failure(writer)]))
    os._exit(code)


def exchange(mutant: Mutant) -> bool:
    """Whether the mutated code could take the place of the function's own."""
    function = _function(mutant)
    new = _code(compile(mutated(mutant), f"<{mutant}>", "exec"), mutant.function)
    if function is None or new is None or function.__code__.co_freevars != new.co_freevars:
        return False
    function.__code__ = new
    return True


def _function(mutant: Mutant) -> types.FunctionType | None:
    found: Any = importlib.import_module(mutant.module)
    for name in mutant.function.split("."):
        found = vars(found).get(name)
        if found is None:
            return None
    while not isinstance(found, types.FunctionType) or hasattr(found, "__wrapped__"):
        match found:
            case property(fget=inner) | functools.cached_property(func=inner):
                found = inner
            case staticmethod(__func__=inner) | classmethod(__func__=inner):
                found = inner
            case _ if hasattr(found, "__wrapped__"):
                found = found.__wrapped__
            case _:
                return None
    return found


def _code(module: types.CodeType, name: str) -> types.CodeType | None:
    """By its qualified name; a nested function has `<locals>` in it."""
    todo = [module]
    while todo:
        code = todo.pop()
        if code.co_qualname == name:
            return code
        todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere:
        kept = os.dup(1), os.dup(2)
        sys.stdout.flush()
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
