"""Runs under way: those that this process executes now, and how to stop them."""

import logging
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from math import inf

import anyio

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import (
    Busy,
    CredentialEnded,
    CrossclawError,
    Fenced,
    Stopped,
    StoreError,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.policy.budget import time_is_over
from crossclaw.policy.credentials import ENDED, Credentials
from crossclaw.runs.handling import Ending, PartialReply, RunHandler

log = logging.getLogger(__name__)

INTERRUPTED = "interrupted by a newer message"
LIMIT_MS_MAX = 2**53  # of a run; no clock can be set for what a client may write into a number
STORE_TROUBLE = (StoreError, Busy)  # the ledger cannot write now; later it may


class UnderWay:
    """A run that this process executes, and how to stop it."""

    def __init__(self, run: Run, time_left_s: float = inf, budget_left_s: float = inf) -> None:
        self.run = run
        self.over = anyio.Event()
        self.ended_as: EndStatus | None = None
        self._stopped_as: Outcome | None = None
        self._ends = anyio.current_time() + time_left_s
        self._budget_ends = anyio.current_time() + budget_left_s
        self._pauses = 0
        self._scope = anyio.CancelScope(deadline=min(self._ends, self._budget_ends))

    def note_end(self, status: EndStatus) -> None:
        self.ended_as = status

    def stop(self, outcome: Outcome) -> None:
        self._stopped_as = outcome
        self._scope.cancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """A context in which a person is waited for and the run's own time does not pass, since
        nobody works. That of its budget does."""
        if not self._pauses:
            self._ends -= anyio.current_time()  # what is left of it
            self._scope.deadline = self._budget_ends
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._ends += anyio.current_time()
                self._scope.deadline = min(self._ends, self._budget_ends)

    async def to_its_end(self, handler: RunHandler) -> Ending:
        """Executes the run; whatever happens becomes an ending, except trouble with the store and
        the loss of the run."""
        words = PartialReply()
        if self._stopped_as is not None:
            return words.cut_off(self._stopped_as)
        with self._scope:
            try:
                return await handler.execute(self.run, words)
            except (Fenced, Stopped, *STORE_TROUBLE):
                raise
            except CredentialEnded as ended:
                return words.cut_off(Outcome("aborted", error=str(ended)))
            except CrossclawError as error:
                return words.cut_off(Outcome("error", error=str(error)))
            except Exception as error:
                log.exception("run %s failed", self.run.run_id)
                why = f"internal error: {type(error).__name__}"
                return words.cut_off(Outcome("error", error=why))
        return words.cut_off(self._stopped_as or self._over_time())

    def _over_time(self) -> Outcome:
        purse = self.run.cause.purse
        if purse is not None and self._budget_ends <= self._scope.deadline:
            return Outcome("error", error=time_is_over(purse))
        seconds = (self.run.plan.timeout_ms or 0) / 1000
        return Outcome("timeout", error=f"the run was stopped after {seconds:g} s")


class RunsUnderWay:
    def __init__(self, clock: Clock, credentials: Credentials) -> None:
        self._clock = clock
        self._credentials = credentials
        self._credentials.listen(self._stop_all_fallen)
        self._runs: dict[str, UnderWay] = {}
        self._interrupted: set[SessionKey] = set()
        """Lanes with a message that will not wait for the run under way."""

    @contextmanager
    def carrying(self, run: Run) -> Generator[UnderWay]:
        """A context in which others find the run here and can stop it."""
        under_way = UnderWay(run, *self._time_left_s(run))
        self._runs[run.run_id] = under_way
        try:
            yield under_way
        finally:
            del self._runs[run.run_id]
            under_way.over.set()

    def find(self, run_id: str) -> UnderWay | None:
        return self._runs.get(run_id)

    @property
    def runs(self) -> list[Run]:
        return [each.run for each in self._runs.values()]

    @contextmanager
    def paused(self, run_id: str) -> Generator[None]:
        """A context in which a run waits for a person, and its own time does not pass."""
        under_way = self._runs.get(run_id)
        with nullcontext() if under_way is None else under_way.paused():
            yield

    def interrupt(self, key: SessionKey) -> None:
        """Stops the chat runs of a session. It is a hint like any other: a run that begins or is
        resumed looks by itself."""
        self._interrupted.add(key)
        for under_way in self._runs.values():
            if under_way.run.key == key and under_way.run.kind == "chat":
                under_way.stop(Outcome("aborted", error=INTERRUPTED))

    def must_look_behind(self, run: Run) -> bool:
        """Whether a message may be behind this run that will not wait for it. The answer uses the
        hint up."""
        hinted = run.key in self._interrupted
        self._interrupted.discard(run.key)
        return hinted or run.epoch > 1

    def _stop_all_fallen(self) -> None:
        """Stops all runs whose credential is no longer valid, at once; their end follows."""
        for under_way in self._runs.values():
            self.stop_fallen(under_way)

    def stop_fallen(self, under_way: UnderWay) -> None:
        """Stops a run whose credential is no longer valid."""
        if not self._credentials.stands(under_way.run.authority.made_by):
            under_way.stop(Outcome("aborted", error=ENDED))

    def _time_left_s(self, run: Run) -> tuple[float, float]:
        """Seconds until the run's timeout and until its budget's deadline."""
        limit = run.plan.timeout_ms
        # All of it, from now on: before, or while it was stopped, nobody worked, and a clock may have been set.
        own_s = inf if limit is None else min(limit, LIMIT_MS_MAX) / 1000
        ends_at = run.cause.purse.ends_at_ms if run.cause.purse else None
        budget_s = inf if ends_at is None else max(0.0, (ends_at - self._clock.now_ms()) / 1000)
        return own_s, budget_s
