"""What a homeserver sends, as types. An invalid event is left out with a warning: others write them, and one
bad event must not hold back those behind it."""

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

log = logging.getLogger(__name__)

EventContent = dict[str, Any]


class MatrixEvent(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    sender: str
    content: EventContent
    event_id: str = ""
    origin_server_ts: int = 0
    state_key: str | None = None
    unsigned: EventContent = msgspec.field(default_factory=dict)
    redacts: str | None = None
    """The event that a redaction takes back; newer rooms have it in the content."""

    @property
    def membership(self) -> str | None:
        """The membership that a member event sets."""
        return text_in(self.content, "membership") if self.type == "m.room.member" else None

    @property
    def membership_before(self) -> str | None:
        return text_in(content_in(self.unsigned, "prev_content"), "membership")

    @property
    def relation(self) -> EventContent:
        return content_in(self.content, "m.relates_to")


class RoomTimeline(msgspec.Struct, frozen=True):
    events: list[msgspec.Raw] = []
    limited: bool = False
    prev_batch: str = ""


class RawEvents(msgspec.Struct, frozen=True):
    events: list[msgspec.Raw] = []


class JoinedRoom(msgspec.Struct, frozen=True):
    timeline: RoomTimeline = RoomTimeline()
    state: RawEvents = RawEvents()


class InvitedRoom(msgspec.Struct, frozen=True):
    invite_state: RawEvents = RawEvents()


class SyncedRooms(msgspec.Struct, frozen=True):
    join: dict[str, JoinedRoom] = {}
    invite: dict[str, InvitedRoom] = {}
    leave: dict[str, msgspec.Raw] = {}


class DeviceLists(msgspec.Struct, frozen=True):
    changed: list[str] = []
    left: list[str] = []


class SyncAnswer(msgspec.Struct, frozen=True):
    next_batch: str
    rooms: SyncedRooms = SyncedRooms()
    account_data: RawEvents = RawEvents()
    to_device: RawEvents = RawEvents()
    device_lists: DeviceLists = DeviceLists()
    device_one_time_keys_count: dict[str, int] = {}


class MessagesPage(msgspec.Struct, frozen=True):
    chunk: list[msgspec.Raw] = []
    end: str | None = None


_event = msgspec.json.Decoder(MatrixEvent)


def read_events(raw: Iterable[msgspec.Raw]) -> list[MatrixEvent]:
    found: list[MatrixEvent] = []
    for each in raw:
        try:
            found.append(_event.decode(each))
        except msgspec.MsgspecError as error:
            log.warning("an event of the homeserver is left out: %s", error)
    return found


def text_in(content: EventContent, name: str) -> str | None:
    """A text of a content that anybody may have written, or None."""
    value = content.get(name)
    return value if isinstance(value, str) else None


def content_in(content: EventContent, name: str) -> EventContent:
    value = content.get(name)
    return value if isinstance(value, dict) else {}
