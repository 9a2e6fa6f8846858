"""A run that waits for its guest, and whether the guest is still there."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.abc

from crossclaw.domain.aliases import Callback
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.door.registry import Result

T = TypeVar("T")

AWAY_S = 120.0  # without a call: twice the time that a guest waits unless it asks for longer
AT_WORK_S = 300.0  # the same with a message in its hands: it may think, or use tools of its own


class GuestWaitResult(Result, frozen=True):
    """`message`: one to answer. `nothing`: the time is over. `replaced`: the same client waits
    anew."""

    status: str
    run_id: str | None = None
    kind: str | None = None
    sender: str | None = None
    message: str | None = None
    context: str | None = None
    hint: str | None = None


class _LastSign:
    """The last sign of a guest. One that has never called has all its time from now on."""

    def __init__(self) -> None:
        self.calls = 0
        self.last = anyio.current_time()
        self.came = False


class GuestPresence:
    """Which guests are present. A guest keeps no connection: it is present as long as it calls."""

    def __init__(self, clock: Clock, came: Callback) -> None:
        self._clock, self._came = clock, came
        self._heard: dict[SessionKey, _LastSign] = {}
        """The last signs of all guests that came, or were sent to, since the start."""

    @contextmanager
    def heard_of(self, key: SessionKey) -> Generator[None]:
        """Marks the guest as present while one of its calls is under way."""
        is_new = not self.is_here(key, has_message=False)
        heard = self._heard.setdefault(key, _LastSign())
        heard.calls += 1
        heard.came = True
        if is_new:
            self._came()
        try:
            yield
        finally:
            heard.calls -= 1
            heard.last = anyio.current_time()

    def known(self) -> list[SessionKey]:
        return list(self._heard)

    def is_here(self, key: SessionKey, *, has_message: bool) -> bool:
        """Whether the guest has called, and not too long ago."""
        heard = self._heard.get(key)
        if heard is None or not heard.came:
            return False
        patience_s = AT_WORK_S if has_message else AWAY_S
        return heard.calls > 0 or anyio.current_time() - heard.last < patience_s

    async def watch_over(self, guest_run: "GuestRun") -> None:
        """Ends a run whose guest is away. Every message gets the full time, which includes the time it waited
        behind others: so all senders learn at once that the guest has left, not one by one."""
        waited_s = max(0, self._clock.now_ms() - guest_run.run.created_at) / 1000
        since = anyio.current_time() - waited_s
        heard = self._heard.setdefault(guest_run.run.key, _LastSign())
        while True:
            patience_s = AT_WORK_S if guest_run.may_be_at_work else AWAY_S
            left_s = max(since, heard.last) + patience_s - anyio.current_time()
            if left_s <= 0 and not heard.calls:
                return guest_run.give_up(patience_s)
            await anyio.sleep(left_s if left_s > 0 else patience_s)


class GuestRun:
    """A run that waits for its guest."""

    def __init__(self, run: Run, message: UserMessage) -> None:
        self.run = run
        self._message = message
        self._reply: str | None = None
        self._silent_s: float | None = None
        self._answered = anyio.Event()
        self._work: anyio.abc.TaskGroup | None = None
        self.handed_over = False

    @property
    def may_be_at_work(self) -> bool:
        """Whether its message may already be with the guest: a run that was taken up again may have been
        handed over by a gateway that is gone."""
        return self.handed_over or self.run.epoch > 1

    @property
    def answered(self) -> bool:
        return self._answered.is_set()

    async def answer(self, presence: GuestPresence) -> str:
        """Waits for the guest's words, as long as the guest is there."""
        async with anyio.create_task_group() as self._work:
            self._work.start_soon(presence.watch_over, self, name=f"who answers {self.run.run_id}")
            await self._answered.wait()
            self._work.cancel_scope.cancel()  # what the guest still had under way
        if self._reply is None:
            assert self._silent_s is not None
            raise GuestAway(self.run.key, self._silent_s)
        return self._reply

    def take(self, reply: str) -> None:
        if not self.answered:  # the first answer counts
            self._reply = reply
            self._answered.set()

    def give_up(self, silent_s: float) -> None:
        if not self.answered:
            self._silent_s = silent_s
            self._answered.set()

    def hand_over(self) -> GuestWaitResult:
        self.handed_over = True
        origin = self._message.provenance
        sender = origin and (origin.source_session_key or origin.sender or origin.source_channel)
        return GuestWaitResult(
            status="message",
            run_id=self.run.run_id,
            kind=self.run.kind,
            sender=sender or None,
            message=words_of(self._message),
            context=self.run.plan.context,
            hint="answer with sessions_reply; until then sessions_wait gives you this message again. "
            f"Should it take longer than {AT_WORK_S / 60:g} minutes, call any tool in between: "
            "a guest that is not heard of has left",
        )

    async def during(self, work: Callable[[Run | None], Awaitable[T]]) -> T:
        """Carries out `work` as a part of this run: when the run ends, the work is cancelled."""
        if self._work is None or self.answered:
            raise CutShort
        over, results = anyio.Event(), list[T]()
        errors, scope = list[Exception](), anyio.CancelScope()

        async def carry_out() -> None:
            try:
                with scope:
                    results.append(await work(self.run))
            except Exception as error:  # noqa: BLE001  it is the caller's, and must not end the run
                errors.append(error)
            finally:
                over.set()

        self._work.start_soon(carry_out, name=f"a guest's call in {self.run.run_id}")
        try:
            await over.wait()
        finally:
            scope.cancel()
        if errors:
            raise errors[0]
        if not results:
            raise CutShort
        return results[0]


class GuestAway(CrossclawError):
    def __init__(self, key: SessionKey, silent_s: float) -> None:
        super().__init__(
            f"the guest {key.text.rpartition(':')[2]} is away: nothing was heard of it for "
            f"{silent_s:g} s. The message is in its transcript; send again when it is back"
        )


class CutShort(CrossclawError):
    def __init__(self) -> None:
        super().__init__("the message you were answering has ended, and this call with it")
