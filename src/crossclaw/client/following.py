"""The entries of a session as they are written, each once and in order, over any number of connections.

An event is only a hint that there is something to read; what is read comes from `sessions.entries`, after the
entry that was read last. So a lost event, or a lost connection, loses nothing. A reset gives the session
another transcript: the old one is read to its end first.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from crossclaw.client.peer import MISSED, EventQueue, GatewayPeer
from crossclaw.client.rows import EntryCursor, SessionEntry, read_row

PAGE = 200


@asynccontextmanager
async def follow_entries(
    peer: GatewayPeer, session: str, after: EntryCursor | None
) -> AsyncGenerator[AsyncGenerator[SessionEntry]]:
    """Follows a session's entries. Without `after`: those written from now on. They end when the peer is closed."""
    with peer.listen() as events:
        key = await _subscribe(peer, session)
        reader = _Reader(peer, key)
        await reader.begin(after)
        async with aclosing(_entries(peer, key, reader, events)) as entries:
            yield entries


async def _entries(
    peer: GatewayPeer, key: str, reader: "_Reader", events: EventQueue
) -> AsyncGenerator[SessionEntry]:
    while True:
        async for entry in reader.read():
            yield entry
        heard = await _hint(events, key)
        if heard is None:
            return
        if heard == MISSED:
            await _subscribe(peer, key)


async def _subscribe(peer: GatewayPeer, session: str) -> str:
    answer = await peer.call("sessions.messages.subscribe", {"key": session}, repeat=True)
    return str(answer.get("key") or session)


async def _hint(events: EventQueue, key: str) -> str | None:
    """The next event after which the transcript may have grown; None at the end."""
    async for event in events:
        ours = event.payload.get("sessionKey") == key
        if event.name == MISSED or (ours and event.name in ("session.message", "sessions.changed")):
            return event.name
    return None


class _Reader:
    def __init__(self, peer: GatewayPeer, key: str) -> None:
        self._peer = peer
        self._key = key
        self._at: EntryCursor | None = None

    async def begin(self, after: EntryCursor | None) -> None:
        if after is None:
            now = await self._page(self._key, after=None, limit=1)
            after = EntryCursor(now.get("sessionId") or "", now.get("lastSeq") or 0)
        self._at = after

    async def read(self) -> AsyncGenerator[SessionEntry]:
        """The entries that were written since the last look."""
        assert self._at is not None, "begin() comes first"
        now = await self._page(self._key, after=None, limit=1)
        current = now.get("sessionId") or ""
        if self._at.session_id not in ("", current):
            async for entry in self._rest_of(self._at.session_id):
                yield entry
        if self._at.session_id != current:
            self._at = EntryCursor(current, 0)
        if current:
            async for entry in self._rest_of(current):
                yield entry

    async def _rest_of(self, session_id: str) -> AsyncGenerator[SessionEntry]:
        """The rest of a transcript, read by its id: a reset in between cannot mix two."""
        assert self._at is not None
        while True:
            page = await self._page(session_id, after=self._at.seq, limit=PAGE)
            for shown in page["entries"]:
                entry = read_row({**shown, "sessionId": session_id}, SessionEntry)
                self._at = entry.cursor
                yield entry
            if not page.get("after"):
                return

    async def _page(self, key: str, *, after: int | None, limit: int) -> dict[str, Any]:
        params: dict[str, Any] = {"key": key, "limit": limit}
        if after is not None:
            params["after"] = after
        answer: dict[str, Any] = await self._peer.call("sessions.entries", params, repeat=True)
        return answer
