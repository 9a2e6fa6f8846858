"""Guests: agents outside of the gateway that have a session of their own and answer its runs.

A run of such a session asks no model. It waits until its guest has answered, until its time is over, or until
the guest has been silent for so long that it has left: then the sender gets an error.

What is handed over is the run itself, which is in the ledger: a guest that dies before it has answered, or a
gateway that does, finds the same message again. An answer and the end of its run are one step; it is
acknowledged after that. A guest may call any of several gateways: a message that another one holds is fetched
from there, and answered there.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import anyio
import anyio.abc

from crossclaw.domain.clock import Clock
from crossclaw.domain.durations import wait_s
from crossclaw.domain.errors import Busy, Invalid, NotFound
from crossclaw.domain.events import FeedEvent, RunStarted
from crossclaw.domain.exchanges import ANNOUNCE_SKIP
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Text,
    well_formed_text,
)
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.door.registry import Caller, Params, Result
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import EnsureSession
from crossclaw.runs.handling import Ending, PartialReply
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots
from crossclaw.sessions.guest_clients import GuestClients
from crossclaw.sessions.guest_run import GuestPresence, GuestRun
from crossclaw.sessions.guest_run import GuestWaitResult as GuestWaitResult
from crossclaw.sessions.newest import message_of

T = TypeVar("T")

WAIT_DEFAULT_S = 50.0  # below the minute after which common MCP clients give a tool call up
WAIT_MAX_S = 3600.0  # a guest that waits longer asks again; nothing is lost in between
SETTLE_S = 30.0  # for an answer to become durable; a ledger that needs longer is in trouble
BEGINNING_S, BEGINNING_MAX_S = 0.05, 5.0  # between two looks at a run that another gateway begins


class GuestWaitParams(Params, frozen=True):
    timeout_seconds: float | None = None


class ReplyParams(Params, frozen=True):
    run_id: str
    reply: str


class ReplyResult(Result, frozen=True):
    run_id: str
    status: str


class GuestsElsewhere(Protocol):
    """Access to the guests' messages that other gateways on the same ledger hold."""

    def tell_of_coming(self) -> None:
        """A guest is here that was not."""
        ...

    async def look(self, key: SessionKey) -> GuestWaitResult | None: ...

    async def reply(self, key: SessionKey, run_id: str, text: str) -> ReplyResult | None:
        """Answers a message on the gateway that holds it; None: no gateway does."""
        ...


class Guests:
    """`elsewhere`: None where this gateway has its ledger for itself."""

    def __init__(
        self,
        ledger: Ledger,
        run_store: RunStore,
        slots: Slots,
        clock: Clock,
        ids: Ids,
        elsewhere: GuestsElsewhere | None,
    ) -> None:
        self._ledger = ledger
        self._run_store = run_store
        self._slots = slots
        self._clock = clock
        self._ids = ids
        self._in_hand: dict[SessionKey, GuestRun] = {}
        """The runs that wait, at most one a session: its lane has one run under way."""
        self._waiting: dict[SessionKey, _GuestWait] = {}
        self._presence = GuestPresence(clock, self._came)
        self.clients = GuestClients()
        self._elsewhere = elsewhere

    async def join(self, key: SessionKey, name: str) -> None:
        """Makes the guest's session when it comes for the first time. Its name is the label: others may send
        to that."""
        if await self._ledger.find_session(key) is not None:
            return
        new = NewSession(
            key=key,
            session_id=self._ids.new(),
            channel="internal",
            display_name=name,
            label=name,
        )
        await self._ledger.do(EnsureSession(new=new, at=self._clock.now_ms()))

    def is_here(self, key: SessionKey) -> bool:
        """Whether somebody is likely to answer in a guest's session."""
        guest_run = self._in_hand.get(key)
        in_hand = guest_run is not None and guest_run.handed_over
        return self._presence.is_here(key, has_message=in_hand)

    def _came(self) -> None:
        if self._elsewhere is not None:
            self._elsewhere.tell_of_coming()

    def list_here(self) -> list[SessionKey]:
        return [key for key in self._presence.known() if self.is_here(key)]

    # ── the run's side ─────────────────────────────────────────────────────────────────────────

    async def execute(self, run: Run, progress: PartialReply) -> Ending:
        """Carries out a guest's run in place of the agent loop: waits for its answer. The run's slot is free
        meanwhile."""
        if run.kind == "announce":
            return self._said(ANNOUNCE_SKIP)  # a guest has no chat in this gateway to tell anything
        progress.last_words = self._last_words
        if (message := await message_of(self._ledger, run)) is None:
            raise NotFound(f"the message of run {run.run_id} is not in its transcript")
        guest_run = GuestRun(run, message)
        self._in_hand[run.key] = guest_run
        try:
            if (waiting := self._waiting.get(run.key)) is not None:
                waiting.wake.set()
            async with self._slots.given_back(run.key):
                return self._said(await guest_run.answer(self._presence))
        finally:
            del self._in_hand[run.key]

    def _said(self, reply: str) -> Ending:
        message = AssistantMessage([Text(reply)], self._clock.now_ms(), stop_reason="end_turn")
        entry = NewEntry(entry_id=self._ids.short(), message=message)
        return Ending(Outcome("ok", reply=reply), [entry])

    def _last_words(self, status: EndStatus, error: str) -> list[NewEntry]:
        message = AssistantMessage(
            [],
            self._clock.now_ms(),
            stop_reason="error" if status == "error" else "aborted",
            error=error,
        )
        return [NewEntry(entry_id=self._ids.short(), message=message)]

    # ── the guest's side ───────────────────────────────────────────────────────────────────────

    async def wait(self, caller: Caller, params: GuestWaitParams) -> GuestWaitResult:
        """The message that the guest has to answer next; the same one until it has."""
        key = _own_key(caller)
        with self._presence.heard_of(key):
            return await self._wait(
                key, wait_s(params.timeout_seconds, WAIT_DEFAULT_S, WAIT_MAX_S, "only look")
            )

    async def _wait(self, key: SessionKey, timeout_s: float) -> GuestWaitResult:
        if (found := await self._look_elsewhere(key)) is not None:
            return found
        mine = _GuestWait()
        if (other := self._waiting.get(key)) is not None:
            other.replace()
        self._waiting[key] = mine
        try:
            with anyio.move_on_after(timeout_s):
                while self._open(key) is None and not mine.replaced:
                    await mine.wake.wait()
                    mine.wake = anyio.Event()
                    if (found := await self._got_elsewhere(key)) is not None:
                        return found
        finally:
            if self._waiting.get(key) is mine:
                del self._waiting[key]
        if mine.replaced:
            return GuestWaitResult(
                status="replaced",
                hint="you wait once more elsewhere; only the newer call hears",
            )
        guest_run = self._open(key)
        return GuestWaitResult(status="nothing") if guest_run is None else guest_run.hand_over()

    async def _look_elsewhere(self, key: SessionKey) -> GuestWaitResult | None:
        if await self._run_elsewhere(key) is None or self._elsewhere is None:
            return None
        return await self._elsewhere.look(key)

    async def _got_elsewhere(self, key: SessionKey) -> GuestWaitResult | None:
        """The message of a run that another gateway has just begun: it may take a moment until that one holds it."""
        pause_s = BEGINNING_S
        while await self._run_elsewhere(key) is not None:
            if (found := await self._look_elsewhere(key)) is not None:
                return found
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, BEGINNING_MAX_S)
        return None

    async def _run_elsewhere(self, key: SessionKey) -> Run | None:
        """The one that another gateway has in hand for this guest."""
        if self._elsewhere is None or key in self._in_hand:
            return None
        first = next(iter(await self._ledger.list_open_runs(key)), None)
        return first if first is not None and first.status != "queued" else None

    def on_event(self, event: FeedEvent) -> None:
        """A run has begun here or on another gateway: whoever waits for it looks."""
        if isinstance(event, RunStarted):
            waiting = self._waiting.get(event.run.key)
            if waiting is not None and event.run.key not in self._in_hand:
                waiting.wake.set()

    def look(self, key: SessionKey) -> GuestWaitResult | None:
        """Hands the open message over to a guest that asked another gateway."""
        with self._presence.heard_of(key):
            guest_run = self._open(key)
            return None if guest_run is None else guest_run.hand_over()

    async def take_reply(self, key: SessionKey, run_id: str, text: str) -> ReplyResult | None:
        """Takes the answer of a guest that called another gateway. None: this gateway does not have the message."""
        guest_run = self._in_hand.get(key)
        if guest_run is None or guest_run.run.run_id != run_id:
            return None
        with self._presence.heard_of(key):
            guest_run.take(text)
            return await self._settled(run_id, text)

    def _open(self, key: SessionKey) -> "GuestRun | None":
        guest_run = self._in_hand.get(key)
        return None if guest_run is None or guest_run.answered else guest_run

    async def reply(self, caller: Caller, params: ReplyParams) -> ReplyResult:
        """Answers a message. On return the answer is stored and its run has ended; the same answer again
        changes nothing."""
        key, text = _own_key(caller), well_formed_text(params.reply.strip())
        if not text:
            raise Invalid("reply must not be empty")
        run = await self._run_store.find(params.run_id)
        if run is None or run.key != key:
            raise NotFound(f"there is no message {params.run_id} for you; sessions_wait tells")
        guest_run = self._in_hand.get(key)
        if guest_run is not None and guest_run.run.run_id == run.run_id:
            guest_run.take(text)
        elif not run.ended:
            if self._elsewhere and (settled := await self._elsewhere.reply(key, run.run_id, text)):
                return settled
            raise Busy("this message is not yet your turn; call sessions_wait and answer that one")
        return await self._settled(run.run_id, text)

    async def _settled(self, run_id: str, text: str) -> ReplyResult:
        ended = await self._run_store.wait(run_id, SETTLE_S)
        if ended is None or not ended.ended:
            raise Busy("the answer could not be stored yet; send it again")
        if (ended.status, ended.reply) != ("ok", text):
            raise Invalid(f"this message can no longer be answered: {_fate(ended)}")
        return ReplyResult(run_id=run_id, status="ok")

    async def speak(
        self,
        key: SessionKey,
        client_id: str | None,
        *,
        waits: bool,
        work: Callable[[], Awaitable[T]],
    ) -> T:
        """Lets the guest's own client, and no other, wait for its messages or answer one."""
        if waits:
            with self.clients.waiting(key, client_id):
                result = await work()
        else:
            self.clients.require(key, client_id)
            result = await work()
        guest_run = self._open(key)
        in_hand = guest_run is not None and guest_run.handed_over
        self.clients.heard(key, client_id, has_message=in_hand)
        return result

    async def act(
        self,
        key: SessionKey,
        work: Callable[[Run | None], Awaitable[T]],
        client_id: str | None = None,
    ) -> T:
        """Carries out work of a guest. While it has a message to answer, the work is part of that run: with
        its authority and its cause, and no longer than it lasts."""
        if self.clients.is_other(key, client_id):
            return await work(None)  # the message is not this client's
        guest_run = self._open(key)
        in_hand = guest_run is not None and guest_run.handed_over
        self.clients.heard(key, client_id, has_message=in_hand)
        with self._presence.heard_of(key):
            if guest_run is None:
                return await work(await self._run_elsewhere(key))
            if not in_hand:
                return await work(None)
            return await guest_run.during(work)


class _GuestWait:
    def __init__(self) -> None:
        self.wake = anyio.Event()
        self.replaced = False

    def replace(self) -> None:
        self.replaced = True
        self.wake.set()


def _own_key(caller: Caller) -> SessionKey:
    key = caller.principal.session
    if key is None or not key.is_guest:
        raise Invalid("only a guest waits for messages: connect over MCP with a name")
    return key


def _fate(run: Run) -> str:
    if run.status == "ok":
        return "it was answered before"
    return run.error or f"it ended as {run.status}"
