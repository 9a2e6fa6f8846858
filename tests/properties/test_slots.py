"""Slots, whatever happens: any number of holders, calls and cancellations, nobody hangs, never too many
work at once, and in the end every slot is free."""

from typing import NamedTuple

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from crossclaw.runs.slots import Slots
from tests.proof.size import examples

CALLS_AT_ONCE = 8  # as the toolbox does it: a ninth call begins when one of the first has ended


class Call(NamedTuple):
    begins_s: int
    waits_s: int
    fails: bool
    stopped_after_s: int | None


class Life(NamedTuple):
    """A run: it works, its calls wait for others side by side, it works again."""

    begins_s: int
    works_s: int
    calls: list[Call]
    stopped_after_s: int | None

    @property
    def has_stopped_calls(self) -> bool:
        return any(call.stopped_after_s is not None for call in self.calls)


moments = st.integers(0, 6)
stops = st.one_of(st.none(), st.none(), moments)
calls = st.builds(Call, moments, moments, st.booleans(), stops)
lives = st.builds(Life, moments, moments, st.lists(calls, max_size=12), stops)


class Story:
    def __init__(self, total: int) -> None:
        self.slots = Slots(total)
        self.total = total
        self.at_work: set[int] = set()

    async def live(self, name: int, life: Life) -> None:
        await anyio.sleep(life.begins_s)
        with anyio.move_on_after(life.stopped_after_s):
            async with self.slots.hold(name):
                await self.work(name, life.works_s)
                places = anyio.Semaphore(CALLS_AT_ONCE)
                async with anyio.create_task_group() as tasks:
                    for call in life.calls:
                        tasks.start_soon(self.call, name, call, places)
                if not life.has_stopped_calls:  # a call that is stopped comes back without a slot
                    await self.work(name, life.works_s)

    async def call(self, name: int, call: Call, places: anyio.Semaphore) -> None:
        async with places:
            await anyio.sleep(call.begins_s)
            with anyio.move_on_after(call.stopped_after_s):
                try:
                    async with self.slots.given_back(name):
                        await anyio.sleep(call.waits_s)
                        if call.fails:
                            raise OSError
                except OSError:
                    pass

    async def work(self, name: int, seconds: int) -> None:
        self.at_work.add(name)
        assert len(self.at_work) <= self.slots.taken <= self.total
        try:
            await anyio.sleep(seconds)
        finally:
            self.at_work.discard(name)


async def tell(total: int, runs: list[Life]) -> Slots:
    story = Story(total)
    with anyio.fail_after(3600):
        async with anyio.create_task_group() as tasks:
            for name, life in enumerate(runs):
                tasks.start_soon(story.live, name, life)
    return story.slots


@settings(max_examples=examples(100, 300))
@given(st.integers(1, 4), st.lists(lives, max_size=6))
def test_nobody_hangs_never_too_many_work_and_every_slot_is_free_in_the_end(
    total: int, runs: list[Life]
) -> None:
    slots = anyio.run(
        tell,
        total,
        runs,
        backend="trio",
        backend_options={"clock": MockClock(autojump_threshold=0)},
    )

    assert slots.taken == 0
    assert all(slots.take_free(n) for n in range(total))
    assert not slots.take_free(total)
