"""Whoever kills the process is found in a few crashes, and nobody else is ever given up."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from crossclaw.domain.suspects import (
    GROUPS_MAX,
    SUSPECT_AFTER,
    WINDOW_MS,
    WINDOW_MS_MAX,
    InterruptedRun,
    Suspicion,
    divide,
    suspects_after,
)


def noted_ms(window_ms: int, lived_ms: int) -> int:
    """What `Suspects.note_uptimes` has noted of a life."""
    noted, next_ms = 0, window_ms
    while next_ms <= lived_ms and next_ms < WINDOW_MS_MAX:
        noted, next_ms = next_ms, 2 * next_ms
    return noted


class World:
    """Runs that never store anything, one of which takes the process with it so long after it began.
    `newcomers` further ones begin in each life and are no suspects."""

    def __init__(self, runs: int, kills_after_ms: Callable[[], int], newcomers: int = 0) -> None:
        self.names = [f"r{n}" for n in range(runs)]
        self.attempts = dict.fromkeys(self.names, 0)
        self.kills_after_ms = kills_after_ms
        self.newcomers = newcomers
        self.now = 0
        self.suspicion: Suspicion | None = None
        self.crashes = 0

    def live(self, killer: str) -> None:
        """From a start to the crash, and what the next start concludes."""
        waiting = {name for group in self._groups() for name in group}
        begun = [name for name in self.names if name not in waiting]
        dies_at = None if killer in waiting else self.now + self.kills_after_ms()
        at = self.now
        for group in self._groups():
            if dies_at is not None and dies_at <= at:
                break
            begun += group
            if killer in group:
                dies_at = at + self.kills_after_ms()
            at += self.suspicion.window_ms if self.suspicion else 0
        assert dies_at is not None
        for name in begun:
            self.attempts[name] += 1
        lived_ms = dies_at - self.now
        self.now, self.crashes = dies_at, self.crashes + 1
        died = [InterruptedRun(name, self.attempts[name]) for name in begun]
        if self.suspicion is not None:
            uptime_ms = noted_ms(self.suspicion.window_ms, lived_ms)
            self.suspicion = replace(self.suspicion, uptime_ms=uptime_ms)
        self.suspicion = suspects_after(self.suspicion, died)
        for number in range(self.newcomers):
            name = f"new{self.crashes}-{number}"
            self.names.append(name)
            self.attempts[name] = 0

    def crashes_until_given_up(self, killer: str) -> int:
        """Beyond those that make anybody suspect."""
        while not (self.suspicion and self.suspicion.given_up):
            self.live(killer)
            assert self.crashes < 100, "it is never found"
        assert self.suspicion.given_up == (killer,)
        return self.crashes - SUSPECT_AFTER

    def _groups(self) -> tuple[tuple[str, ...], ...]:
        return self.suspicion.groups if self.suspicion else ()


sizes, places = st.integers(1, 300), st.integers(0, 299)


@pytest.mark.spec("B1")
@given(sizes, places, st.integers(1, 999), st.integers(0, 30))
@example(300, 299, 999, 0)
@example(300, 0, 1, 30)
def test_one_that_kills_within_a_second_is_given_up_within_five_further_crashes(
    size: int, place: int, kills_after_ms: int, newcomers: int
) -> None:
    world = World(size, lambda: kills_after_ms, newcomers)

    assert world.crashes_until_given_up(f"r{place % size}") <= 5


@pytest.mark.spec("B1")
@given(sizes, places, st.integers(1_000, 120_000), st.integers(0, 30))
@example(300, 150, 100_000, 30)
def test_one_that_kills_later_is_given_up_within_ten_further_crashes(
    size: int, place: int, kills_after_ms: int, newcomers: int
) -> None:
    world = World(size, lambda: kills_after_ms, newcomers)

    assert world.crashes_until_given_up(f"r{place % size}") <= 10


@pytest.mark.spec("B1")
@given(sizes, places, st.integers(0, 2**32))
def test_one_that_kills_when_it_pleases_is_found_too_and_nobody_innocent(
    size: int, place: int, seed: int
) -> None:
    dice = Random(seed)
    world = World(size, lambda: dice.choice([10, 900, 3_000, 20_000]), newcomers=3)

    world.crashes_until_given_up(f"r{place % size}")


@pytest.mark.spec("B1")
def test_three_hundred_suspects_have_all_begun_within_fifteen_seconds() -> None:
    died = [InterruptedRun(f"r{n}", SUSPECT_AFTER) for n in range(300)]

    suspicion = suspects_after(None, died)

    assert suspicion is not None
    assert {run for group in suspicion.groups for run in group} == {f"r{n}" for n in range(300)}
    assert (len(suspicion.groups) - 1) * suspicion.window_ms < 15_000


def test_a_single_crash_makes_nobody_suspect() -> None:
    assert suspects_after(None, [InterruptedRun("r1", 1), InterruptedRun("r2", 0)]) is None


def test_a_clean_stop_ends_every_suspicion() -> None:
    before = Suspicion((("r1",), ("r2",)))

    assert suspects_after(before, []) is None


def test_who_stored_something_while_it_was_alone_is_not_given_up() -> None:
    before = Suspicion((("r1",), ("r2",)))

    after = suspects_after(before, [InterruptedRun("r1", 0)])

    assert after is not None
    assert not after.given_up
    assert after.groups == (("r1",),)


def test_with_company_it_takes_a_second_time_without_them() -> None:
    before = Suspicion((("r1",), ("r2",)))

    once = suspects_after(before, [InterruptedRun("r1", 3), InterruptedRun("new", 1)])
    assert once is not None
    assert (once.given_up, once.groups) == ((), (("r1",), ("new",)))

    assert suspects_after(once, [InterruptedRun("r1", 4)]) == Suspicion(given_up=("r1",))


def test_who_was_at_work_at_two_crashes_is_not_given_up() -> None:
    """One of them made it suspect for the company that it had, which is gone since."""
    first = suspects_after(None, [InterruptedRun("old", SUSPECT_AFTER), InterruptedRun("young", 1)])
    assert first is not None
    assert first.groups == (("old",), ("young",))

    second = suspects_after(first, [InterruptedRun("young", 2)])
    assert second is not None
    assert (second.given_up, second.groups) == ((), (("young",),))

    assert suspects_after(second, [InterruptedRun("young", 3)]) == Suspicion(given_up=("young",))


@given(st.integers(0, 400), st.integers(1, GROUPS_MAX))
def test_division_keeps_everybody_in_order(size: int, groups_max: int) -> None:
    runs = [f"r{n}" for n in range(size)]

    groups = divide(runs, groups_max)

    assert [run for group in groups for run in group] == runs
    assert len(groups) == min(size, groups_max)
    assert all(groups) or not runs
    assert max(map(len, groups), default=0) - min(map(len, groups), default=0) <= 1
    assert WINDOW_MS * (GROUPS_MAX - 1) < 15_000
