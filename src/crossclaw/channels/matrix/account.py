"""One Matrix account: logs in, follows the homeserver's syncs, sends by transaction id."""

import hashlib
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.contract import (
    AccountFacts,
    ChannelAccount,
    ChannelHost,
    InvitedHost,
    Piece,
)
from crossclaw.channels.matrix.client import MatrixClient, MatrixRefusal
from crossclaw.channels.matrix.events import EventContent, SyncAnswer, text_in
from crossclaw.channels.matrix.manifest import read_target
from crossclaw.channels.matrix.meaning import of_account, of_delivery
from crossclaw.channels.matrix.reading import MatrixSelf
from crossclaw.channels.matrix.rooms import KnownRooms, MatrixRoom
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.channels.matrix.syncing import SyncReader
from crossclaw.channels.matrix.writing import write_edit, write_file, write_relation, write_words
from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    MediaRefused,
    PlatformUnreachable,
)
from crossclaw.domain.newest import keep_newest

if TYPE_CHECKING:
    from crossclaw.channels.matrix.encryption import KeyVault


TYPING_S = 30.0
HEARD_EVERY_MS = 3_600_000  # what was heard since is known again by the ledger
SKEW_MS = 600_000  # between the clocks of gateways and homeservers
REACTIONS_MAX = 500  # remembered, to be taken back
IN_CLEAR = (
    "the room is encrypted, and this account is not set up for that (channels.matrix.encryption); "
    "nothing is sent there in clear"
)


def open_account(settings: MatrixSettings, host: InvitedHost) -> "MatrixAccount":
    return MatrixAccount(settings, host)


class LastHeard(msgspec.Struct, frozen=True):
    """The device of the account that made the last sync, and when."""

    device: str
    at_ms: int


class MatrixAccount(ChannelAccount):
    def __init__(self, settings: MatrixSettings, host: InvitedHost) -> None:
        self._settings, self._host = settings, host
        token = settings.access_token.reveal() if settings.access_token else ""
        self._client = MatrixClient(host.http.open(settings.homeserver or ""), token)
        self._user_id = self._device_id = ""
        self._rooms: KnownRooms | None = None
        self._vault: KeyVault | None = None
        self._syncs: SyncReader | None = None
        self._reactions: dict[tuple[str, str, str], str] = {}
        self._heard: LastHeard | None = None
        """The last sync by this device, as it is stored."""

    # ── what comes ─────────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            facts = await self._log_in()
            connect = partial(host.connected, facts)
            # Before there are rooms: without it encrypted ones would be refused for good, instead of waited with.
            self._vault = await self._open_vault(connect) if self._settings.encryption else None
            if self._vault is None:
                await connect()
            self._begin(facts.name)
            name = f"sync {self._user_id} {self._device_id}"
            since = await host.load_cursor(name)
            if since is None:
                since = await self._first(name)
            await self._leave_out_what_others_heard()
            task_status.started()
            while True:
                answer = await self._sync(since)
                if answer is None:
                    since = await self._first(name)
                    continue
                host.heard()
                await self._take(answer, since)
                if answer.next_batch != since:
                    await host.save_cursor(name, answer.next_batch)
                since = answer.next_batch
                await self._keep_heard()
        except MatrixRefusal as refusal:
            raise of_account(refusal, may_log_in=self._logs_in) from refusal
        finally:
            if self._vault is not None:  # it stays, closed: nothing is ever sent in clear instead
                await self._vault.close()

    @property
    def _logs_in(self) -> bool:
        return self._settings.access_token is None

    async def _log_in(self) -> AccountFacts:
        """Logs in; returns who we are. The device is kept: transaction ids and keys belong to it."""
        settings = self._settings
        if self._logs_in:
            user_id = settings.user_id or ""
            password = settings.password.reveal() if settings.password else ""
            device = await self._host.load_cursor(f"device {user_id}")
            self._device_id = await self._client.login(
                user_id, password, device, settings.device_name
            )
            if self._device_id != device:
                await self._host.save_cursor(f"device {user_id}", self._device_id)
        who = await self._client.whoami()
        self._user_id = text_in(who, "user_id") or ""
        self._device_id = text_in(who, "device_id") or self._device_id
        name = await self._client.display_name(self._user_id)
        device = self._device_id
        return AccountFacts(id=self._user_id, name=name, detail=f"device {device}", device=device)

    def _begin(self, name: str | None) -> None:
        settings = self._settings
        self._rooms = KnownRooms(self._client, self._host, settings.groups, self._user_id)
        us = MatrixSelf(self._user_id, name)
        self._syncs = SyncReader(self._client, self._host, settings, self._rooms, self._vault, us)

    async def _open_vault(self, connect: Callable[[], Awaitable[None]]) -> "KeyVault":
        """Opens the keys. `connect` is called once they are there: a gateway without them was not connected,
        cannot have sent, and leaves the account to others."""
        if not self._device_id:
            raise AccountBroken(
                "end-to-end encryption needs a device, and this access token has none: "
                "log in by userId and password instead"
            )
        try:
            # Loaded only here: it brings a whole HTTP stack with it.
            from crossclaw.channels.matrix.encryption import KeyVault  # noqa: PLC0415
        except ImportError as error:
            raise AccountBroken(
                f"end-to-end encryption needs the Python package {error.name}, which is not installed: "
                f"{how_to_install_there('channels')}"
            ) from error
        us, trusted = (self._user_id, self._device_id), self._settings.trusted_devices
        vault = KeyVault(self._client, self._host, *us, trusted)
        try:
            await vault.open(connect)
        except BaseException:
            await vault.close()
            raise
        return vault

    async def _leave_out_what_others_heard(self) -> None:
        """Skips messages that another device of the account has already received. An account may become
        another device, by another access token, and the first one again, which continues where it was last:
        weeks ago, perhaps, and the ledger recognises messages for a week only."""
        assert self._syncs is not None
        stored = await self._host.load_cursor(f"heard {self._user_id}")
        last = msgspec.json.decode(stored, type=LastHeard) if stored else None
        is_other = last is not None and last.device != self._device_id
        self._syncs.skip_until(last.at_ms - SKEW_MS if last and is_other else 0)
        self._heard = None if is_other else last

    async def _keep_heard(self) -> None:
        """Notes after each sync which device made it; stored now and then."""
        assert self._syncs is not None
        self._syncs.skip_until(0)
        now_ms = self._host.now_ms()
        if self._heard is None or now_ms - self._heard.at_ms >= HEARD_EVERY_MS:
            self._heard = LastHeard(self._device_id, now_ms)
            stored = msgspec.json.encode(self._heard).decode()
            await self._host.save_cursor(f"heard {self._user_id}", stored)

    async def _first(self, name: str) -> str:
        """The first sync of an account: messages from before it are not answered."""
        answer = await self._client.sync(None)
        await self._take(answer, None)
        await self._host.save_cursor(name, answer.next_batch)
        return answer.next_batch

    async def _sync(self, since: str) -> SyncAnswer | None:
        """Syncs from this point; None: the homeserver does not know it any more."""
        try:
            return await self._client.sync(since)
        except MatrixRefusal as refusal:
            if refusal.status != 400:
                raise
            self._host.troubled(
                f"the homeserver does not know our place any more ({refusal}); messages that came "
                "while we were away are not answered"
            )
            return None

    async def _take(self, answer: SyncAnswer, since: str | None) -> None:
        assert self._syncs is not None
        if self._vault is not None:
            await self._vault.take(answer)
        await self._syncs.take(answer, since)

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        if self._syncs is None:
            raise MediaRefused("the account is not connected")
        data = await self._client.download(what.id, limit)
        secret = self._syncs.secrets.get(what.id)
        if secret is None:
            return data
        from crossclaw.channels.matrix.encryption import open_file  # noqa: PLC0415  loaded by now

        return open_file(data, secret)

    # ── what goes ──────────────────────────────────────────────────────────────────────────────

    def knows_key_for_s(self) -> float:
        return math.inf

    async def probe(self) -> AccountFacts:
        try:
            return await self._log_in()
        except MatrixRefusal as refusal:
            raise of_account(refusal, may_log_in=False) from refusal

    async def send(self, piece: Piece) -> str | None:
        try:
            room = await self._room_of(piece.address)
            content = await self._content(room, piece)
            key = hashlib.sha256(piece.delivery_key.encode()).hexdigest()
            return await self._put(room, "m.room.message", key, content)
        except ChannelDown as error:  # before the message itself was on its way
            raise PlatformUnreachable(str(error)) from error
        except MatrixRefusal as refusal:
            raise of_delivery(refusal) from refusal

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        content = write_edit(platform_id, write_words(piece))
        key = hashlib.sha256(f"{platform_id} {piece.delivery_key} {piece.text}".encode())
        try:
            room = await self._room_of(where)
            await self._put(room, "m.room.message", key.hexdigest(), content)
        except ChannelDown as error:  # before the change itself was on its way
            raise PlatformUnreachable(str(error)) from error
        except MatrixRefusal as refusal:
            raise of_delivery(refusal) from refusal

    async def show_typing(self, where: Address) -> None:
        room = await self._room_of(where)
        await self._client.show_typing(room.room_id, self._user_id, TYPING_S)

    async def stop_typing(self, where: Address) -> None:
        room = await self._room_of(where)
        await self._client.show_typing(room.room_id, self._user_id, 0.0)

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        room = await self._room_of(where)
        which = (room.room_id, message_id, emoji)
        if not on:
            if event_id := self._reactions.pop(which, None):
                await self._client.redact(room.room_id, event_id)
            return
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        key = hashlib.sha256("\x1f".join(which).encode()).hexdigest()
        made = await self._client.send(room.room_id, "m.reaction", key, {"m.relates_to": relation})
        keep_newest(self._reactions, which, made, REACTIONS_MAX)

    async def _content(self, room: MatrixRoom, piece: Piece) -> EventContent:
        content = write_words(piece)
        if piece.media is not None:
            data, where = piece.media.data, dict[str, object]()
            if room.kept.encrypted and self._vault is not None:
                from crossclaw.channels.matrix.encryption import close_file  # noqa: PLC0415

                data, secret = close_file(data)
                uri = await self._client.upload(data, "application/octet-stream", "file")
                where = {"file": {**secret, "url": uri}}
            else:
                self._refuse_in_clear(room)
                uri = await self._client.upload(data, piece.media.mime, piece.media.name)
                where = {"url": uri}
            content = write_file(piece.media, where, piece.text)
        relation = write_relation(
            piece.address.thread_id, piece.reply_to, self._settings.thread_replies
        )
        return content | ({"m.relates_to": relation} if relation else {})

    async def _put(self, room: MatrixRoom, kind: str, key: str, content: EventContent) -> str:
        if not room.kept.encrypted:
            return await self._client.send(room.room_id, kind, key, content)
        self._refuse_in_clear(room)
        assert self._vault is not None
        closed = await self._vault.encrypt(room.room_id, room.members, kind, content)
        return await self._client.send(room.room_id, "m.room.encrypted", key, closed)

    def _refuse_in_clear(self, room: MatrixRoom) -> None:
        if room.kept.encrypted and self._vault is None:
            raise DeliveryError(IN_CLEAR)

    # ── where ──────────────────────────────────────────────────────────────────────────────────

    async def _room_of(self, where: Address) -> MatrixRoom:
        if self._rooms is None:
            raise PlatformUnreachable("the account is not connected yet")
        target = read_target(where.to)
        if target is None:
            raise DeliveryError(f"{where.to!r} is no Matrix room, alias or user")
        if target.to.startswith("@"):
            return await self._rooms.get(await self._direct_room(target.to))
        if target.to.startswith("#"):
            found = await self._client.find_alias(target.to)
            if found is None:
                raise DeliveryError(f"there is no room {target.to}", chat_gone=True)
            return await self._rooms.get(found)
        return await self._rooms.get(target.to)

    async def _direct_room(self, user_id: str) -> str:
        """The room that we have with somebody; made if there is none."""
        assert self._rooms is not None
        direct = await self._client.find_account_data(self._user_id, "m.direct") or {}
        listed = direct.get(user_id)
        rooms = (
            [room for room in listed if isinstance(room, str)] if isinstance(listed, list) else []
        )
        for room_id in reversed(rooms):
            if await self._is_with(room_id, user_id):
                return room_id
        made = await self._client.create_direct(user_id, encrypted=self._vault is not None)
        await self._client.put_account_data(
            self._user_id, "m.direct", {**direct, user_id: [*rooms, made]}
        )
        return made

    async def _is_with(self, room_id: str, user_id: str) -> bool:
        assert self._rooms is not None
        try:
            room = await self._rooms.get(room_id)
        except MatrixRefusal as refusal:
            if refusal.status in (403, 404):
                return False
            raise
        return room.is_direct and user_id in room.members
