"""The changes that `make mutants` makes are changes, and take the place of the real code."""

import ast

from crossclaw.policy import send
from tests.mutants.making import SRC, Mutant, all_mutants, functions, mutated, sample
from tests.mutants.trying import exchange


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


def _of(file: str) -> list[Mutant]:
    return [each for each in all_mutants() if file.endswith(each.file)]
