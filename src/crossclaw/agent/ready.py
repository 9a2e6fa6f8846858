"""ReadyCache: what has been made of stored pictures and files for models, so that no turn makes it again."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from crossclaw.domain.media import Media

FindMedia = Callable[[str], Awaitable[Media | None]]
T = TypeVar("T")

AGAIN_S = 60.0  # after one that took too long: no turn of a run waits for it again
MISSING = "its bytes are not there any more"
SLOW = "it takes too long to be read just now"


class ReadyCache(Generic[T]):
    """Keeps what is ready by its hash, `most` in all as `size_of` counts; one that has left is made again."""

    def __init__(self, find_media: FindMedia, size_of: Callable[[T], int], most: int) -> None:
        self._find_media = find_media
        self._size_of = size_of
        self._most = most
        self._size = 0
        self._ready: OrderedDict[str, T] = OrderedDict()
        self._resting: dict[str, float] = {}
        """What took too long, and when it is tried again; few, and small."""

    async def get(self, key: str, make: Callable[[Media], Awaitable[T | None]]) -> T | str:
        """What is ready, or why nothing is. `make` answers None where it took too long this time: a machine that is
        busy now will not be for ever."""
        if (known := self._ready.get(key)) is not None:
            self._ready.move_to_end(key)
            return known
        media = await self._find_media(key)
        if media is None:
            return MISSING
        if anyio.current_time() < self._resting.get(key, 0.0):
            return SLOW
        made = await make(media)
        if made is None:
            self._resting[key] = anyio.current_time() + AGAIN_S
            return SLOW
        self._resting.pop(key, None)
        self._keep(key, made)
        return made

    def _keep(self, key: str, made: T) -> None:
        if (before := self._ready.pop(key, None)) is not None:  # made twice at the same time
            self._size -= self._size_of(before)
        self._ready[key] = made
        self._size += self._size_of(made)
        while self._size > self._most and len(self._ready) > 1:
            _, oldest = self._ready.popitem(last=False)
            self._size -= self._size_of(oldest)
