"""Reading syncs: invitations, gaps, and each room's events in their order. An event was received when `take` returns; only
then may the place in the stream be kept."""

import logging
from typing import TYPE_CHECKING

import anyio
import msgspec

from crossclaw.channels.contract import InvitedHost
from crossclaw.channels.matrix.client import MatrixClient, MatrixRefusal
from crossclaw.channels.matrix.events import (
    Content,
    InvitedRoom,
    JoinedRoom,
    MatrixEvent,
    SyncAnswer,
    read_events,
    text_in,
)
from crossclaw.channels.matrix.reading import MatrixSelf, Said, SkippedEvent, read_said
from crossclaw.channels.matrix.rooms import MatrixRoom, RoomBook
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo
from crossclaw.domain.errors import first_of

if TYPE_CHECKING:
    from crossclaw.channels.matrix.encryption import KeyVault

log = logging.getLogger(__name__)

ROOMS_AT_ONCE = 16  # the ledger stores what comes together in one transaction
GAP_EVENTS_MAX = 2_000  # of one room that was away for long; what is older is not answered
WAITING_MAX = 200  # events whose keys have not come yet
REPLY_CHARS_MAX = 2_000


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
        rooms: RoomBook,
        vault: "KeyVault | None",
        us: MatrixSelf,
    ) -> None:
        self._client, self._host, self._settings = client, host, settings
        self._rooms, self._vault = rooms, vault
        self._own_id, self._own_name = us
        self._places = anyio.CapacityLimiter(ROOMS_AT_ONCE)
        self._waiting: list[WaitingEvent] | None = None
        self._unread: set[str] = set()
        self.secrets: dict[str, Content] = {}
        """Keys of encrypted files, while their messages are received."""

    async def take(self, answer: SyncAnswer, since: str | None) -> None:
        """`since` None: the first sync of all. Its events are from before, and are not answered."""
        await self._try_waiting()
        for room_id in answer.rooms.leave:
            self._rooms.forget(room_id)
        try:
            async with anyio.create_task_group() as tasks:
                for room_id, synced in answer.rooms.join.items():
                    if since is not None:
                        tasks.start_soon(self._take_room, room_id, synced, since)
        except ExceptionGroup as several:
            raise first_of(several) from several
        for room_id, invited in answer.rooms.invite.items():
            await self._consider(room_id, invited)

    # ── rooms that we are in ───────────────────────────────────────────────────────────────────

    async def _take_room(self, room_id: str, synced: JoinedRoom, since: str) -> None:
        async with self._places:
            events = read_events(synced.timeline.events)
            if synced.timeline.limited:
                events = await self._fill_gap(room_id, synced.timeline.prev_batch, since, events)
            events = events[_start_of(events, self._own_id) :]
            if not synced.state.events and not events:
                return
            room = await self._rooms.get(room_id)
            for change in read_events(synced.state.events):
                room.apply(change)
            for event in events:
                if event.state_key is not None:
                    room.apply(event)
                    await self._rooms.keep(room)
                else:
                    await self._take_event(room, event)

    async def _fill_gap(
        self, room_id: str, token: str, since: str, events: list[MatrixEvent]
    ) -> list[MatrixEvent]:
        """What lies between the last sync and this one, oldest first."""
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

    async def _receive(self, room: MatrixRoom, event: MatrixEvent, said: Said) -> None:
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
        self, room: MatrixRoom, event: MatrixEvent, said: Said, reply_to: ReplyTo | None
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
        """Whom a reply answers: the homeserver knows. Without its answer the reply still counts."""
        if event_id is None:
            return None
        try:
            found = await self._client.find_event(room.room_id, event_id)
        except (MatrixRefusal, msgspec.ValidationError):
            found = None
        if found is None:
            return ReplyTo(message_id=event_id)
        if found.type == "m.room.encrypted" and found.sender != self._own_id:
            found = await self._decrypt(room, found, wait=False) or found
        text = text_in(found.content, "body")
        return ReplyTo(
            message_id=event_id,
            sender=found.sender,
            sender_name=room.names.get(found.sender),
            text=text[:REPLY_CHARS_MAX] if text else None,
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
                await self._keep_waiting(WaitingEvent(room.room_id, event))
            return None

    def _say_unread(self, room_id: str, why: str) -> None:
        """Once a room."""
        if room_id not in self._unread:
            self._unread.add(room_id)
            self._host.troubled(f"encrypted messages in {room_id} cannot be read: {why}")

    async def _load_waiting(self) -> list[WaitingEvent]:
        if self._waiting is None:
            stored = await self._host.load_cursor(f"waiting {self._own_id}")
            self._waiting = msgspec.json.decode(stored or "[]", type=list[WaitingEvent])
        return self._waiting

    async def _keep_waiting(self, one: WaitingEvent) -> None:
        waiting = await self._load_waiting()
        if all(each.event.event_id != one.event.event_id for each in waiting):
            waiting.append(one)
            del waiting[:-WAITING_MAX]
            await self._store_waiting()

    async def _store_waiting(self) -> None:
        encoded = msgspec.json.encode(self._waiting).decode()
        await self._host.save_cursor(f"waiting {self._own_id}", encoded)

    async def _try_waiting(self) -> None:
        """Keys sometimes come after what they open."""
        if self._vault is None:
            return
        waiting = await self._load_waiting()
        for one in list(waiting):
            room = await self._rooms.get(one.room_id)
            opened = await self._decrypt(room, one.event, wait=False)
            if opened is not None:
                await self._take_event(room, opened)
                waiting.remove(one)
                await self._store_waiting()

    # ── invitations ────────────────────────────────────────────────────────────────────────────

    async def _consider(self, room_id: str, invited: InvitedRoom) -> None:
        """Joining is a right, as talking is."""
        events = read_events(invited.invite_state.events)
        ours = [event for event in events if event.state_key == self._own_id]
        invitation = next((event for event in ours if event.membership == "invite"), None)
        if invitation is None:
            return
        aliases = {text_in(event.content, "alias") or "" for event in events}
        if not await self._may_join(room_id, invitation, aliases):
            self._host.troubled(
                f"{invitation.sender} has invited us to {room_id} and may not; the invitation waits"
            )
            return
        try:
            await self._client.join(room_id)
        except MatrixRefusal as refusal:
            if refusal.status == 429 or refusal.status >= 500:
                raise  # the same sync is read again
            self._host.troubled(f"{room_id} could not be joined: {refusal}")

    async def _may_join(self, room_id: str, invitation: MatrixEvent, aliases: set[str]) -> bool:
        settings = self._settings
        if settings.auto_join == "off":
            return False
        listed = set(settings.auto_join_allowlist)
        if room_id in listed or await self._is_named(room_id, aliases & listed):
            return True
        direct = invitation.content.get("is_direct") is True and room_id not in settings.groups
        asked = Inbound(
            address=Address("matrix", room_id, self._host.account_id),
            sender=invitation.sender,
            text="",
            message_id=f"invitation to {room_id}",
            chat_type="direct" if direct else "channel",
            chat_id=None if direct else room_id,
        )
        if await self._host.may_talk(asked):
            return True
        # A stranger has to be answered to be asked for a code.
        return direct and settings.auto_join == "always" and settings.dm_policy == "pairing"

    async def _is_named(self, room_id: str, aliases: set[str]) -> bool:
        """Whether one of them really is the room's: whoever invites can write any alias into the invitation."""
        for alias in sorted(aliases):
            try:
                if await self._client.find_alias(alias) == room_id:
                    return True
            except MatrixRefusal as refusal:
                if refusal.status == 429 or refusal.status >= 500:
                    raise  # the same sync is read again
        return False


def _start_of(events: list[MatrixEvent], own_id: str) -> int:
    """Where our time in the room begins: at our invitation, or where we joined without one. What was said between the
    invitation and our joining was said to us."""
    start = 0
    for at, event in enumerate(events):
        if event.type == "m.room.member" and event.state_key == own_id:
            joins = event.membership == "join" and event.membership_before not in ("join", "invite")
            if event.membership == "invite" or joins:
                start = at + 1
    return start
