"""Albums, and texts too long for one message, that Telegram brings by webhook: each part is a call of its own, and the next comes when the one before was
acknowledged. So the parts are stored as they come, and received as one message when no more follow.
"""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from crossclaw.channels.contract import ChannelHost
from crossclaw.channels.telegram.reading import follows, join_parts
from crossclaw.domain.addresses import Inbound

PAUSE_S = 1.5  # after the last part; longer than between two calls of Telegram
PARTS_MAX = 10  # of an album, by Telegram's rules
ALBUMS_MAX = (
    20  # they are one row, which is written whole; beyond, the oldest does not wait any longer
)
TAKEN_MAX = 500  # parts that may still come again, because our answer to them was lost

ReceiveAlbum = Callable[[Inbound], Awaitable[None]]
MayBeHeld = Callable[[Inbound], Awaitable[bool]]


class StoredAlbums(msgspec.Struct):
    """The albums as they are stored."""

    held: list[list[Inbound]] = []
    taken: list[str] = []
    """Parts that were received, by `_part_key`."""
    closed: list[str] = []
    """Albums that are being received, by the key of their first part: none is added to them any more."""


class HeldAlbums:
    """The albums of which more parts may come. `may_talk`: parts of people who may not talk are not kept;
    each is received, and refused, as it comes."""

    def __init__(
        self, host: ChannelHost, bot_id: int, receive: ReceiveAlbum, may_talk: MayBeHeld
    ) -> None:
        self._host, self._receive, self._may_talk = host, receive, may_talk
        self._name = f"albums of bot {bot_id}"
        self._stored: StoredAlbums | None = None
        self._due: dict[str, float] = {}
        """The time at which an album counts as whole, by its first part."""
        self._changed = anyio.Event()
        self._lock = anyio.Lock()

    async def take(self, inbound: Inbound) -> None:
        """Takes a message: on return it was received, or it is part of an album and was stored. What else is
        said in the chat comes after the album."""
        async with self._lock:
            stored = await self._load()
            if self._comes_again(stored, inbound):
                return
            its_album = _album_of(stored, inbound)
            is_part = inbound.group_of is not None and inbound.edit_of is None
            for album in list(stored.held):
                if album[0].address.to == inbound.address.to and album is not its_album:
                    await self._finish(stored, album)
            is_kept = its_album is not None or (is_part and await self._may_talk(inbound))
            if not is_kept:
                await self._receive(inbound)
                return
            await self._hold(stored, inbound)

    async def _hold(self, stored: StoredAlbums, part: Inbound) -> None:
        album = _album_of(stored, part)
        if album is None:
            if len(stored.held) >= ALBUMS_MAX:
                await self._finish(stored, stored.held[0])
            album = []
            stored.held.append(album)
        album.append(part)
        await self._store(stored)
        self._due[_part_key(album[0])] = anyio.current_time() + PAUSE_S
        self._changed.set()
        if len(album) >= PARTS_MAX:
            await self._finish(stored, album)

    def _comes_again(self, stored: StoredAlbums, part: Inbound) -> bool:
        """Whether Telegram sends a part once more because our answer was lost. The next ones come after that."""
        key = _part_key(part)
        for album in stored.held:
            if any(key == _part_key(each) for each in album):
                self._due[_part_key(album[0])] = anyio.current_time() + PAUSE_S
                return True
        return key in stored.taken

    async def serve(self) -> None:
        """Receives albums of which no more parts come; also those that an earlier process has left."""
        while True:
            async with self._lock:
                stored = await self._load()
                for album in list(stored.held):
                    if self._due_at(album) <= anyio.current_time():
                        await self._finish(stored, album)
                self._changed = changed = anyio.Event()
                next_at = min(map(self._due_at, stored.held), default=None)
            if next_at is None:
                await changed.wait()
            else:
                await anyio.sleep_until(next_at)

    async def finish_all(self) -> None:
        """Receives all albums that were stored by webhook, when the account is served otherwise now."""
        async with self._lock:
            stored = await self._load()
            for album in list(stored.held):
                await self._finish(stored, album)

    def _due_at(self, album: list[Inbound]) -> float:
        return self._due.setdefault(_part_key(album[0]), anyio.current_time() + PAUSE_S)

    async def _finish(self, stored: StoredAlbums, album: list[Inbound]) -> None:
        """Receives an album, then deletes it from the store: what comes again meanwhile is recognised by its
        message's id. So it is marked as whole first: a part that was added later, after a crash, would be
        taken for known as well."""
        key = _part_key(album[0])
        if key not in stored.closed:
            stored.closed.append(key)
            await self._store(stored)
        await self._receive(join_parts(album))
        stored.held.remove(album)
        stored.closed.remove(key)
        self._due.pop(key, None)
        stored.taken = [*stored.taken, *map(_part_key, album)][-TAKEN_MAX:]
        await self._store(stored)

    async def _load(self) -> StoredAlbums:
        if self._stored is None:
            text = await self._host.load_cursor(self._name)
            self._stored = (
                msgspec.json.decode(text, type=StoredAlbums) if text else StoredAlbums([], [])
            )
        return self._stored

    async def _store(self, stored: StoredAlbums) -> None:
        try:
            await self._host.save_cursor(self._name, msgspec.json.encode(stored).decode())
        except BaseException:
            self._stored = None  # what is stored counts
            raise


def _album_of(stored: StoredAlbums, part: Inbound) -> list[Inbound] | None:
    is_open = (each for each in stored.held if _part_key(each[0]) not in stored.closed)
    return next((each for each in is_open if follows(each, part)), None)


def _part_key(part: Inbound) -> str:
    return f"{part.address.to} {part.message_id}"
