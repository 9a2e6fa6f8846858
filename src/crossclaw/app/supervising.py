"""Supervising: what fails by itself is started again, and takes nobody else with it."""

import logging
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from crossclaw.channels.contract import ChannelAccount, ChannelHost
from crossclaw.domain.errors import CrossclawError

log = logging.getLogger(__name__)

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0  # a platform that is away is not helped by asking more often
SOUND_S = 60.0  # whoever has lived so long is well again: the next pause is short


async def serve_channel(
    account: ChannelAccount,
    host: ChannelHost,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a channel for ever. It counts as started when it is, or when it has failed once: a platform
    that is away keeps no gateway from starting."""
    first = True

    async def serve_once() -> None:
        nonlocal first
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(account.serve, host)
                if first:
                    task_status.started()
                first = False
        finally:
            if first:
                first = False
                task_status.started()

    await keep_serving(f"channel {host.channel}", serve_once)


async def keep_serving(name: str, serve: Callable[[], Awaitable[None]]) -> None:
    """Call `serve` again whenever it fails or returns, after a pause that grows."""
    pause_s = PAUSE_FIRST_S
    while True:
        began = anyio.current_time()
        try:
            await serve()
            log.warning("%s has stopped by itself; it is started again in %g s", name, pause_s)
        except Exception as error:
            why = first_of(error)
            log.error(
                "%s failed because of %s: %s; it is started again in %g s",
                name,
                type(why).__name__,
                why,
                pause_s,
                exc_info=None if isinstance(why, CrossclawError | OSError) else why,
            )
        if anyio.current_time() - began >= SOUND_S:
            pause_s = PAUSE_FIRST_S
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)


def first_of(error: Exception) -> Exception:
    """What went wrong first; task groups wrap it."""
    return first_of(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
