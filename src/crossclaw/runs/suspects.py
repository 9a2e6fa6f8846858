"""Suspects: lanes whose first run may be what crashes the process. They begin group by group."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio

from crossclaw.domain.events import EntryAppended, FeedEvent, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, ToolResultMessage
from crossclaw.domain.suspects import WINDOW_MS_MAX


class Suspects:
    """Starts suspects in groups; no other lane waits for them. The next group begins when each in
    the one before has stored something or ended, or has survived for a window of time."""

    def __init__(self) -> None:
        self._groups: deque[list[SessionKey]] = deque()
        self._window_s = 0.0
        self._turns: dict[SessionKey, anyio.Event] = {}
        self._unknown: set[SessionKey] = set()
        """The lanes of the group that began last that have stored nothing yet."""
        self._heard_all = anyio.Event()
        self._more = anyio.Event()

    def put(self, groups: Sequence[Sequence[SessionKey]], window_s: float) -> None:
        """Adds groups, which begin after those that are already here."""
        if not groups:
            return
        self._groups.extend(list(group) for group in groups)
        self._window_s = max(window_s, self._window_s if self._turns else 0.0)
        self._turns |= {key: anyio.Event() for group in groups for key in group}
        self._more.set()

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, key: SessionKey) -> bool:
        """Whether the lane is a suspect that has not begun yet."""
        return key in self._turns

    async def wait_for_turn(self, key: SessionKey) -> None:
        if (turn := self._turns.get(key)) is not None:
            await turn.wait()

    async def serve(self) -> None:
        """Starts all groups, one after the other."""
        self._more = anyio.Event()
        while self._groups:
            group = self._groups.popleft()
            self._unknown, self._heard_all = set(group), anyio.Event()
            for key in group:
                self._begin(key)
            with anyio.move_on_after(self._window_s):
                await self._heard_all.wait()

    async def note_uptimes(self, note: Callable[[int], Awaitable[None]]) -> None:
        """Reports the uptime after one window, and then whenever it has doubled."""
        uptime_s = self._window_s
        await anyio.sleep(uptime_s)
        while uptime_s * 1000 < WINDOW_MS_MAX:
            await note(round(uptime_s * 1000))
            await anyio.sleep(uptime_s)
            uptime_s *= 2

    async def wait_for_more(self) -> None:
        """Waits until suspects are added, e.g. from a gateway that died."""
        await self._more.wait()

    def on_event(self, event: FeedEvent) -> None:
        """What a suspect itself does: it has begun before, and what it stores is a model's or a tool's. A command, or a message
        that is withdrawn, says nothing of the run that stands first in its lane."""
        if isinstance(event, RunEnded) and event.run.started_at is not None:
            self._begin(event.run.key)  # it was stopped before its turn: its lane is free
            self._settle(event.run.key)
        elif (
            isinstance(event, EntryAppended)
            and event.entry.run_id is not None
            and isinstance(event.entry.message, AssistantMessage | ToolResultMessage)
        ):
            self._settle(event.key)

    def _begin(self, key: SessionKey) -> None:
        if (turn := self._turns.pop(key, None)) is not None:
            turn.set()

    def _settle(self, key: SessionKey) -> None:
        self._unknown.discard(key)
        if not self._unknown:
            self._heard_all.set()
