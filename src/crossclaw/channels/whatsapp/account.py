"""One WhatsApp number: Meta calls us with messages and with the outcome of ours."""

import hashlib
import hmac
import logging
from collections import OrderedDict, deque
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
from crossclaw.channels.whatsapp.client import WINDOW_CLOSED, CloudClient, meaning_of
from crossclaw.channels.whatsapp.manifest import read_target
from crossclaw.channels.whatsapp.reading import (
    NotForUs,
    WhatsAppStatus,
    read_notice,
)
from crossclaw.channels.whatsapp.settings import WhatsAppSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import (
    AccountBroken,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
)
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

API_URL = "https://graph.facebook.com"
WINDOW_MS = 24 * 3_600_000
WINDOW_STEP_MS = 3_600_000
"""The shortest time between two writes of a person's last message: a write for every message would be dear."""
KEPT_MAX = 10_000  # people whose last message is known (typing signals need its id), and statuses
RECEIPTS_MAX = 100  # read receipts that wait; more are dropped, since nobody misses them
TEMPLATE_CHARS_MAX = 1_024
MEDIA_HOSTS = ("lookaside.fbsbx.com", "*.fbsbx.com", "*.fbcdn.net", "*.whatsapp.net")


async def open_account(settings: WhatsAppSettings, host: ChannelHost) -> "WhatsAppAccount":
    cloud = settings.cloud
    if not settings.is_set_up:
        raise AccountBroken(settings.what_is_missing)
    assert cloud.access_token
    assert cloud.phone_number_id
    http = host.http.open(
        settings.api_url or API_URL,
        headers={"authorization": f"Bearer {cloud.access_token.reveal()}"},
        hosts=MEDIA_HOSTS,
    )
    client = CloudClient(http, cloud.phone_number_id, cloud.api_version)
    return WhatsAppAccount(settings, host, client)


class WhatsAppAccount(ChannelAccount):
    def __init__(self, settings: WhatsAppSettings, host: ChannelHost, client: CloudClient) -> None:
        self._settings = settings
        self._host = host
        self._client = client
        self._last: OrderedDict[str, str] = OrderedDict()
        """The id of each person's newest message."""
        self._settled: OrderedDict[str, str] = OrderedDict()
        """The message ids of our keys whose status came, which can be before the answer to the send."""
        self._receiving = anyio.Lock()
        self._receipts: deque[str] = deque(maxlen=RECEIPTS_MAX)
        self._receipt_due = anyio.Event()

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await host.connected(await self.probe())
        task_status.started()
        while True:  # messages come by `webhook`
            await self._receipt_due.wait()
            self._receipt_due = anyio.Event()
            while self._receipts:
                await self._try({"status": "read", "message_id": self._receipts.popleft()})

    async def probe(self) -> AccountFacts:
        found = await self._client.about()
        number = str(found.get("display_phone_number") or "")
        name = str(found.get("verified_name") or "")
        return AccountFacts(
            id=number or str(self._settings.cloud.phone_number_id),
            name=name or None,
            login=str(self._settings.cloud.phone_number_id),
        )

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        if request.method == "GET":
            return self._greet(request)
        if not self._is_signed(request):
            return WebhookAnswer(status=401)
        self._host.heard()
        cloud = self._settings.cloud
        try:
            found = list(
                read_notice(request.body, str(cloud.phone_number_id), self._host.account_id)
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("a whatsapp notice that cannot be read is passed over: %s", error)
            return WebhookAnswer()  # sent again it would be no better
        async with self._receiving:
            for each in found:
                await self._take(each)
        return WebhookAnswer()

    def _greet(self, request: WebhookRequest) -> WebhookAnswer:
        """Answers Meta's check of the webhook's address, made once when it is entered there."""
        shown, wanted = request.query.get("hub.verify_token", ""), self._settings.cloud.verify_token
        if request.query.get("hub.mode") != "subscribe" or not _same(shown, wanted):
            return WebhookAnswer(status=403)
        return WebhookAnswer(body=request.query.get("hub.challenge", "").encode())

    def _is_signed(self, request: WebhookRequest) -> bool:
        secret = self._settings.cloud.app_secret
        assert secret, "an account without it is not opened"
        made = hmac.new(secret.reveal().encode(), request.body, hashlib.sha256).hexdigest()
        shown = request.headers.get("x-hub-signature-256", "")
        return hmac.compare_digest(shown.encode(), f"sha256={made}".encode())

    async def _take(self, found: Inbound | WhatsAppStatus | NotForUs) -> None:
        match found:
            case NotForUs(why=why):
                log.info("whatsapp: %s", why)
            case WhatsAppStatus():
                await self._settle(found)
            case Inbound():
                received = await self._host.receive(found)
                if not received.is_dropped:
                    await self._remember(found)
                if received.what == "accepted" and self._settings.send_read_receipts:
                    self._mark_read(found.message_id)

    async def _settle(self, status: WhatsAppStatus) -> None:
        """Settles a delivery by its status: our key comes back with it, so an uncertain outcome is known now."""
        key = status.biz_opaque_callback_data
        if not key:
            return
        if status.status in ("sent", "delivered", "read", "played"):
            keep_newest(self._settled, key, status.id, KEPT_MAX)
            await self._host.confirm_delivery(key, status.id)
        elif status.status == "failed":
            first = status.errors[0] if status.errors else None
            said = meaning_of(first.code, first.message or first.title) if first else "refused"
            await self._host.fail_delivery(key, str(said))

    async def _remember(self, inbound: Inbound) -> None:
        keep_newest(self._last, inbound.sender, inbound.message_id, KEPT_MAX)
        at = inbound.at_ms or self._host.now_ms()
        known = await self._last_written(inbound.sender)
        if known is None or at - known >= WINDOW_STEP_MS:
            await self._host.save_cursor(f"last message of {inbound.sender}", str(at))

    async def _last_written(self, person: str) -> int | None:
        text = await self._host.load_cursor(f"last message of {person}")
        return int(text) if text else None

    def _mark_read(self, message_id: str) -> None:
        self._receipts.append(message_id)
        self._receipt_due.set()

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._client.download(what.id, limit)

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        try:
            return await self._send(piece)
        except DeliveryUncertain:
            if (arrived := self._settled.get(piece.delivery_key)) is None:
                raise
            return arrived

    async def _send(self, piece: Piece) -> str | None:
        person = _person(piece.address)
        message: dict[str, Any] = {
            "recipient_type": "individual",
            "to": person,
            "biz_opaque_callback_data": piece.delivery_key,
        }
        if await self._is_closed(person):
            return await self._client.send({**message, **self._template(piece)})
        if piece.reply_to is not None:
            message["context"] = {"message_id": piece.reply_to}
        if piece.media is not None:
            return await self._client.send({**message, **await self._media(piece)})
        text = {"body": piece.formatted, "preview_url": "://" in piece.formatted}
        return await self._client.send({**message, "type": "text", "text": text})

    async def _is_closed(self, person: str) -> bool:
        """Whether the 24 hours are surely over: what is unknown, or close to the end, WhatsApp decides."""
        last = await self._last_written(person)
        return last is not None and self._host.now_ms() - last > WINDOW_MS + WINDOW_STEP_MS

    def _template(self, piece: Piece) -> dict[str, Any]:
        template = self._settings.cloud.template
        if template is None or piece.number > 1 or piece.media is not None:
            raise DeliveryError(WINDOW_CLOSED)
        text = " ".join(piece.text.split())[:TEMPLATE_CHARS_MAX]  # a variable holds no new lines
        body = {"type": "body", "parameters": [{"type": "text", "text": text}]}
        return {
            "type": "template",
            "template": {
                "name": template.name,
                "language": {"code": template.language},
                "components": [body],
            },
        }

    async def _media(self, piece: Piece) -> dict[str, Any]:
        media = piece.media
        assert media is not None
        kind = media.kind
        if kind == "image" and media.mime not in ("image/jpeg", "image/png"):
            kind = "document"
        shown: dict[str, Any] = {"id": await self._client.upload(media)}
        if piece.formatted and kind != "audio":
            shown["caption"] = piece.formatted
        if kind == "document":
            shown["filename"] = media.name
        return {"type": kind, kind: shown}

    async def show_typing(self, where: Address) -> None:
        if message_id := self._last.get(_person(where)):
            typing = {"type": "text"}
            await self._try(
                {"status": "read", "message_id": message_id, "typing_indicator": typing}
            )

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        reaction = {"message_id": message_id, "emoji": emoji if on else ""}
        await self._try({"to": _person(where), "type": "reaction", "reaction": reaction})

    async def _try(self, message: dict[str, Any]) -> None:
        """Sends a message. Best effort: a failure must not disturb anybody."""
        try:
            await self._client.send(message)
        except CrossclawError as error:
            log.debug("whatsapp: %s", error)


def _person(where: Address) -> str:
    target = read_target(where.to)
    if target is None:
        raise DeliveryError(
            f"{where.to!r} is no WhatsApp number: write it with its country, as +4917…"
        )
    return target.to


def _same(shown: str, wanted: Secret | None) -> bool:
    return bool(wanted) and hmac.compare_digest(
        shown.encode(), wanted.reveal().encode() if wanted else b""
    )
