"""One BlueBubbles server. Its webhook only says that there is something: new messages are read from the Mac's
own rows, in their order, so that a call that got lost, or overtook another, loses and reorders nothing."""

import hashlib
import hmac
import logging
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.contract import (
    AccountFacts,
    ChannelAccount,
    ChannelHost,
    Piece,
    WebhookAnswer,
    WebhookRequest,
)
from crossclaw.channels.imessage.client import BlueBubblesClient, path_step
from crossclaw.channels.imessage.manifest import read_target
from crossclaw.channels.imessage.reading import BlueEvent, BlueMessage, PassedOver, read_message
from crossclaw.channels.imessage.settings import IMessageSettings
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import AccountBroken, CrossclawError, DeliveryError
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

ASK_EVERY_S = 60.0
"""The time between two reads, for what the webhook lost: BlueBubbles posts once and never again."""
ASK_WITHOUT_WEBHOOK_S = 5.0
"""The time between two reads as long as the webhook has not called: then reading is all there is."""
AGE_MAX_MS = 24 * 3_600_000
"""The oldest message that is answered: a Mac that syncs old conversations gets them as new rows."""
KEY_PREFIX = "crossclaw:"
CURSOR = "messages"
_TAPBACK_OF = {
    "❤": "love",
    "❤️": "love",
    "👍": "like",
    "👎": "dislike",
    "😂": "laugh",
    "‼": "emphasize",
    "‼️": "emphasize",
    "❓": "question",
}


async def open_account(settings: IMessageSettings, host: ChannelHost) -> "IMessageAccount":
    if not settings.is_set_up:
        raise AccountBroken(settings.what_is_missing)
    assert settings.server_url
    assert settings.password
    client = BlueBubblesClient(host.http.open(settings.server_url), settings.password)
    return IMessageAccount(settings, host, client)


class IMessageAccount(ChannelAccount):
    def __init__(
        self, settings: IMessageSettings, host: ChannelHost, client: BlueBubblesClient
    ) -> None:
        self._settings = settings
        self._host = host
        self._client = client
        self._has_private_api = False
        self._was_called = False
        self._news = anyio.Event()
        self._chats: dict[str, str] = {}
        """The chat of a person to whom somebody wrote first."""

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await host.connected(await self.probe())
        row = await self._first_row(host)
        if self._settings.webhook_url:
            await self._enter_webhook()
        task_status.started()
        while True:
            self._news = anyio.Event()
            row = await self._catch_up(host, row)
            with anyio.move_on_after(ASK_EVERY_S if self._was_called else ASK_WITHOUT_WEBHOOK_S):
                await self._news.wait()

    async def probe(self) -> AccountFacts:
        found = await self._client.ask("GET", "server/info")
        found = found if isinstance(found, dict) else {}
        self._has_private_api = bool(found.get("private_api") and found.get("helper_connected"))
        name = found.get("detected_imessage") or found.get("detected_icloud")
        more = (
            "Private API" if self._has_private_api else "without Private API: no typing or tapbacks"
        )
        url = str(self._settings.server_url)
        return AccountFacts(id=str(name or url), detail=more, login=url)

    async def _first_row(self, host: ChannelHost) -> int:
        """The row to begin with: messages from before the very first start are not answered."""
        if text := await host.load_cursor(CURSOR):
            return int(text)
        row = await self._client.newest_row()
        await host.save_cursor(CURSOR, str(row))
        return row

    async def _catch_up(self, host: ChannelHost, row: int) -> int:
        """Receives messages in the order of the Mac's rows; the cursor moves past each when it is stored or
        decided against."""
        while rows := await self._client.rows_after(row):
            host.heard()
            newest = row
            for message in rows:
                await self._receive(host, message)
                newest = max(newest, message.row or 0)
            if newest == row:
                return row  # rows without numbers: asking again would bring the same
            row = newest
            await host.save_cursor(CURSOR, str(row))
        return row

    async def _receive(
        self, host: ChannelHost, message: BlueMessage, *, is_update: bool = False
    ) -> None:
        read = read_message(message, host.account_id, is_update=is_update)
        if isinstance(read, PassedOver):
            log.debug("imessage: %s", read.why)
            return
        if (read.at_ms or 0) < host.now_ms() - AGE_MAX_MS and not is_update:
            log.info("an old message that came late is not answered")
            return
        if read.reply_to is not None and not read.is_direct:
            ours = await self._client.is_from_me(read.reply_to.message_id)
            read = msgspec.structs.replace(
                read, reply_to=msgspec.structs.replace(read.reply_to, ours=ours)
            )
        received = await host.receive(read)
        if received.what == "accepted" and self._settings.send_read_receipts:
            await self._try("POST", f"chat/{path_step(read.address.to)}/read", {})

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._client.download(what.id, limit)

    # ── being called ───────────────────────────────────────────────────────────────────────────

    @property
    def webhook_secret(self) -> Secret:
        """The webhook's secret: one of its own, so that whoever sees an address in a log does not have the
        server's password."""
        if self._settings.webhook_secret:
            return self._settings.webhook_secret
        assert self._settings.password
        key = self._settings.password.reveal().encode()
        return Secret(hmac.new(key, b"crossclaw webhook", hashlib.sha256).hexdigest()[:32])

    async def _enter_webhook(self) -> None:
        url = f"{self._settings.webhook_url}?secret={self.webhook_secret.reveal()}"
        known = await self._client.ask("GET", "webhook")
        if any(isinstance(each, dict) and each.get("url") == url for each in known or ()):
            return
        events = ["new-message", "updated-message", "message-send-error"]
        await self._client.ask("POST", "webhook", {"url": url, "events": events})

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        shown = request.query.get("secret", "") or request.headers.get("x-bluebubbles-secret", "")
        if not hmac.compare_digest(shown.encode(), self.webhook_secret.reveal().encode()):
            return WebhookAnswer(status=401)
        self._was_called = True
        self._host.heard()
        try:
            event = msgspec.json.decode(request.body, type=BlueEvent)
            if event.type not in ("new-message", "updated-message", "message-send-error"):
                return WebhookAnswer()
            message = msgspec.json.decode(event.data, type=BlueMessage)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("a webhook of BlueBubbles that cannot be read is passed over: %s", error)
            return WebhookAnswer()
        if message.temp_guid and message.temp_guid.startswith(KEY_PREFIX):
            await self._settle(message, failed=event.type == "message-send-error")
        elif event.type == "updated-message":
            await self._receive(self._host, message, is_update=True)
        else:
            self._news.set()
        return WebhookAnswer()

    async def _settle(self, message: BlueMessage, *, failed: bool) -> None:
        """Settles the delivery of our own message, which comes back with our key: its outcome is known now."""
        assert message.temp_guid
        key = message.temp_guid.removeprefix(KEY_PREFIX)
        if failed or message.error:
            await self._host.fail_delivery(
                key, f"the Mac could not send it (error {message.error})"
            )
        else:
            await self._host.confirm_delivery(key, message.guid)

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        key = KEY_PREFIX + piece.delivery_key
        chat = await self._chat_of(piece.address)
        if piece.media is not None:
            return await self._client.send_file(piece.media, {"chatGuid": chat, "tempGuid": key})
        body: dict[str, Any] = {
            "tempGuid": key,
            "message": piece.formatted,
            "method": "apple-script",
        }
        if not chat.count(";"):
            return await self._client.send("chat/new", {**body, "addresses": [chat]})
        body["chatGuid"] = chat
        if piece.reply_to is not None and self._has_private_api:
            body |= {"selectedMessageGuid": piece.reply_to, "method": "private-api"}
        return await self._client.send("message/text", body)

    async def _chat_of(self, where: Address) -> str:
        """The guid of the chat; for a person without one, the handle."""
        target = read_target(where.to)
        if target is None:
            raise DeliveryError(
                f"{where.to!r} is no iMessage chat: use a number with its country, an e-mail address or chat_guid:…"
            )
        if ";" in target.to and not target.to.startswith("any;+;"):
            return target.to
        if target.to in self._chats:
            return self._chats[target.to]
        mark = "+" if target.types == ("group",) else "-"
        name = target.to.rpartition(";")[2]
        for service in ("iMessage", "any", "SMS"):
            guid = f"{service};{mark};{name}"
            try:
                found = await self._client.has_chat(guid)
            except CrossclawError as error:
                raise DeliveryError(str(error), retryable=True) from error
            if found:
                self._chats[target.to] = guid
                return guid
        if mark == "+":
            raise DeliveryError(f"the Mac has no chat {name}", chat_gone=True)
        return target.to

    async def show_typing(self, where: Address) -> None:
        if self._has_private_api and ";" in where.to:
            await self._try("POST", f"chat/{path_step(where.to)}/typing", {})

    async def stop_typing(self, where: Address) -> None:
        if self._has_private_api and ";" in where.to:
            await self._try("DELETE", f"chat/{path_step(where.to)}/typing", {})

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        tapback = _TAPBACK_OF.get(emoji)
        if self._has_private_api and tapback and ";" in where.to:
            body = {
                "chatGuid": where.to,
                "selectedMessageGuid": message_id.partition(":")[0],
                "reaction": tapback if on else f"-{tapback}",
            }
            await self._try("POST", "message/react", body)

    async def _try(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Calls a method of the server, if it can. Best effort: a failure must not disturb anybody."""
        if not self._has_private_api:
            return
        try:
            await self._client.send(path, body, method)
        except CrossclawError as error:
            log.debug("imessage %s: %s", path, error)
