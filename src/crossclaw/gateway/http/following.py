"""Following a run over HTTP: its text as it is written, until it has ended."""

import anyio

from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.events import FeedEvent, ReplyPiece, RunEnded, ToolStarted
from crossclaw.runs.feed import Feed

FOLLOWED_MAX = 10_000  # runs; a stream whose client left before it began may leave one behind
LOOK_AGAIN_S = 5.0  # should a run have ended before it was followed, it is noticed then


class SaidOtherwise(CrossclawError):
    """Text that was already sent no longer holds, and a stream cannot take it back."""

    retryable = True


class Following:
    """The text of one run that was not sent yet. Nothing queues: pieces join, so a slow reader gets longer
    ones. A turn that begins anew (another attempt, another model) replaces its own beginning: what was
    already sent of it is not sent again."""

    def __init__(self) -> None:
        self._earlier = ""  # of turns before this one, not read yet
        self._turn = ""
        self._sent = ""  # of this turn
        self._paused = False
        self._changed = anyio.Event()
        self._ended = False
        self._is_broken = False

    def on_event(self, event: FeedEvent) -> None:
        match event:
            case ReplyPiece():
                self._take_piece(event)
            case ToolStarted():
                self._paused = True
            case RunEnded():
                self._ended = True
                self._is_broken |= not self._turn.startswith(self._sent)
            case _:
                return
        self._changed.set()

    def _take_piece(self, said: ReplyPiece) -> None:
        begins = self._paused or (said.text == said.piece and not said.restarted)
        if begins and self._turn:
            self._is_broken |= not self._turn.startswith(self._sent)
            self._earlier += f"{self._turn[len(self._sent) :]}\n\n"
            self._sent = ""
        self._paused, self._turn = False, said.text
        # Shorter than what was sent: it may still grow into the same words.
        self._is_broken |= not said.text.startswith(self._sent[: len(said.text)])

    @property
    def over(self) -> bool:
        """Whether the run has ended and all its text was read."""
        return self._ended and not self._unread

    @property
    def _unread(self) -> str:
        return self._earlier + self._turn[len(self._sent) :]

    async def next(self) -> str:
        """Waits for the next piece of text. Empty: the run has ended, or nothing came for a while and it is
        time to look whether it still goes on."""
        with anyio.move_on_after(LOOK_AGAIN_S):
            await self._changed.wait()
        self._changed = anyio.Event()
        self.check()
        piece, self._earlier = self._unread, ""
        self._sent = max(self._sent, self._turn, key=len)
        return piece

    def check(self) -> None:
        """Raises if text that was sent no longer holds."""
        if self._is_broken:
            raise SaidOtherwise(
                "the model was asked again and says something else than what was sent; ask for the"
                " answer without a stream, or read it in the session"
            )


class Followers:
    """All streams share one subscription to the feed, so that a thousand of them cost an event no more than
    one does."""

    def __init__(self, feed: Feed) -> None:
        self._by_run: dict[str, list[Following]] = {}
        feed.subscribe(self.on_event, ReplyPiece, ToolStarted, RunEnded, outward=True)

    def follow(self, run_id: str) -> Following:
        """Follows a run until it has ended. Call it before the run begins, and nothing is missed."""
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

    def on_event(self, event: FeedEvent) -> None:
        if isinstance(event, RunEnded):
            for following in self._by_run.pop(event.run.run_id, ()):
                following.on_event(event)
        elif isinstance(event, ReplyPiece | ToolStarted):
            for following in self._by_run.get(event.run_id, ()):
                following.on_event(event)
