"""The crash rig's own judgement: slow is not stuck, and what is still queued is not lost."""

import anyio
import pytest

from tests.crash.patience import see_through


@pytest.mark.parametrize(("pause_s", "came"), [(20.0, True), (40.0, False)])
async def test_work_that_goes_on_slowly_is_seen_through_and_work_that_stands_still_is_left(
    pause_s: float, came: bool
) -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(5):
            await anyio.sleep(pause_s)
            done.append(number)

    assert await see_through(work, lambda: len(done), 30.0) is came
