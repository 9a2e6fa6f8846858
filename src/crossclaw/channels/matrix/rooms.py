"""Rooms: who is in each, whether it is encrypted, and whether it is a direct chat.

A direct chat has two people in it. When a third one is invited it becomes a room, with other rules, and stays one: the
decision is kept, so that nobody falls back into somebody's private session by leaving. In the same way a room that was
encrypted once is never taken for one that is not.
"""

from collections.abc import Collection
from typing import Literal

import msgspec

from crossclaw.channels.contract import ChannelHost
from crossclaw.channels.matrix.client import MatrixClient
from crossclaw.channels.matrix.events import MatrixEvent, text_in

RoomKind = Literal["direct", "channel"]
PRESENT = ("join", "invite")
ROOMS_MAX = 2_000  # held in memory; those that rest are asked for again


class KeptRoom(msgspec.Struct, omit_defaults=True):
    """The facts of a room that are stored."""

    kind: RoomKind = "direct"
    encrypted: bool = False


class MatrixRoom:
    def __init__(self, room_id: str, kept: KeptRoom) -> None:
        self.room_id = room_id
        self.kept = kept
        self.members: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.name: str | None = None
        self.newly_encrypted = False
        """Whether it became encrypted since we last looked: what was said before that may come in clear."""

    @property
    def is_direct(self) -> bool:
        return self.kept.kind == "direct"

    def apply(self, event: MatrixEvent) -> None:
        """Applies a change of the room's state."""
        if event.type == "m.room.member" and event.state_key is not None:
            if event.membership in PRESENT:
                self.members[event.state_key] = event.membership or ""
            else:
                self.members.pop(event.state_key, None)
            if name := text_in(event.content, "displayname"):
                self.names[event.state_key] = name
        elif event.type == "m.room.name":
            self.name = text_in(event.content, "name")
        elif event.type == "m.room.encryption":
            self.kept.encrypted = True


class KnownRooms:
    def __init__(
        self, client: MatrixClient, host: ChannelHost, listed: Collection[str], own_id: str
    ) -> None:
        self._client, self._host = client, host
        self._listed = listed
        """The rooms that the config has rules for: they are never direct chats."""
        self._own_id = own_id
        self._rooms: dict[str, MatrixRoom] = {}
        self._stored: dict[str, bytes] = {}

    async def get(self, room_id: str) -> MatrixRoom:
        if (room := self._rooms.get(room_id)) is None:
            room = await self._load(room_id)
            while len(self._rooms) >= ROOMS_MAX:
                oldest = next(iter(self._rooms))
                del self._rooms[oldest]
                self._stored.pop(oldest, None)
            self._rooms[room_id] = room
            await self.keep(room)
        return room

    async def _load(self, room_id: str) -> MatrixRoom:
        stored = await self._host.load_cursor(_name(room_id))
        kept = KeptRoom() if stored is None else msgspec.json.decode(stored, type=KeptRoom)
        if stored is not None:
            self._stored[room_id] = stored.encode()
        room = MatrixRoom(room_id, kept)
        room.members = await self._client.members(room_id)
        if not kept.encrypted:
            kept.encrypted = await self._client.find_state(room_id, "m.room.encryption") is not None
            room.newly_encrypted = kept.encrypted
        room.name = text_in(await self._client.find_state(room_id, "m.room.name") or {}, "name")
        return room

    async def keep(self, room: MatrixRoom) -> None:
        """Stores what has changed of a room, once its members are as the next event finds them."""
        if len(room.members) > 2 or room.room_id in self._listed:
            room.kept.kind = "channel"
        encoded = msgspec.json.encode(room.kept)
        if self._stored.get(room.room_id) != encoded:
            await self._host.save_cursor(_name(room.room_id), encoded.decode())
            self._stored[room.room_id] = encoded

    def forget(self, room_id: str) -> None:
        """Forgets a room that we are no longer in."""
        self._rooms.pop(room_id, None)


def _name(room_id: str) -> str:
    return f"room {room_id}"
