"""Invitations: joining is a right, as talking is. One that is not followed is kept, and followed when whoever invited
may talk later."""

from collections import Counter

import msgspec

from crossclaw.channels.contract import InvitedHost
from crossclaw.channels.matrix.client import MatrixClient, MatrixRefusal
from crossclaw.channels.matrix.events import InvitedRoom, SyncedRooms, read_events, text_in
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.addresses import Address, Inbound

KEPT_MAX = 100  # anybody may invite us; whoever has invited most loses one
ALIASES_MAX = 5  # of a room: whoever invites writes them


class RoomInvitation(msgspec.Struct, frozen=True):
    room_id: str
    sender: str
    is_direct: bool
    aliases: tuple[str, ...] = ()


class Invitations:
    def __init__(
        self, client: MatrixClient, host: InvitedHost, settings: MatrixSettings, own_id: str
    ) -> None:
        self._client, self._host, self._settings = client, host, settings
        self._own_id = own_id
        self._kept: list[RoomInvitation] | None = None

    async def take(self, rooms: SyncedRooms) -> None:
        """Follows invitations of a sync, then those that wait since before: a sync comes at least twice a minute."""
        first = self._kept is None
        kept = await self._load()
        over = {each for each in kept if each.room_id in rooms.join or each.room_id in rooms.leave}
        await self._forget(over)
        for room_id, invited in rooms.invite.items():
            if (invitation := self._read(room_id, invited)) is not None:
                await self._consider(invitation)
        await self._look_again(set(rooms.invite), looks_up=first)

    def _read(self, room_id: str, invited: InvitedRoom) -> RoomInvitation | None:
        events = read_events(invited.invite_state.events)
        ours = [event for event in events if event.state_key == self._own_id]
        invites = [event for event in ours if event.membership == "invite"]
        if not invites or len({event.sender for event in invites}) > 1:
            return None  # beside the invitation itself, whoever invites can write more of them, in others' names
        invitation = invites[-1]
        aliases = {text_in(event.content, "alias") or "" for event in events} - {""}
        direct = invitation.content.get("is_direct") is True
        few = tuple(each for each in sorted(aliases) if len(each) < 256)[:ALIASES_MAX]
        return RoomInvitation(room_id, invitation.sender, direct, few)

    async def _consider(self, invitation: RoomInvitation) -> None:
        await self._forget({each for each in await self._load() if each.room_id == invitation.room_id})  # fmt: skip
        if await self._may_join(invitation):
            await self._join(invitation)
            return
        self._host.troubled(
            f"{invitation.sender} has invited us to {invitation.room_id} and may not; the invitation waits"
        )
        await self._keep(invitation)

    async def _look_again(self, just_seen: set[str], *, looks_up: bool) -> None:
        """Checks waiting invitations again: whoever invited may have been approved meanwhile. Rooms that the
        config names need a new start to be named, and only then are aliases looked up."""
        for each in list(await self._load()):
            if each.room_id in just_seen:
                continue
            may = self._may_join(each) if looks_up else self._may_talk(each)
            if await may:
                await self._join(each)
                await self._forget({each})

    async def _join(self, invitation: RoomInvitation) -> None:
        try:
            await self._client.join(invitation.room_id)
        except MatrixRefusal as refusal:
            if refusal.status == 429 or refusal.status >= 500:
                raise  # the same sync is read again
            self._host.troubled(f"{invitation.room_id} could not be joined: {refusal}")

    async def _may_join(self, invitation: RoomInvitation) -> bool:
        settings, room_id = self._settings, invitation.room_id
        if settings.auto_join == "off":
            return False
        listed = set(settings.auto_join_allowlist)
        if room_id in listed or await self._is_named(room_id, listed & set(invitation.aliases)):
            return True
        if await self._may_talk(invitation):
            return True
        # A stranger has to be answered to be asked for a code.
        asks = settings.auto_join == "always" and settings.dm_policy == "pairing"
        return asks and self._is_direct(invitation)

    async def _may_talk(self, invitation: RoomInvitation) -> bool:
        if self._settings.auto_join == "off":
            return False
        direct, room_id = self._is_direct(invitation), invitation.room_id
        return await self._host.may_talk(
            Inbound(
                address=Address("matrix", room_id, self._host.account_id),
                sender=invitation.sender,
                text="",
                message_id=f"invitation to {room_id}",
                chat_type="direct" if direct else "channel",
                chat_id=None if direct else room_id,
            )
        )

    def _is_direct(self, invitation: RoomInvitation) -> bool:
        return invitation.is_direct and invitation.room_id not in self._settings.groups

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

    # ── those that wait ────────────────────────────────────────────────────────────────────────

    async def _keep(self, invitation: RoomInvitation) -> None:
        kept = await self._load()
        kept.append(invitation)
        if len(kept) > KEPT_MAX:
            most = Counter(each.sender for each in kept).most_common(1)[0][0]
            kept.remove(next(each for each in kept if each.sender == most))
        await self._store(kept)

    async def _forget(self, over: set[RoomInvitation]) -> None:
        """Forgets invitations that were followed, withdrawn, or made anew."""
        if over:
            self._kept = [each for each in await self._load() if each not in over]
            await self._store(self._kept)

    async def _load(self) -> list[RoomInvitation]:
        if self._kept is None:
            stored = await self._host.load_cursor(self._name)
            self._kept = msgspec.json.decode(stored or "[]", type=list[RoomInvitation])
        return self._kept

    async def _store(self, kept: list[RoomInvitation]) -> None:
        await self._host.save_cursor(self._name, msgspec.json.encode(kept).decode())

    @property
    def _name(self) -> str:
        return f"invitations {self._own_id}"
