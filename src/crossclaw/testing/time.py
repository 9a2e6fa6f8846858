"""Virtual time: a five-minute timeout takes no time at all, on asyncio as on trio.

trio brings its own (`MockClock(autojump_threshold=0)`); `VirtualLoop` is the same for asyncio. Both
jump when every task waits, so nothing may be pending in a thread: open the gateway inline.
"""

import selectors
from asyncio import SelectorEventLoop  # noqa: TID251  the loop itself is what is replaced here
from collections.abc import Sequence

import anyio

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


class VirtualClock:
    """Wall time that follows the event loop's."""

    def __init__(self, begins_at_ms: int = NOON_MS) -> None:
        self._begins_at_ms = begins_at_ms

    def now_ms(self) -> int:
        return self._begins_at_ms + round(anyio.current_time() * 1000)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never sleeps: the time it would sleep is added to the clock."""

    jumped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.jumped_s += timeout
        elif not ready and timeout is None:
            ready = super().select(None)  # only something from outside can wake us
        return ready


class VirtualLoop(SelectorEventLoop):
    """An event loop in virtual time: `anyio.run(..., backend_options={"loop_factory": VirtualLoop})`."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.jumped_s


__all__: Sequence[str] = ["NOON_MS", "VirtualClock", "VirtualLoop"]
