"""Patience: whoever goes on, however slowly, is not stuck."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio

LOOK_S = 0.25


async def see_through(
    work: Callable[[], Coroutine[Any, Any, None]], progress: Callable[[], object], still_s: float
) -> bool:
    """Whether the work came to its end. It is left when nothing has gone on for so long: a busy machine makes
    everything slow, and only a fault makes it stand still."""
    done = False

    async def do() -> None:
        nonlocal done
        await work()
        done = True
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)
        last, since = progress(), anyio.current_time()
        while anyio.current_time() - since < still_s:
            await anyio.sleep(LOOK_S)
            if (now := progress()) != last:
                last, since = now, anyio.current_time()
        tasks.cancel_scope.cancel()
    return done
