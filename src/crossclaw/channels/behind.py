"""Chats that are behind: messages that came while nobody was connected could not be fetched yet."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import anyio
import msgspec

from crossclaw.domain.errors import ChannelDown, ChatRefused, first_of

PAUSE_FIRST_S, PAUSE_MAX_S = 5.0, 300.0
TRIES_MAX = (
    12  # half an hour; a chat that its platform does not show for so long is let go, and said so
)


T = TypeVar("T")


def readable(found: Sequence[msgspec.Raw], kind: type[T]) -> list[T]:
    """The messages that can be decoded: one that does not fit does not keep the others back."""
    messages = list[T]()
    for raw in found:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            messages.append(msgspec.json.decode(raw, type=kind))
    return messages


class _Next(NamedTuple):
    at: float = 0.0
    tries: int = 0


class ChatsBehind:
    """Asks again for each chat that is behind, with growing pauses, while the account goes on with all
    others. New messages there are taken meanwhile, but must not move the mark from which `ask` asks: `chat in
    behind` says so."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[None]],
        troubled: Callable[[str], None],
        chats: Iterable[str] = (),
    ) -> None:
        self._ask, self._troubled = ask, troubled
        self._next = {chat: _Next() for chat in chats}
        self._not_before = 0.0
        """The earliest time of the next request, after the platform said that it was asked too often."""
        self._one_at_a_time = anyio.Lock()
        self._changed = anyio.Event()
        self._is_connected = anyio.Event()

    def connected(self) -> None:
        """Marks the account as connected: nothing is taken before it is known who the account is."""
        self._is_connected.set()

    def __contains__(self, chat: str) -> bool:
        return chat in self._next

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._next))

    async def catch_up(self, chats: Iterable[str]) -> None:
        """Fetches missed messages of these chats now; where there is no answer, later (`serve`)."""
        chats = sorted(chats)
        self._next |= {chat: _Next() for chat in chats}
        for chat in chats:
            if anyio.current_time() < self._not_before:
                break
            await self._try(chat)
        self._changed.set()

    async def serve_beside(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._serve)
                await work()
                tasks.cancel_scope.cancel()
        except ExceptionGroup as several:
            raise first_of(several) from several

    async def _serve(self) -> None:
        await self._is_connected.wait()
        while True:
            self._changed = anyio.Event()
            due = {chat: max(each.at, self._not_before) for chat, each in self._next.items()}
            chat = min(due, key=due.__getitem__, default=None)
            pause_s = None if chat is None else due[chat] - anyio.current_time()
            if chat is None or pause_s is None or pause_s > 0:
                with anyio.move_on_after(pause_s):
                    await self._changed.wait()
            else:
                await self._try(chat)

    async def _try(self, chat: str) -> None:
        async with self._one_at_a_time:
            found, now = self._next.get(chat), anyio.current_time()
            if found is None or now < max(found.at, self._not_before):
                return  # somebody has asked meanwhile
            try:
                await self._ask(chat)
            except ChatRefused as error:
                self._let_go(chat, error)
            except ChannelDown as error:
                self._later(chat, error)
            else:
                self._next.pop(chat, None)

    def _later(self, chat: str, error: ChannelDown) -> None:
        now, tries = anyio.current_time(), self._next[chat].tries
        if error.retry_after_s is not None:
            self._not_before = now + error.retry_after_s
        elif tries + 1 >= TRIES_MAX:
            return self._let_go(chat, error)
        else:
            tries += 1
        pause_s = min(PAUSE_FIRST_S * 2 ** max(tries - 1, 0), PAUSE_MAX_S)
        self._next[chat] = _Next(now + pause_s, tries)
        return self._troubled(f"missed messages of a chat are asked for again: {error}")

    def _let_go(self, chat: str, error: ChannelDown) -> None:
        self._next.pop(chat, None)
        self._troubled(f"missed messages could not be fetched: {error}")
