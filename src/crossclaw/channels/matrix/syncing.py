"""Reading syncs: invitations, gaps, and each room's events in their order. An event was received when `take` returns; only
then may the place in the stream be kept."""

import logging
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import msgspec

from crossclaw.channels.contract import InvitedHost
from crossclaw.channels.matrix.client import MatrixClient, MatrixRefusal
from crossclaw.channels.matrix.events import (
    EventContent,
    JoinedRoom,
    MatrixEvent,
    SyncAnswer,
    read_events,
    text_in,
)
from crossclaw.channels.matrix.invitations import Invitations
from crossclaw.channels.matrix.reading import (
    MatrixSelf,
    MatrixText,
    SkippedEvent,
    read_quoted,
    read_said,
)
from crossclaw.channels.matrix.rooms import KnownRooms, MatrixRoom
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo
from crossclaw.domain.errors import MediaRefused, first_of

if TYPE_CHECKING:
    from crossclaw.channels.matrix.encryption import KeyVault

log = logging.getLogger(__name__)

ROOMS_AT_ONCE = 16  # the ledger stores what comes together in one transaction
GAP_EVENTS_MAX = 2_000  # of one room that was away for long; what is older is not answered
WAITING_MAX = 200  # events whose keys have not come yet
WAITING_BYTES_MAX = 2**20  # of them together: they are one row, which is written whole
ROOM_REFUSED = (400, 403, 404)  # by the homeserver, for one room: nothing is wrong with the account
SPOKEN = ("m.room.message", "m.sticker")
BY_DEVICE = "trustedDevices names who it is, so only what a listed device has encrypted is known to be theirs"
IN_CLEAR = "the room is encrypted, and only what is encrypted too is known to be its sender's"


class WaitingEvent(msgspec.Struct, frozen=True):
    """An encrypted event whose key may still come."""

    room_id: str
    event: MatrixEvent


class SyncReader:
    def __init__(
        self,
        client: MatrixClient,
        host: InvitedHost,
        settings: MatrixSettings,
        rooms: KnownRooms,
        vault: "KeyVault | None",
        us: MatrixSelf,
    ) -> None:
        self._client, self._host, self._settings = client, host, settings
        self._rooms, self._vault = rooms, vault
        self._own_id, self._own_name = us
        self._by_device = {each.lower() for each in settings.trusted_devices}
        self._invitations = Invitations(client, host, settings, us.user_id)
        self._places = anyio.CapacityLimiter(ROOMS_AT_ONCE)
        self._waiting: list[WaitingEvent] | None = None
        self._unread: set[str] = set()
        self._heard_until_ms = 0
        """What was said before was heard by another device of the account, and is not answered again."""
        self.secrets: dict[str, EventContent] = {}
        """Keys of encrypted files, while their messages are received."""

    def skip_until(self, at_ms: int) -> None:
        """What was said before is not answered; 0: everything is."""
        self._heard_until_ms = at_ms

    async def take(self, answer: SyncAnswer, since: str | None) -> None:
        """Receives a sync's events. `since` None: the first sync of all. Its events are from before, and are
        not answered."""
        await self._try_waiting(answer)
        for room_id in answer.rooms.leave:
            self._rooms.forget(room_id)
        try:
            async with anyio.create_task_group() as tasks:
                for room_id, synced in answer.rooms.join.items():
                    if since is not None:
                        tasks.start_soon(self._try_room, room_id, synced, since)
        except ExceptionGroup as several:
            raise first_of(several) from several
        await self._invitations.take(answer.rooms)

    # ── rooms that we are in ───────────────────────────────────────────────────────────────────

    async def _try_room(self, room_id: str, synced: JoinedRoom, since: str) -> None:
        """Reads one room of a sync. Whoever may invite us chooses the rooms that we are in: one that the
        homeserver refuses to show, or that is too large to be read, keeps no other room waiting. Other
        failures are repeated with the same sync."""
        try:
            async with self._places:
                await self._take_room(room_id, synced, since)
        except (MatrixRefusal, MediaRefused) as error:
            if not _is_of_room(error):
                raise
            self._host.troubled(f"what was said in {room_id} is left out: {error}")

    async def _take_room(self, room_id: str, synced: JoinedRoom, since: str) -> None:
        events = read_events(synced.timeline.events)
        if synced.timeline.limited:
            self._rooms.forget(room_id)  # who has come and gone meanwhile is not in the sync
            events = await self._fill_gap(room_id, synced.timeline.prev_batch, since, events)
        events = events[_start_of(events, self._own_id) :]
        if not synced.state.events and not events:
            return
        room = await self._rooms.get(room_id)
        for change in read_events(synced.state.events):
            room.apply(change)
        clear_until = _end_of_clear(events) if room.newly_encrypted else 0
        room.newly_encrypted = False
        for at, event in enumerate(events):
            if event.state_key is not None:
                room.apply(event)
                await self._rooms.keep(room)
            elif event.origin_server_ts < self._heard_until_ms:
                continue
            elif event.type in SPOKEN and event.sender.lower() in self._by_device:
                who = event.sender
                self._say_once(
                    room_id, f"what {who} says in clear in {room_id} is not heard: {BY_DEVICE}"
                )
            elif room.kept.encrypted and at >= clear_until and event.type in SPOKEN:
                self._say_once(room_id, f"messages in clear in {room_id} are not heard: {IN_CLEAR}")
            else:
                await self._take_event(room, event)

    async def _fill_gap(
        self, room_id: str, token: str, since: str, events: list[MatrixEvent]
    ) -> list[MatrixEvent]:
        """The events between the last sync and this one, oldest first."""
        older: list[MatrixEvent] = []
        while token and not _start_of(events, self._own_id):
            page = await self._client.messages_before(room_id, token, since)
            found = read_events(page.chunk)
            older += found
            started = _start_of(list(reversed(older)), self._own_id)
            if started or page.end is None or not found:
                break
            if len(older) >= GAP_EVENTS_MAX:
                self._host.troubled(
                    f"more than {GAP_EVENTS_MAX} events came to {room_id} while we were away; "
                    "the oldest of them are not answered"
                )
                break
            token = page.end
        return [*reversed(older), *events]

    async def _take_event(self, room: MatrixRoom, event: MatrixEvent) -> None:
        if event.type == "m.room.encrypted" and event.sender != self._own_id:
            opened = await self._decrypt(room, event)
            if opened is None:
                return
            event = opened
        if event.type == "m.room.redaction":
            await self._take_back(room, event)
            return
        try:
            said = read_said(event, self._own_id, self._own_name)
        except (
            Exception
        ):  # anybody may have written it: one event must not hold back all that follow
            log.exception("the event %s could not be read", event.event_id)
            return
        if isinstance(said, SkippedEvent):
            log.debug("event %s: %s", event.event_id, said.why)
            return
        await self._receive(room, event, said)

    async def _take_back(self, room: MatrixRoom, event: MatrixEvent) -> None:
        """Handles a message that its sender has deleted. The homeserver still tells a deleted event's sender
        and kind: reactions, and what others remove, are ignored."""
        of = event.redacts or text_in(event.content, "redacts")
        if of is None or event.sender == self._own_id:
            return
        try:
            found = await self._client.find_event(room.room_id, of)
        except (MatrixRefusal, msgspec.ValidationError) as error:
            if isinstance(error, MatrixRefusal) and error.status not in ROOM_REFUSED:
                raise  # the same sync is read again
            return
        is_message = found is not None and found.type in (*SPOKEN, "m.room.encrypted")
        if found is not None and is_message and found.sender == event.sender:
            gone = self._inbound(room, event, MatrixText("", False, None, None, None, None), None)
            await self._host.receive(msgspec.structs.replace(gone, deletion_of=of))

    async def _receive(self, room: MatrixRoom, event: MatrixEvent, said: MatrixText) -> None:
        inbound = self._inbound(room, event, said, await self._replied(room, said.reply_to))
        file = said.file
        if file is not None and file.secret is not None:
            self.secrets[file.uri] = file.secret
        try:
            await self._host.receive(inbound)
        finally:
            if file is not None:
                self.secrets.pop(file.uri, None)

    def _inbound(
        self, room: MatrixRoom, event: MatrixEvent, said: MatrixText, reply_to: ReplyTo | None
    ) -> Inbound:
        thread_id = said.thread_id if self._settings.thread_replies != "off" else None
        address = Address("matrix", room.room_id, self._host.account_id, thread_id)
        files: tuple[Attachment, ...] = ()
        if said.file is not None:
            files = (
                Attachment(
                    kind=said.file.kind,
                    id=said.file.uri,
                    name=said.file.name,
                    mime=said.file.mime,
                    size=said.file.size,
                    voice=said.file.voice,
                ),
            )
        return Inbound(
            address=address,
            sender=event.sender,
            text=said.text,
            message_id=event.event_id,
            chat_type="direct" if room.is_direct else "channel",
            chat_name=room.name,
            chat_id=None if room.is_direct else room.room_id,
            sender_name=room.names.get(event.sender),
            at_ms=event.origin_server_ts or None,
            attachments=files,
            reply_to=reply_to,
            mentioned=said.mentioned,
            edit_of=said.edit_of,
        )

    async def _replied(self, room: MatrixRoom, event_id: str | None) -> ReplyTo | None:
        """The message that a reply answers, as the homeserver has it. Without its answer the reply still counts."""
        if event_id is None:
            return None
        try:
            found = await self._client.find_event(room.room_id, event_id)
        except (MatrixRefusal, msgspec.ValidationError):
            found = None
        if found is None:
            return ReplyTo(message_id=event_id)
        words: MatrixEvent | None = found
        if found.type == "m.room.encrypted":
            ours = found.sender == self._own_id
            words = None if ours else await self._decrypt(room, found, wait=False)
        elif room.kept.encrypted or found.sender.lower() in self._by_device:
            words = None  # in clear: the homeserver may have written it
        text, is_notice = read_quoted(words, self._own_id) if words is not None else (None, False)
        return ReplyTo(
            message_id=event_id,
            sender=found.sender,
            sender_name=room.names.get(found.sender),
            sender_is_bot=is_notice,
            text=text,
            ours=found.sender == self._own_id,
        )

    # ── encrypted events ───────────────────────────────────────────────────────────────────────

    async def _decrypt(
        self, room: MatrixRoom, event: MatrixEvent, *, wait: bool = True
    ) -> MatrixEvent | None:
        if self._vault is None:
            self._say_unread(room.room_id, "this account is not set up for encryption")
            return None
        from crossclaw.channels.matrix.encryption import Undecrypted  # noqa: PLC0415  loaded by now

        try:
            return await self._vault.decrypt(room.room_id, event)
        except Undecrypted as error:
            if wait:
                self._say_unread(room.room_id, str(error))
                if not error.for_good:
                    await self._keep_waiting(room, event)
            return None

    def _say_unread(self, room_id: str, why: str) -> None:
        self._say_once(room_id, f"encrypted messages in {room_id} cannot be read: {why}")

    def _say_once(self, room_id: str, words: str) -> None:
        """Reports a problem once a room."""
        if room_id not in self._unread:
            self._unread.add(room_id)
            self._host.troubled(words)

    async def _load_waiting(self) -> list[WaitingEvent]:
        if self._waiting is None:
            stored = await self._host.load_cursor(f"waiting {self._own_id}")
            self._waiting = msgspec.json.decode(stored or "[]", type=list[WaitingEvent])
        return self._waiting

    async def _keep_waiting(self, room: MatrixRoom, event: MatrixEvent) -> None:
        """Keeps an encrypted event until its key comes, if its sender may talk. If there are too many, the
        sender with the most loses one."""
        said = MatrixText("", False, None, None, None, None)
        if not await self._host.may_talk(self._inbound(room, event, said, None)):
            return
        waiting = await self._load_waiting()
        if any(each.event.event_id == event.event_id for each in waiting):
            return
        waiting.append(WaitingEvent(room.room_id, event))
        sizes = Counter[str]()
        for each in waiting:
            sizes[each.event.sender] += _weight(each)
        while len(waiting) > WAITING_MAX or sizes.total() > WAITING_BYTES_MAX:
            most = sizes.most_common(1)[0][0]
            oldest = next(each for each in waiting if each.event.sender == most)
            waiting.remove(oldest)
            sizes[most] -= _weight(oldest)
        await self._store_waiting()

    async def _store_waiting(self) -> None:
        encoded = msgspec.json.encode(self._waiting).decode()
        await self._host.save_cursor(f"waiting {self._own_id}", encoded)

    async def _try_waiting(self, answer: SyncAnswer) -> None:
        """Tries waiting events again: keys sometimes come after what they open."""
        has_news = bool(answer.to_device.events or answer.device_lists.changed)
        if self._vault is None or not (has_news or self._waiting is None):
            return
        waiting = await self._load_waiting()
        for one in list(waiting):
            if await self._try_one(one):
                waiting.remove(one)
                await self._store_waiting()

    async def _try_one(self, one: WaitingEvent) -> bool:
        """Tries one waiting event; returns whether it is done."""
        try:
            room = await self._rooms.get(one.room_id)
        except (MatrixRefusal, MediaRefused) as error:
            if not _is_of_room(error):
                raise
            return True
        opened = await self._decrypt(room, one.event, wait=False)
        if opened is not None:
            await self._take_event(room, opened)
        return opened is not None


def _is_of_room(error: MatrixRefusal | MediaRefused) -> bool:
    """Whether an error concerns one room only, and not the account."""
    return isinstance(error, MediaRefused) or error.status in ROOM_REFUSED


def _weight(one: WaitingEvent) -> int:
    return len(msgspec.json.encode(one))


def _end_of_clear(events: list[MatrixEvent]) -> int:
    """The position at which encryption was switched on for the first time; what was said before it was
    rightly in clear."""
    for at, event in enumerate(events):
        if event.type == "m.room.encryption" and event.state_key is not None:
            return 0 if {"prev_content", "replaces_state"} & event.unsigned.keys() else at
    return 0


def _start_of(events: list[MatrixEvent], own_id: str) -> int:
    """The position at which our time in the room begins: at our invitation, or where we joined without one.
    What was said between the invitation and our joining was said to us."""
    start = 0
    for at, event in enumerate(events):
        if event.type == "m.room.member" and event.state_key == own_id:
            joins = event.membership == "join" and event.membership_before not in ("join", "invite")
            if event.membership == "invite" or joins:
                start = at + 1
    return start
