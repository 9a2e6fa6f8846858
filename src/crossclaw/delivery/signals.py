"""Signals to chats while a run works for them: the typing indicator, the reaction that a message
was received, and the reply so far.

Only the preview of a reply is stored (see `previews`), and nothing waits for a signal: one that
fails is forgotten. It subscribes to events only while a chat account is open; also to those of
other gateways, since the account may be here. While the send policy keeps the reply from a chat,
the chat gets no signals either.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.channels.manifest import Rate
from crossclaw.config import Config
from crossclaw.config.session import TypingMode
from crossclaw.delivery.outbox import Outbox
from crossclaw.delivery.pieces import pieces_of
from crossclaw.delivery.sender import LAST_S, answers
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import CrossclawError, DeliveryError
from crossclaw.domain.events import (
    FeedEvent,
    ReplyPiece,
    RunEnded,
    RunStarted,
    SpeechAllowed,
    ThoughtPiece,
    ToolStarted,
)
from crossclaw.domain.exchanges import CONTROL_TOKENS, is_silent
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Delivery, TakenDelivery
from crossclaw.policy.signals import decide_ack, decide_typing

log = logging.getLogger(__name__)

HEARD = (RunStarted, ReplyPiece, ThoughtPiece, ToolStarted, RunEnded, SpeechAllowed)
TYPING_S_MAX = 120.0  # without a sign of life of the run; a platform would show it for ever
CALL_S_MAX = 10.0  # for one signal: what takes longer is of no use
FIRST_S = 1.0  # a reply that is there sooner needs no beginning
CHARS_MIN = 24  # before a reply is shown: fewer say nothing yet
CALLED_MAX = 1_000  # messages remembered until their run begins
ACKS_MAX = 1_000  # reactions remembered, to be taken back
USUAL = Rate(20, 1.0)  # signals of an account whose platform names no limit
USUAL_ACK = "👀"

Subscribe = Callable[..., Callback]


class RunningChat:
    """A run that works for a chat."""

    def __init__(self, run: Run, where: Address, live: LiveAccount, begin: TypingMode) -> None:
        self.run, self.where, self.live, self.begin = run, where, live, begin
        self.scopes: set[anyio.CancelScope] = set()
        self.over = False
        self.text = ""
        self.news = anyio.Event()
        self.alive_s = anyio.current_time()
        self.types = self.shows = False

    @property
    def delivery_key(self) -> str:
        return f"reply:{self.run.run_id}"

    def say(self, text: str) -> None:
        self.text = text
        self.news.set()

    def end(self) -> None:
        self.over = True
        for scope in self.scopes:
            scope.cancel()

    @contextmanager
    def while_it_lasts(self) -> Generator[None]:
        with anyio.CancelScope() as scope:
            self.scopes.add(scope)
            if self.over:
                scope.cancel()
            yield


class Acked(msgspec.Struct, frozen=True):
    live: LiveAccount
    where: Address
    message_id: str
    emoji: str


class ChatSignals:
    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        accounts: LiveAccounts,
        outbox: Outbox,
        subscribe: Subscribe,
    ) -> None:
        self._config, self._ledger, self._accounts = config, ledger, accounts
        self._outbox = outbox
        self._subscribe = subscribe
        self._end: Callback | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._chats: dict[str, RunningChat] = {}
        self._called: OrderedDict[str, None] = OrderedDict()
        self._acks: OrderedDict[str, Acked] = OrderedDict()
        accounts.listen(self._follow_accounts)

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None
                self._outbox.previews.hurry(LAST_S)

    def _follow_accounts(self) -> None:
        """Subscribes to events only while an account is open."""
        if self._accounts.are_open and self._end is None:
            self._end = self._subscribe(self.on_event, *HEARD, outward=True)
        elif not self._accounts.are_open and self._end is not None:
            self._end()
            self._end = None

    # ── what happens ───────────────────────────────────────────────────────────────────────────

    def on_event(self, event: FeedEvent) -> None:
        match event:
            case RunStarted(run=run):
                self._begin(run)
            case RunEnded(run=run):
                self._over(run)
            case SpeechAllowed(key=key, allowed=False):
                for silenced in [each for each in self._chats.values() if each.run.key == key]:
                    self._drop(silenced)
            case ReplyPiece() | ThoughtPiece() | ToolStarted():
                if (chat := self._chats.get(event.run_id)) is not None:
                    self._follow(chat, event)

    def accepted(
        self, live: LiveAccount, inbound: Inbound, run_id: str, agent_id: str, *, called: bool
    ) -> None:
        """Signals that a message was accepted. `called`: in a group, it had to mention the agent,
        and did."""
        if inbound.mentioned or called:
            if (chat := self._chats.get(run_id)) is not None and chat.begin == "message":
                chat.begin = self._typing_of(chat.run, called=True)
                self._type_if(chat, "instant")
            keep_newest(self._called, run_id, None, CALLED_MAX)
        if (emoji := self._ack_of(live, inbound, agent_id, called)) and live.traits.reactions:
            self._acknowledge(Acked(live, inbound.address, inbound.message_id, emoji), run_id)

    def _begin(self, run: Run) -> None:
        where = run.plan.reply_to
        if run.kind != "chat" or where is None or not run.plan.deliver or self._tasks is None:
            return
        if run.merged_into is not None or (live := self._accounts.find(where)) is None:
            return
        if run.ended:  # on another gateway, whose news came late
            return
        called = run.run_id in self._called
        self._called.pop(run.run_id, None)
        chat = RunningChat(run, where, live, self._typing_of(run, called=called))
        self._chats[run.run_id] = chat
        self._type_if(chat, "instant")

    def _follow(self, chat: RunningChat, event: ReplyPiece | ThoughtPiece | ToolStarted) -> None:
        chat.alive_s = anyio.current_time()
        if isinstance(event, ReplyPiece):
            if _is_for_people(event.text):
                self._type_if(chat, "thinking", "message")
                self._show(chat, event.text)
        else:
            self._type_if(chat, "thinking")

    def _over(self, run: Run) -> None:
        if (chat := self._chats.pop(run.run_id, None)) is not None:
            self._drop(chat)
            if run.status == "aborted" or is_silent(run.reply):
                self._outbox.previews.forget(chat.delivery_key)
        if (ack := self._acks.pop(run.run_id, None)) is not None and self._tasks is not None:
            self._start(ack.live, lambda: _unack(ack))

    def _drop(self, chat: RunningChat) -> None:
        self._chats.pop(chat.run.run_id, None)
        chat.end()

    # ── typing ─────────────────────────────────────────────────────────────────────────────────

    def _typing_of(self, run: Run, *, called: bool) -> TypingMode:
        agents = self._config.agents
        agent = agents.find(run.key.agent_id)
        wanted = self._config.session.typing_mode or (agent.typing_mode if agent else None)
        direct = run.key.kind != "group"
        return decide_typing(wanted or agents.defaults.typing_mode, direct=direct, called=called)

    def _every_s(self, chat: RunningChat) -> float | None:
        if (usual := chat.live.traits.typing_every_s) is None:
            return None
        agents = self._config.agents
        agent = agents.find(chat.run.key.agent_id)
        wanted = self._config.session.typing_interval_seconds
        wanted = wanted or (agent.typing_interval_seconds if agent else None)
        return float(wanted or agents.defaults.typing_interval_seconds or usual)

    def _type_if(self, chat: RunningChat, *begins: TypingMode) -> None:
        if chat.begin not in begins or chat.types or self._tasks is None:
            return
        if (every_s := self._every_s(chat)) is None:
            return
        chat.types = True
        self._tasks.start_soon(self._type, chat, every_s, name="typing")

    async def _type(self, chat: RunningChat, every_s: float) -> None:
        """Shows the typing indicator until the run is over, or shows no activity."""
        live, where = chat.live, chat.where
        with chat.while_it_lasts():
            while anyio.current_time() - chat.alive_s < TYPING_S_MAX:
                if self._may_signal(live) and await self._may_say(chat.run, where):
                    await quietly(lambda: live.account.show_typing(where))
                await anyio.sleep(every_s)
        chat.types = False
        if self._tasks is not None:
            self._start(live, lambda: live.account.stop_typing(where))

    # ── heard ──────────────────────────────────────────────────────────────────────────────────

    def _ack_of(self, live: LiveAccount, inbound: Inbound, agent_id: str, called: bool) -> str:
        """The reaction that acknowledges a message; empty for none."""
        if live.settings.own_ack is not None:
            return live.settings.own_ack
        messages, direct = self._config.messages, inbound.is_direct
        if not decide_ack(messages.ack_reaction_scope, direct=direct, called=called).allowed:
            return ""
        if messages.ack_reaction is not None:
            return messages.ack_reaction
        agent = self._config.agents.find(agent_id)
        return (agent.identity.emoji if agent else None) or USUAL_ACK

    def _acknowledge(self, ack: Acked, run_id: str) -> None:
        if self._config.messages.remove_ack_after_reply:
            keep_newest(self._acks, run_id, ack, ACKS_MAX)
        self._start(ack.live, lambda: self._react(ack, run_id))

    async def _react(self, ack: Acked, run_id: str) -> None:
        run = await self._ledger.find_run(run_id)
        if run is not None and await self._may_say(run, ack.where):
            await ack.live.account.react(ack.where, ack.message_id, ack.emoji)

    # ── the reply as far as it is written ──────────────────────────────────────────────────────

    def _show(self, chat: RunningChat, text: str) -> None:
        if not chat.shows:
            if not self._streams(chat.live) or self._tasks is None:
                return
            chat.shows = True
            self._outbox.previews.open(chat.delivery_key)
            self._tasks.start_soon(self._stream, chat, name="preview")
        chat.say(text)

    def _streams(self, live: LiveAccount) -> bool:
        if not live.traits.edits:
            return False
        said = live.settings.streams
        default = self._config.agents.defaults.block_streaming_default == "on"
        return default if said is None else said

    async def _stream(self, chat: RunningChat) -> None:
        """Shows the reply in one message that grows. If it fails it ends: the reply itself is sent
        in any case."""
        try:
            with chat.while_it_lasts():
                await anyio.sleep(FIRST_S)
                while len(chat.text) < CHARS_MIN or not await self._is_next(chat):
                    await self._news(chat)
                if not await self._may_say(chat.run, chat.where):
                    return
                shown = await self._message(chat)
                platform_id = await self._begin_preview(chat, shown)
                while platform_id is not None:
                    await self._news(chat)
                    message = await self._message(chat)
                    if message.formatted == shown.formatted or not self._may_signal(chat.live):
                        continue
                    if not await self._may_say(chat.run, chat.where):
                        return
                    if not await self._outbox.previews.change(chat.live, message, platform_id):
                        return
                    shown = message
        except CrossclawError as error:
            log.debug("a reply is not shown while it is written: %s", error)

    async def _news(self, chat: RunningChat) -> None:
        """Waits until there is more to show, and not too soon."""
        await anyio.sleep(chat.live.traits.edit_every_s)
        await chat.news.wait()
        chat.news = anyio.Event()

    async def _is_next(self, chat: RunningChat) -> bool:
        """Whether no earlier message is still on its way to this chat."""
        return await self._ledger.find_open_delivery(chat.where.chat) is None

    async def _begin_preview(self, chat: RunningChat, message: Piece) -> str | None:
        live, previews = chat.live, self._outbox.previews
        if live.account.knows_key_for_s() > 0:
            return await previews.begin(live, message)
        async with self._outbox.turn_of(live):
            return await previews.begin(live, message)

    async def _message(self, chat: RunningChat) -> Piece:
        """The beginning of the reply, as much as fits into one message."""
        session = await self._ledger.find_session(chat.run.key)
        said = self._outbox.as_said(chat.text.strip(), chat.live, chat.run.key, session)
        first = pieces_of(said, chat.live)[0]
        return Piece(
            address=chat.where,
            text=first.text,
            formatted=first.formatted,
            delivery_key=chat.delivery_key,
            reply_to=chat.run.plan.answers if answers(chat.live, 1) else None,
        )

    # ── whether, and how much of it ────────────────────────────────────────────────────────────

    async def _may_say(self, run: Run, where: Address) -> bool:
        """Whether the reply may be sent at this moment; signals follow the same decision."""
        reply = Delivery(
            delivery_id=0,
            delivery_key=f"reply:{run.run_id}",
            key=run.key,
            address=where,
            text="",
            state="pending",
            attempt=0,
            not_before=0,
            run_id=run.run_id,
            authority=run.authority,
        )
        session = await self._ledger.find_session(run.key)
        return (await self._outbox.may_deliver(TakenDelivery(reply, session))).allowed

    def _may_signal(self, live: LiveAccount) -> bool:
        """Whether a signal may be sent now, within the platform's limits and without delaying
        messages."""
        if self._outbox.is_silent(live.place):
            return False
        return self._outbox.paces.spare(live.place, live.traits.rate or USUAL, anyio.current_time())

    def _start(self, live: LiveAccount, call: Callable[[], Awaitable[None]]) -> None:
        if self._tasks is not None and self._may_signal(live):
            self._tasks.start_soon(quietly, call, name="signal")


async def quietly(call: Callable[[], Awaitable[None]]) -> None:
    """Makes a call whose failure is only logged, since nobody waits for it."""
    try:
        with anyio.move_on_after(CALL_S_MAX):
            await call()
    except DeliveryError as error:
        log.debug("a signal was refused: %s", error)
    except Exception as error:  # noqa: BLE001  whatever an account does, its chat goes on
        log.info("a signal failed: %s", error)


async def _unack(ack: Acked) -> None:
    await ack.live.account.react(ack.where, ack.message_id, ack.emoji, on=False)


def _is_for_people(text: str) -> bool:
    """Whether the text is for people, and not the beginning of a token that means silence."""
    words = text.strip()
    return bool(words) and not any(token.startswith(words) for token in CONTROL_TOKENS)
