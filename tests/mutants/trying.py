"""One mutant against its tests: a fork of a process that has everything imported exchanges the code of one
function and runs the tests that cross the changed line, until one fails."""

import contextlib
import functools
import importlib
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Iterator
from typing import Any, Literal

import hypothesis
import pytest

from tests.mutants.making import Mutant, mutated

Fate = Literal["killed", "survived", "timeout", "untested", "unfit"]

SECONDS_MORE = (
    30.0  # beyond ten times what its tests take: a machine that is busy is no endless loop
)
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


def attempt(mutant: Mutant, tests: list[str], seconds: float) -> tuple[Fate, float]:
    if not tests:
        return "untested", 0.0
    began = time.monotonic()
    pid = os.fork()
    if not pid:
        _child(mutant, tests)
    limit = seconds * 10 + SECONDS_MORE
    while time.monotonic() - began < limit:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            fate: Fate = "unfit" if code == _UNFIT else _CODES.get(code, "killed")
            return fate, time.monotonic() - began
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "timeout", time.monotonic() - began


def _child(mutant: Mutant, tests: list[str]) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    code: int = _UNFIT
    with _silence():
        if exchange(mutant):
            code = int(pytest.main(["-x", "--tb=no", "--timeout=60", *_ARGUMENTS, *tests]))
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
