"""The changes that `make mutants` makes are changes, and take the place of the real code."""

import ast
import functools
import os
import re
import signal
from collections.abc import Callable

import pytest

from crossclaw.policy import send
from tests.mutants import making, trying
from tests.mutants.making import SRC, Mutant, functions, mutated, sample
from tests.mutants.trying import exchange

all_mutants = functools.cache(making.all_mutants)


def test_every_mutant_differs_from_its_function_and_can_be_compiled() -> None:
    for mutant in sample(all_mutants(), 40, seed=1):
        before = dict(functions(ast.parse((SRC / mutant.file).read_text("utf-8"))))
        after = mutated(mutant)
        assert ast.unparse(dict(functions(after))[mutant.function]) != ast.unparse(
            before[mutant.function]
        ), mutant
        compile(after, mutant.file, "exec")


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    every = all_mutants()

    assert sample(every, 20, seed=1) == sample(every, 20, seed=1)
    assert sample(every, 20, seed=1) != sample(every, 20, seed=2)


def test_a_sample_hardly_changes_with_the_program_and_its_mutants_have_names_of_their_own() -> None:
    every = all_mutants()
    chosen = sample(every, 400, seed=13)
    left = [each for each in every if each.function != chosen[0].function]

    assert len({each.name for each in every}) == len(every)
    assert {each for each in chosen if each in left} <= set(sample(left, 400, seed=13))


def test_what_waits_for_ever_is_stopped_and_what_works_is_not_hurried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trying, "IDLE_S", 0.2)
    fates = {}
    works: dict[str, Callable[[], None]] = {
        "waits": signal.pause,
        "loops": _for_ever,
        "ends": lambda: None,
    }
    for name, work in works.items():
        if not (pid := os.fork()):
            os.setpgid(0, 0)
            work()
            os._exit(0)
        fates[name] = trying._wait(pid, 0.3 if name == "loops" else 30.0)

    assert fates == {"waits": "timeout", "loops": "timeout", "ends": "survived"}


@pytest.mark.parametrize(("fails", "fate"), [(1, "survived"), (2, "killed")])
def test_a_test_must_fail_twice_before_it_has_noticed_a_mutant(
    monkeypatch: pytest.MonkeyPatch, fails: int, fate: str
) -> None:
    tried = list[list[str]]()

    def once(mutant: Mutant, tests: dict[str, float]) -> tuple[trying.Fate, str, float]:
        tried.append(list(tests))
        return ("killed", "b", 0.1) if len(tried) <= fails else ("survived", "", 0.0)

    monkeypatch.setattr(trying, "_try", once)

    found, _ = trying.attempt(all_mutants()[0], {"a": 0.1, "b": 0.1})

    assert found == fate
    assert tried == [["a", "b"], ["b"], ["a"]][: 4 - fails]


def test_a_mutants_code_takes_the_place_of_the_functions() -> None:
    function = send.decide_send
    before = function.__code__
    (mutant, *_) = [each for each in _of(send.__file__) if each.function == "decide_send"]
    try:
        assert exchange(mutant)
        assert function.__code__.co_code != before.co_code or (
            function.__code__.co_consts != before.co_consts
        )
    finally:
        function.__code__ = before


def _for_ever() -> None:
    while True:
        pass


def _of(file: str) -> list[Mutant]:
    return [each for each in all_mutants() if file.endswith(each.file)]


def test_every_mutant_that_may_live_can_still_be_made() -> None:
    """A row of docs/mutants.md whose line has gone, or has another name, excuses nothing."""
    page = (SRC.parent / "docs" / "mutants.md").read_text("utf-8").partition("## Those that may")[2]
    rows = re.findall(r"^\| `(crossclaw/.*?)` \|", page, re.M)

    assert len(rows) > 20
    assert set(rows) <= {mutant.name for mutant in all_mutants()}
