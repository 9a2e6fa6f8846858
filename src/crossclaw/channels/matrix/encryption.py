"""End-to-end encryption of rooms, by the machine of matrix-nio (vodozemac inside).

It makes no calls itself: our client does, so that a message is acknowledged after it was accepted and a send
says at which point it failed. What the machine learns of one sync is one transaction of its store.

A room's sending key is new after each start and whenever the devices in the room change; it is never stored.
Devices are trusted at first sight, unless `trustedDevices` lists those of a person, and a device whose key
changes is not trusted again. Which messages were read is remembered, so that a homeserver cannot replay one
under another id, also after a restart. See docs/decisions for why.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
import nio.crypto
import nio.responses
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment
from nio.events.room_events import MegolmEvent
from nio.events.to_device import ToDeviceEvent
from nio.exceptions import EncryptionError

from crossclaw.channels.matrix.client import MatrixClient
from crossclaw.channels.matrix.events import (
    EventContent,
    MatrixEvent,
    SyncAnswer,
    content_in,
    text_in,
)
from crossclaw.channels.matrix.key_file import KeyFile
from crossclaw.domain.errors import ChannelDown, MediaRefused

log = logging.getLogger(__name__)

T = TypeVar("T")

ENCRYPTED = "m.room.encrypted"
_COUNTED = "signed_curve25519"


READ_MAX = 200_000  # messages that are remembered: some 30 MB; older ones could be brought again
AGAIN_MS = 6 * 86_400_000
"""The time for which the same event may come again, because the gateway ended before it was accepted. The
ledger knows an accepted one for a day longer."""


class Undecrypted(Exception):
    """The key for an event is not here, or it is not its sender's. `for_good`: no key will change that."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class KeyHost(Protocol):
    """The part of an account's host that its keys need."""

    async def private_folder(self) -> Path: ...

    async def load_cursor(self, name: str) -> str | None: ...

    async def save_cursor(self, name: str, value: str) -> None: ...

    def now_ms(self) -> int: ...


class KeyVault:
    """The keys of one device. Work is serialised: the machine is not made for two at once."""

    def __init__(
        self,
        client: MatrixClient,
        host: KeyHost,
        user_id: str,
        device_id: str,
        trusted: Mapping[str, Iterable[str]],
    ) -> None:
        self._client, self._host = client, host
        self._trusted = {
            user.lower(): {_key(each) for each in keys} for user, keys in trusted.items()
        }
        """The trusted keys of people whose devices are not trusted at first sight. Ids are in small letters,
        as allow lists are compared; a homeserver could write an id otherwise."""
        self._user_id, self._device_id = user_id, device_id
        self._turn = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)
        self._numbers = 0
        self._olm: Any = None
        self._file: KeyFile | None = None
        """The open key file; None: it is closed."""
        self._looked_up: set[str] = set()
        """People whose devices were asked for since the last sync: anybody can send what would have us ask again."""

    async def open(self, before_use: Callable[[], Awaitable[None]] | None = None) -> None:
        """Opens the keys. Refuses those that are not the device's, or not its latest: AccountBroken says what
        would work. `before_use` may still refuse the account before new keys are published."""
        self._file = KeyFile(await self._host.private_folder(), self._user_id, self._device_id)
        uploaded, cursor = await self._find_uploaded(), f"keys {self._user_id} {self._device_id}"
        mark, file = await self._host.load_cursor(cursor), self._file

        def load() -> tuple[str, Any]:
            made = file.open(uploaded, mark)
            return made, nio.crypto.Olm(self._user_id, self._device_id, file.store)

        made, self._olm = await anyio.to_thread.run_sync(load, limiter=self._thread)
        await self._host.save_cursor(cursor, made)
        self._olm.message_index_ok = self._is_first_time  # its own forgets with the process
        if uploaded is None:  # the homeserver has forgotten the device, or never knew it
            self._olm.account.shared = False
        if before_use is not None:
            await before_use()
        async with self._turn:
            await self._upload_keys()

    async def close(self) -> None:
        """Closes the keys after what is being stored now; another process may open them then."""
        file, self._file = self._file, None
        if file is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(file.close, limiter=self._thread)

    async def _find_uploaded(self) -> str | None:
        """Our device's key as the homeserver has it."""
        asked = {"device_keys": {self._user_id: [self._device_id]}}
        found = content_in(await self._client.post_keys("query", asked), "device_keys")
        device = content_in(content_in(found, self._user_id), self._device_id)
        return text_in(content_in(device, "keys"), f"ed25519:{self._device_id}")

    async def _do(self, work: Callable[[], T]) -> T:
        """Does work in a thread, with all that it stores in one transaction."""

        def in_one_transaction() -> T:
            if self._file is None:
                raise ChannelDown("the account is not connected, and its keys are closed")
            with self._olm.store.database.atomic():
                return work()

        return await anyio.to_thread.run_sync(in_one_transaction, limiter=self._thread)

    # ── what comes ─────────────────────────────────────────────────────────────────────────────

    async def take(self, answer: SyncAnswer) -> None:
        """Takes the keys and changes in a sync, before its events are read."""
        async with self._turn:
            self._looked_up.clear()
            await self._do(lambda: self._take(answer))
            await self._upload_keys()
            await self._query_keys(())
            await self._answer_devices()

    def _take(self, answer: SyncAnswer) -> None:
        olm = self._olm
        count = answer.device_one_time_keys_count.get(_COUNTED)
        if count is not None:
            olm.uploaded_key_count = count
        olm.add_changed_users(set(answer.device_lists.changed) & olm.tracked_users)
        for raw in answer.to_device.events:
            try:
                event = ToDeviceEvent.parse_event(msgspec.json.decode(raw))
                olm.handle_to_device_event(event)
            except Exception as error:  # noqa: BLE001 - anybody may send to a device; one bad event is not all
                log.warning("an event for this device is left out: %s", type(error).__name__)
        olm.received_key_requests.clear()  # keys are given to whoever is in the room when it speaks, not later

    async def decrypt(self, room_id: str, event: MatrixEvent) -> MatrixEvent:
        async with self._turn:
            sender_key = event.content.get("sender_key")
            known = self._is_device_of(event.sender, sender_key)
            if not known and event.sender not in self._looked_up:
                self._looked_up.add(event.sender)
                self._olm.users_for_key_query.add(event.sender)
                await self._query_keys(())
            if not self._is_device_of(event.sender, sender_key):
                raise Undecrypted("it is encrypted by a device that is not its sender's")
            return await self._do(lambda: self._decrypt(room_id, event))

    def _is_first_time(self, number: int, event: MegolmEvent) -> bool:
        """Whether a message, by its number in its sender's session, was not read before as another event."""
        db, session = self._olm.store.database, f"{event.sender_key} {event.session_id}"
        known = "SELECT event_id, at FROM crossclaw_read WHERE session = ? AND number = ?"
        row = db.execute_sql(known, (session, number)).fetchone()
        if row is not None:
            return bool(row[0] == event.event_id and self._host.now_ms() - row[1] < AGAIN_MS)
        values = (session, number, event.event_id, self._host.now_ms())
        made = db.execute_sql("INSERT INTO crossclaw_read VALUES (?,?,?,?)", values).lastrowid
        db.execute_sql("DELETE FROM crossclaw_read WHERE rowid <= ?", (made - READ_MAX,))
        return True

    def _is_device_of(self, user_id: str, sender_key: object) -> bool:
        return any(device.curve25519 == sender_key for device in self._devices_of(user_id))

    def _devices_of(self, user_id: str) -> list[Any]:
        """The person's devices that are trusted and written to."""
        devices = self._olm.device_store.active_user_devices(user_id)
        keys = self._trusted.get(user_id.lower())
        return [each for each in devices if keys is None or each.ed25519 in keys]

    def _withhold(self, users: Iterable[str]) -> None:
        """Withholds keys from the devices that are not trusted."""
        olm = self._olm
        for user in users:
            believed = {device.id for device in self._devices_of(user)}
            for device in list(olm.device_store.active_user_devices(user)):
                if (device.id in believed) == olm.is_device_blacklisted(device):
                    change = olm.unblacklist_device if device.id in believed else olm.blacklist_device  # fmt: skip
                    change(device)

    def _decrypt(self, room_id: str, event: MatrixEvent) -> MatrixEvent:
        parsed = MegolmEvent.from_dict({**msgspec.to_builtins(event), "room_id": room_id})
        if not isinstance(parsed, MegolmEvent):
            raise Undecrypted(
                "it is not encrypted with Megolm, as messages in rooms are", for_good=True
            )
        session = self._olm.inbound_group_store.get(room_id, parsed.sender_key, parsed.session_id)
        try:
            source = self._olm.decrypt_megolm_event(parsed, room_id).source
        except EncryptionError as error:
            raise Undecrypted(str(error)) from None
        except Exception as error:  # noqa: BLE001 - its sender wrote what is inside, and the machine trusts it to be JSON
            words = f"what is inside cannot be read ({type(error).__name__})"
            raise Undecrypted(words, for_good=True) from None
        devices = self._devices_of(event.sender)
        if not any(device.ed25519 == session.ed25519 for device in devices):
            raise Undecrypted("its key came from a device that is not its sender's")
        return msgspec.structs.replace(
            event, type=str(source.get("type")), content=content_in(source, "content")
        )

    # ── what goes ──────────────────────────────────────────────────────────────────────────────

    async def encrypt(
        self, room_id: str, members: Iterable[str], kind: str, content: EventContent
    ) -> EventContent:
        """Encrypts an event for all devices of the members. What it refers to stays readable: servers count by it."""
        users = sorted(set(members))
        async with self._turn:
            await self._query_keys(users)
            await self._share_key(room_id, users)
            made: EventContent = await self._do(
                lambda: self._olm.group_encrypt(room_id, {"type": kind, "content": content})
            )
        if relation := content.get("m.relates_to"):
            made["m.relates_to"] = relation
        return made

    async def _share_key(self, room_id: str, users: list[str]) -> None:
        """Shares a key for each group of devices: whoever left cannot read on, and whoever came reads from now on."""
        olm = self._olm
        devices = {
            (device.user_id, device.id, device.curve25519)
            for user in users
            for device in self._devices_of(user)
        }
        session = olm.outbound_group_sessions.get(room_id)
        may_go_on = session is not None and session.shared and not session.expired
        if may_go_on and session.devices == devices:
            return
        olm.outbound_group_sessions.pop(room_id, None)
        await self._claim_keys(olm.get_missing_sessions(users))

        def share() -> list[Any]:
            self._withhold(users)
            return list(
                olm.share_group_session_parallel(room_id, users, ignore_unverified_devices=True)
            )

        shares = await self._do(share)
        for _, messages in shares:
            await self._send_to_devices(ENCRYPTED, messages)
        session = olm.outbound_group_sessions[room_id]
        session.devices = devices
        session.mark_as_shared()

    # ── the calls that the machine asks for ────────────────────────────────────────────────────

    async def _upload_keys(self) -> None:
        olm = self._olm
        if not olm.should_upload_keys:
            return

        def make() -> EventContent:
            made: EventContent = olm.share_keys()
            olm.save_account()  # before others use them: a crash must not leave them without their secret half
            return made

        answer = await self._client.post_keys("upload", await self._do(make))
        counts = {"curve25519": 0, _COUNTED: 0} | content_in(answer, "one_time_key_counts")
        response = nio.responses.KeysUploadResponse.from_dict({"one_time_key_counts": counts})
        await self._do(lambda: olm.handle_response(response))

    async def _query_keys(self, users: Iterable[str]) -> None:
        olm = self._olm
        olm.users_for_key_query.update(set(users) - olm.tracked_users)
        if not olm.users_for_key_query:
            return
        asked = {user: [] for user in olm.users_for_key_query}  # type: dict[str, list[str]]
        answer = await self._client.post_keys("query", {"device_keys": asked})
        response = nio.responses.KeysQueryResponse.from_dict(answer)
        if not isinstance(response, nio.responses.KeysQueryResponse):
            raise Undecrypted("the homeserver's list of devices cannot be read")
        await self._do(lambda: olm.handle_response(response))
        olm.users_for_key_query.clear()  # whom the homeserver did not name has no devices

    async def _claim_keys(self, missing: dict[str, list[str]]) -> None:
        if not missing:
            return
        asked = {user: dict.fromkeys(devices, _COUNTED) for user, devices in missing.items()}
        answer = await self._client.post_keys("claim", {"one_time_keys": asked})
        response = nio.responses.KeysClaimResponse.from_dict(answer)
        if isinstance(response, nio.responses.KeysClaimResponse):
            await self._do(lambda: self._olm.handle_response(response))

    async def _answer_devices(self) -> None:
        """Begins sessions anew that went out of step, and asks for lost keys."""
        olm = self._olm
        if olm.wedged_devices:
            await self._claim_keys(olm.get_users_for_key_claiming())
        for message in list(olm.outgoing_to_device_messages):
            await self._send_to_devices(message.type, message.as_dict())
            sent = nio.responses.ToDeviceResponse(message)
            await self._do(lambda: olm.handle_response(sent))  # noqa: B023 - done before the next

    async def _send_to_devices(self, kind: str, messages: EventContent) -> None:
        self._numbers += 1
        key = f"{id(self)}-{anyio.current_time()}-{self._numbers}"
        await self._client.send_to_devices(kind, key, messages)


def _key(written: str) -> str:
    """The key without the spaces with which clients show it to people."""
    return "".join(written.split())


def open_file(data: bytes, secret: EventContent) -> bytes:
    """A file of an encrypted room, checked by its hash."""
    try:
        opened: bytes = decrypt_attachment(
            data, secret["key"]["k"], secret["hashes"]["sha256"], secret["iv"]
        )
    except (EncryptionError, KeyError, TypeError, ValueError):
        raise MediaRefused(
            "the file cannot be decrypted: the key or the hash in its message is wrong"
        ) from None
    return opened


def close_file(data: bytes) -> tuple[bytes, EventContent]:
    made: tuple[bytes, EventContent] = encrypt_attachment(data)
    return made
