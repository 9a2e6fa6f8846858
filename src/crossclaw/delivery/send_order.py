"""Send order: send the messages of one account one after the other, if its platform does not know our
delivery keys.

A process that dies then leaves one message that may have arrived, not sixty.
"""

from types import TracebackType

import anyio

TURN_S_MAX = 2.0  # a platform answers in a tenth of that; what takes longer goes on beside the next


class SendOrder:
    """The order of one account's messages, as they were asked for."""

    def __init__(self) -> None:
        self._next = anyio.Lock()
        self._last: SendSlot | None = None

    async def follow(self, turn: "SendSlot") -> None:
        """Wait until the turn before is over, or has lasted too long."""
        async with self._next:
            if self._last is not None:
                await self._last.wait_over()
            self._last = turn
            turn.note_begin()


class SendSlot:
    """`async with` it; in between it may be ended, for a pause, and begun again."""

    def __init__(self, turns: SendOrder) -> None:
        self._turns = turns
        self._over = anyio.Event()
        self._began_s = 0.0

    async def __aenter__(self) -> "SendSlot":
        await self.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.end()

    async def begin(self) -> None:
        await self._turns.follow(self)

    def note_begin(self) -> None:
        self._over, self._began_s = anyio.Event(), anyio.current_time()

    def end(self) -> None:
        self._over.set()

    async def wait_over(self) -> None:
        with anyio.move_on_after(self._began_s + TURN_S_MAX - anyio.current_time()):
            await self._over.wait()
