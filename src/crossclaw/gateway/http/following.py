"""Following a run over HTTP: its words as they are said, until it has ended."""

import anyio

from crossclaw.domain.events import Event, ReplyPiece, RunEnded, ToolStarted
from crossclaw.runs.feed import Feed

FOLLOWED_MAX = 10_000  # runs; a stream whose client left before it began may leave one behind
LOOK_AGAIN_S = 5.0  # should a run have ended before it was followed, it is noticed then


class Following:
    """What was said since it was last looked at. Nothing queues: words join, whoever reads slowly
    gets longer pieces."""

    def __init__(self) -> None:
        self._unread = ""
        self._paused = False
        self._said = False
        self._changed = anyio.Event()
        self._ended = False

    def hear(self, event: Event) -> None:
        match event:
            case ReplyPiece(piece=piece):
                if self._paused and self._said:
                    self._unread += "\n\n"  # another turn, after its tools
                self._paused, self._said = False, True
                self._unread += piece
            case ToolStarted():
                self._paused = True
            case RunEnded():
                self._ended = True
            case _:
                return
        self._changed.set()

    @property
    def over(self) -> bool:
        """It has ended, and all that it said was read."""
        return self._ended and not self._unread

    async def next(self) -> str:
        """What was said next. Nothing: it ended, or for a while nobody spoke, and it is time to look
        whether it goes on."""
        with anyio.move_on_after(LOOK_AGAIN_S):
            await self._changed.wait()
        self._changed = anyio.Event()
        piece, self._unread = self._unread, ""
        return piece


class Followers:
    """One ear for the whole feed, so that a thousand streams cost an event no more than one does."""

    def __init__(self, feed: Feed) -> None:
        self._by_run: dict[str, list[Following]] = {}
        feed.subscribe(self._hear)

    def follow(self, run_id: str) -> Following:
        """From now on, until it has ended: call it before the run begins, and nothing is missed."""
        following = Following()
        self._by_run.setdefault(run_id, []).append(following)
        if len(self._by_run) > FOLLOWED_MAX:
            del self._by_run[next(iter(self._by_run))]
        return following

    def leave(self, run_id: str, following: Following) -> None:
        others = self._by_run.get(run_id, [])
        if following in others:
            others.remove(following)
        if not others:
            self._by_run.pop(run_id, None)

    def _hear(self, event: Event) -> None:
        if isinstance(event, RunEnded):
            for following in self._by_run.pop(event.run.run_id, ()):
                following.hear(event)
        elif isinstance(event, ReplyPiece | ToolStarted):
            for following in self._by_run.get(event.run_id, ()):
                following.hear(event)
