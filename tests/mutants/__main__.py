"""`make mutants`: a seeded sample of mutants, each against the tests that cross it.

    make mutants              400 of them; at least nine in ten must be killed
    make mutants N=40         fewer
    make mutants ALL=1        the whole set
    make mutants MAP=keep     with the map of tests from last time
    make mutants AGAIN=1      those that were alive last time, with that map
    make mutants ARGS="--seconds 12"   against the quickest tests alone; then AGAIN=1 with all of them
    make mutants GO_ON=1      those of the sample that were not tried before, with that map; all count

It fails when fewer than nine in ten are killed. What survives and may stands in docs/mutants.md with its reason.
Kept in .mutants: the map, and the fate of every mutant that was tried.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

from tests.mutants.making import SRC, Function, Mutant, all_mutants, functions, sample
from tests.mutants.mapping import FOLDER, TESTS, Map, read_map
from tests.mutants.trying import Fate, attempt, collect

KILLED_MIN = 0.9
LIVING: tuple[Fate, ...] = ("survived", "untested")
SOME = 3  # tests of each line and of each file that come first
TESTS_MAX = 400  # of one mutant: beyond, the quickest of those that cross the line
SECONDS_MAX = 90.0  # of processor time that they took when they were mapped; or --seconds
Answer = tuple[Mutant, Fate, float, int]
"""What became of a mutant, in how many seconds, against how many tests."""
REASONS = Path(__file__).parents[2] / "docs" / "mutants.md"


def main() -> int:
    options = _options()
    if not options.keep_map or not list(FOLDER.glob("map-*.json")):
        _measure(options.jobs)
    every = all_mutants()
    every = [each for each in every if options.only in each.file]
    if options.again:
        last = _kept()
        every = [each for each in every if last.get(each.name) in LIVING]
    chosen = every if options.all or options.again else sample(every, options.count, options.seed)
    print(f"{len(chosen)} of {len(every)} mutants, seed {options.seed}", flush=True)
    before = _kept() if options.go_on else {}
    fates = {each: before[each.name] for each in chosen if each.name in before}
    fates |= _try_all([each for each in chosen if each not in fates], options)
    return _report(fates)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--again", action="store_true", help="those that were alive last time")
    parser.add_argument("--go-on", action="store_true", help="what was not tried yet")
    parser.add_argument("--only", default="", help="a piece of the file's path")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="of tests a mutant")
    parser.add_argument("--keep-map", action="store_true")
    return parser.parse_args()


def _kept() -> dict[str, Fate]:
    """By their names, from what is kept of former runs: the last fate counts."""
    kept = (FOLDER / "fates.jsonl").read_text("utf-8").splitlines()
    return {name: fate for name, _, fate, *_ in map(json.loads, kept)}


def _measure(jobs: int) -> None:
    print("which tests cross which lines? (some minutes)", flush=True)
    for old in FOLDER.glob("map-*.json"):
        old.unlink()
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-p", "tests.mutants.mapping"]
    environ = {**os.environ, "MUTANTS_MAP": "1"}
    done = subprocess.run([*command, *TESTS], env=environ, check=False)
    if done.returncode:
        raise SystemExit("the tests fail without any mutant")


def _try_all(chosen: list[Mutant], options: argparse.Namespace) -> dict[Mutant, Fate]:
    """Processes that each have everything imported take one mutant after the other."""
    context = get_context("fork")
    answers: Queue[Answer | None] = context.Queue()
    jobs: int = options.jobs
    began, fates, working = time.monotonic(), dict[Mutant, Fate](), jobs
    for start in range(jobs):
        context.Process(target=_work, args=(chosen[start::jobs], options.seconds, answers)).start()
    with (FOLDER / "fates.jsonl").open("a", encoding="utf-8") as kept:
        while working:
            answer = answers.get()
            if answer is None:
                working -= 1
                continue
            mutant, fate, seconds, tests = answer
            fates[mutant] = fate
            kept.write(
                json.dumps([mutant.name, mutant.line, fate, round(seconds, 1), tests]) + "\n"
            )
            kept.flush()
            if fate in LIVING:
                print(f"{fate} ({tests} tests, {seconds:.0f} s): {mutant}", flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    return fates


def _work(share: list[Mutant], seconds_max: float, answers: "Queue[Answer | None]") -> None:
    try:
        there = collect(list(TESTS))
        seconds, lines = read_map()
        for mutant in share:
            tests = _tests_of(mutant, seconds, lines, there, seconds_max)
            fate, took = attempt(mutant, tests)
            answers.put((mutant, fate, took, len(tests)))
    finally:
        answers.put(None)


def _tests_of(
    mutant: Mutant, seconds: dict[str, float], lines: Map, there: frozenset[str], seconds_max: float
) -> dict[str, float]:
    """Those that cross the changed line, or, where a statement has several, its first one; each with its seconds."""
    tree = ast.parse((SRC / mutant.file).read_text("utf-8"))
    function = dict(functions(tree))[mutant.function]
    statement = _statement(function, mutant.line)
    found: set[str] = set()
    for line in range(statement, mutant.line + 1):
        found |= set(lines.get(f"{mutant.file} {mutant.function} +{line - function.lineno}", ()))
    if not found:  # nobody crosses it, or the map is older than the line
        here = f"{mutant.file} {mutant.function} +"
        found = {test for key, tests in lines.items() if key.startswith(here) for test in tests}
    own = [lines.get(f"{mutant.file} {mutant.function} +{n}", []) for n in range(_length(function))]
    quickest, cost = dict[str, float](), 0.0
    for test in _in_turn(found & there, own, seconds)[:TESTS_MAX]:
        cost += seconds.get(test, 1.0)
        if cost > seconds_max and quickest:
            break
        quickest[test] = seconds.get(test, 1.0)
    return quickest


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _in_turn(tests: set[str], own: list[list[str]], seconds: dict[str, float]) -> list[str]:
    """The quickest first; before all others, of each line of the function and of each file of tests a few: what
    everybody crosses is noticed by few."""
    order = sorted(tests, key=lambda each: (seconds.get(each, 1.0), each))
    files = defaultdict[str, list[str]](list)
    for test in order:
        files[test.partition("::")[0]].append(test)
    crossing = [[test for test in order if test in line] for line in map(frozenset, own)]
    first = {test for some in (*crossing, *files.values()) for test in some[:SOME]}
    return sorted(order, key=lambda each: each not in first)


def _statement(function: ast.AST, line: int) -> int:
    """The first line of the innermost statement that has this one."""
    starts = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(starts)


def _report(fates: dict[Mutant, Fate]) -> int:
    counted = Counter(fates.values())
    fit = sum(counted.values()) - counted["unfit"]
    killed = counted["killed"] + counted["timeout"]
    rate = killed / fit if fit else 1.0
    known = REASONS.read_text("utf-8").partition("## Those that may")[2]
    left = [each for each, fate in sorted(fates.items()) if fate in LIVING]
    new = [each for each in left if each.name not in known]
    print(f"{killed} of {fit} killed ({rate:.1%}); {dict(counted)}; without a reason: {len(new)}")
    return int(rate < KILLED_MIN)


if __name__ == "__main__":
    sys.exit(main())
