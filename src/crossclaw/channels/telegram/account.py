"""One Telegram bot: asks for updates or is called with them, sends pieces, types, reacts, edits."""

import hmac
import logging
from functools import partial
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from crossclaw.channels.contract import (
    AccountFacts,
    ChannelAccount,
    ChannelHost,
    Piece,
    WebhookAnswer,
    WebhookRequest,
)
from crossclaw.channels.http import HttpClients
from crossclaw.channels.telegram.albums import HeldAlbums
from crossclaw.channels.telegram.beginning import FirstStart
from crossclaw.channels.telegram.client import (
    UPDATES_MAX,
    BotCallRefused,
    TelegramClient,
    delivery_error,
)
from crossclaw.channels.telegram.manifest import read_target
from crossclaw.channels.telegram.moves import MovedChats
from crossclaw.channels.telegram.reading import (
    GENERAL,
    ChatMoved,
    Read,
    ReadingBot,
    Skipped,
    join_albums,
    read_update,
)
from crossclaw.channels.telegram.settings import WEBHOOK_SECRET, TelegramSettings
from crossclaw.channels.telegram.updates import TelegramUpdate, UpdateNumber
from crossclaw.channels.tokens import read_token_file
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    CrossclawError,
    DeliveryError,
)
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

CURSOR_KEPT_MS = 6 * 86_400_000
"""The age at which an offset is dropped. After a week without updates Telegram numbers them anew, from
anywhere; what an older offset would confirm may be new messages. Telegram keeps updates for a day, so without
an offset nothing old comes again."""
API_URL = "https://api.telegram.org"
TIMEOUT_S = 30.0
EMPTY_S = 1.0
ALBUM_S, ALBUM_LOOKS_MAX = 0.7, 10  # an album has at most ten parts
SAVE_S = 2.0  # for the offset, when the gateway is closing
PHOTO_BYTES_MAX = 10 * 2**20
_AS_PHOTO = frozenset({"image/jpeg", "image/png", "image/webp"})


class TelegramCursor(msgspec.Struct, frozen=True):
    offset: int
    at: int


async def open_account(settings: TelegramSettings, host: ChannelHost) -> "TelegramAccount":
    token = await _read_token(settings)
    http = host.http.open(
        settings.api_url or API_URL,
        timeout_s=settings.timeout_seconds or TIMEOUT_S,
        proxy=settings.proxy,
    )
    return TelegramAccount(settings, host, TelegramClient(http, token), token)


async def identify(settings: TelegramSettings, http: HttpClients) -> AccountFacts:
    """The bot that a token belongs to."""
    token = await _read_token(settings)
    me = await TelegramClient(http.open(settings.api_url or API_URL, proxy=settings.proxy), token).get_me()  # fmt: skip
    url = f"https://t.me/{me.username}" if me.username else None
    name = f"@{me.username}" if me.username else me.name
    return AccountFacts(id=str(me.id), name=name, open_url=url)


async def _read_token(settings: TelegramSettings) -> Secret:
    """The bot's token. A file that is named and not there means no token, not another one: two bots must not
    be mixed up."""
    text = settings.bot_token.reveal() if settings.bot_token else ""
    if settings.token_file:
        text = await anyio.to_thread.run_sync(read_token_file, settings.token_file)
    number, _, secret = text.strip().partition(":")
    if not (number.isdecimal() and secret):
        raise AccountBroken(
            "this is no bot token; it looks like 123456:ABC… and comes from @BotFather"
        )
    return Secret(text.strip())


class TelegramAccount(ChannelAccount):
    def __init__(
        self, settings: TelegramSettings, host: ChannelHost, client: TelegramClient, token: Secret
    ) -> None:
        self._settings = settings
        self._account_id = host.account_id
        self._moves = MovedChats(host)
        self._client = client
        self._bot_id = int(token.reveal().partition(":")[0])
        self._reader: ReadingBot | None = None
        self._host: ChannelHost | None = None
        self._albums: HeldAlbums | None = None
        self._first_start = FirstStart(host, self._bot_id)
        self._whole_at = 0
        """The number of the last update of the album that was last received, or was about to be."""
        self._receiving = anyio.Lock()
        """Serialises updates, also when Telegram calls us twice at once."""

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        facts = await self.probe()
        self._host = host
        if self._albums is None:  # one, so that calls under way and a new start share its lock
            receive, may_talk = partial(self._receive, host), partial(self._may_talk, host)
            self._albums = HeldAlbums(host, self._bot_id, receive, may_talk)
        await self._first_start.look(self._cursor_name)
        await host.connected(
            facts
        )  # before anything is changed or taken: another may be the same bot
        await self._first_start.keep()
        if self._settings.webhook_url:
            await self._client.set_webhook(self._settings.webhook_url, self._webhook_secret())
            task_status.started()
            await self._albums.serve()
        await self._client.delete_webhook()
        await self._albums.finish_all()
        task_status.started()
        await self._poll(host)

    async def probe(self) -> AccountFacts:
        me = await self._client.get_me()
        self._reader = ReadingBot(me.id, me.username, self._account_id)
        return AccountFacts(id=str(me.id), name=f"@{me.username}" if me.username else me.name)

    async def _poll(self, host: ChannelHost) -> None:
        cursor = await self._load_cursor(host)
        self._whole_at = int(await host.load_cursor(self._whole_name) or 0)
        while True:
            if cursor is not None and host.now_ms() - cursor.at > CURSOR_KEPT_MS:
                cursor = None
            asked_at = anyio.current_time()
            updates = await self._client.get_updates(cursor.offset if cursor else None)
            host.heard()
            if not updates and anyio.current_time() - asked_at < EMPTY_S:
                await anyio.sleep(
                    EMPTY_S
                )  # whoever does not hold the question must not be asked for ever
            updates = await self._whole_albums(updates, cursor.offset if cursor else None)
            cursor = await self._take_all(host, updates, cursor)

    async def _take_all(
        self, host: ChannelHost, updates: list[msgspec.Raw], cursor: TelegramCursor | None
    ) -> TelegramCursor | None:
        """Receives updates. The offset is stored once for all of them, also when one could not be received:
        behind the last one that was. What comes again nevertheless is recognised by its id."""
        before = cursor
        try:
            for number, read in join_albums(map(self._read_numbered, updates), self._whole_at):
                if cursor is not None and number < cursor.offset:
                    log.warning("telegram numbers its updates anew, from %s", number)
                if isinstance(read, Inbound) and read.group_of is not None:
                    # Known by the id of its first part from now on: what was added to it later would be passed over.
                    await host.save_cursor(self._whole_name, str(number))
                    self._whole_at = number
                await self._receive(host, read)
                cursor = TelegramCursor(number + 1, host.now_ms())
        finally:
            if cursor is not None and cursor is not before:
                with anyio.move_on_after(SAVE_S, shield=True):
                    await host.save_cursor(self._cursor_name, msgspec.json.encode(cursor).decode())
        return cursor

    async def _whole_albums(
        self, updates: list[msgspec.Raw], offset: int | None
    ) -> list[msgspec.Raw]:
        """The updates with all parts of their albums, whose pictures come one by one. As long as more come,
        the same is asked for again: nothing of it is confirmed yet, so nothing can be lost meanwhile."""
        for _ in range(ALBUM_LOOKS_MAX):
            if not updates or len(updates) >= UPDATES_MAX or not self._ends_in_album(updates):
                return updates
            await anyio.sleep(ALBUM_S)
            again = await self._client.get_updates(offset, wait_s=0)
            if len(again) <= len(updates):
                return updates
            updates = again
        return updates

    def _ends_in_album(self, updates: list[msgspec.Raw]) -> bool:
        _, read = self._read_numbered(updates[-1])
        return isinstance(read, Inbound) and read.group_of is not None

    def _read_numbered(self, raw: msgspec.Raw) -> tuple[int, Read]:
        try:
            number = msgspec.json.decode(raw, type=UpdateNumber).update_id
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ChannelDown(
                "Telegram sent an update without an update_id, so that it cannot be acknowledged"
            ) from None
        return number, self._read(raw)

    def _read(self, raw: msgspec.Raw | bytes) -> Read:
        assert self._reader is not None, "serve asks first who we are"
        try:
            return read_update(msgspec.json.decode(raw, type=TelegramUpdate), self._reader)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("a telegram update that cannot be read is passed over: %s", error)
            return Skipped("it cannot be read")

    async def _receive(self, host: ChannelHost, read: Read) -> None:
        match read:
            case Skipped(why=why):
                log.debug("a telegram update is passed over: %s", why)
            case ChatMoved(old=old, new=new):
                await self._moves.note(old, new)
            case _ if (read.at_ms or 0) < self._first_start.not_before_ms:
                log.info("a message from before the first start is not answered")
            case _:
                async with self._receiving:
                    await host.receive(await self._as_first_known(read))

    async def _may_talk(self, host: ChannelHost, inbound: Inbound) -> bool:
        return await host.may_talk(await self._as_first_known(inbound))

    async def _as_first_known(self, inbound: Inbound) -> Inbound:
        """The message under the first id of a group that moved; rules that name the new one hold as well."""
        if (old := await self._moves.first(inbound.chat_id or "")) is None:
            return inbound
        return msgspec.structs.replace(inbound, chat_id=old, parent_chat_id=inbound.chat_id)

    @property
    def _cursor_name(self) -> str:
        return f"updates of bot {self._bot_id}"

    @property
    def _whole_name(self) -> str:
        return f"last album of bot {self._bot_id}"

    async def _load_cursor(self, host: ChannelHost) -> TelegramCursor | None:
        text = await host.load_cursor(self._cursor_name)
        return msgspec.json.decode(text, type=TelegramCursor) if text else None

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._client.download(what.id, limit)

    # ── being called ───────────────────────────────────────────────────────────────────────────

    def _webhook_secret(self) -> Secret:
        secret = self._settings.webhook_secret
        if secret is None or not WEBHOOK_SECRET.fullmatch(secret.reveal()):
            raise AccountBroken(
                "webhookUrl needs a webhookSecret of 1 to 256 letters, digits, _ or -: without it anybody could "
                "speak as Telegram"
            )
        return secret

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        if not self._settings.webhook_url or self._host is None or self._albums is None:
            return WebhookAnswer(status=404)
        shown = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(shown.encode(), self._webhook_secret().reveal().encode()):
            return WebhookAnswer(status=401)
        self._host.heard()
        read = self._read(request.body)
        if isinstance(read, Inbound):
            await self._albums.take(read)
        else:
            await self._receive(self._host, read)
        return WebhookAnswer()

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        """Sends a piece. A group that has moved refuses, which shows nothing, and says where it is: it is
        sent there at once."""
        where = await self._where(piece.address)
        try:
            return await self._send(piece, where)
        except DeliveryError as error:
            if error.moved_to is None:
                raise
            await self._moves.note(str(where["chat_id"]), error.moved_to)
        return await self._send(piece, await self._where(piece.address))

    async def _send(self, piece: Piece, where: dict[str, Any]) -> str | None:
        if piece.reply_to is not None and piece.reply_to.isdecimal():
            where["reply_parameters"] = {
                "message_id": int(piece.reply_to),
                "allow_sending_without_reply": True,
            }
        if piece.media is not None:
            return _id_of(await self._send_media(piece, where))
        if not self._settings.link_preview:
            where["link_preview_options"] = {"is_disabled": True}
        return _id_of(await self._send_text("sendMessage", piece, where))

    async def _send_text(self, method: str, piece: Piece, where: dict[str, Any]) -> Any:
        """Sends a text; if it is refused as it is written, once more without marks: a refusal means that
        nothing was shown."""
        try:
            params = {**where, "text": piece.formatted, "parse_mode": "HTML"}
            return await self._client.send(method, params)
        except BotCallRefused as refused:
            if refused.refusal.is_not_modified:
                return None
        try:
            return await self._client.send(method, {**where, "text": piece.text})
        except BotCallRefused as refused:
            raise delivery_error(refused.refusal) from None

    async def _send_media(self, piece: Piece, where: dict[str, Any]) -> Any:
        media = piece.media
        assert media is not None
        is_photo = media.mime in _AS_PHOTO and len(media.data) <= PHOTO_BYTES_MAX
        field = {"image": "photo" if is_photo else "document", "video": "video"}.get(
            media.kind, "document"
        )
        if media.kind == "audio":
            field = "voice" if media.mime in ("audio/ogg", "audio/opus") else "audio"
        ways = [field, "document"] if field != "document" else ["document"]
        for way in ways:  # a picture that Telegram cannot process still goes as a file
            for caption in _captions(piece):
                try:
                    return await self._client.upload(
                        f"send{way.title()}", way, media, {**where, **caption}
                    )
                except BotCallRefused as error:
                    refused = error.refusal
        raise delivery_error(refused)

    async def _where(self, address: Address, *, typing: bool = False) -> dict[str, Any]:
        target = read_target(address.to)
        if target is None:
            raise DeliveryError(
                f"{address.to!r} is no Telegram chat: use its number, @name or t.me/name"
            )
        name = await self._moves.current(target.to)
        chat: int | str = name if name.startswith("@") else int(name)
        thread = address.thread_id or target.thread_id
        where: dict[str, Any] = {"chat_id": chat}
        if thread is not None and thread.isdecimal() and (typing or thread != GENERAL):
            where["message_thread_id"] = int(thread)
        return where

    async def show_typing(self, where: Address) -> None:
        params = {**await self._where(where, typing=True), "action": "typing"}
        await self._try("sendChatAction", params)

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        params: dict[str, Any] = {
            "chat_id": (await self._where(where))["chat_id"],
            "message_id": int(message_id.partition(":")[0]),
            "reaction": [{"type": "emoji", "emoji": emoji}] if on else [],
        }
        await self._try("setMessageReaction", params)

    async def _try(self, method: str, params: dict[str, Any]) -> None:
        """Makes a call. Best effort: a failure must not disturb anybody."""
        try:
            await self._client.send(method, params)
        except CrossclawError as error:
            log.debug("telegram %s: %s", method, error)

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        chat = (await self._where(where))["chat_id"]
        params: dict[str, Any] = {"chat_id": chat, "message_id": int(platform_id)}
        if not self._settings.link_preview:
            params["link_preview_options"] = {"is_disabled": True}
        await self._send_text("editMessageText", piece, params)


def _captions(piece: Piece) -> list[dict[str, Any]]:
    """The captions to try: as it is written, then without marks; none at all if there are no words."""
    if not piece.text:
        return [{}]
    return [{"caption": piece.formatted, "parse_mode": "HTML"}, {"caption": piece.text}]


def _id_of(result: Any) -> str | None:
    number = result.get("message_id") if isinstance(result, dict) else None
    return str(number) if number is not None else None
