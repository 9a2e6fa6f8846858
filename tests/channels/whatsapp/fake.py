"""FakeWhatsApp: Meta's Cloud API for one business number, by its published rules (read 2026-11-16):
https://developers.facebook.com/documentation/business-messaging/whatsapp — messages, media, webhooks, error codes.

Messages of people come by webhook, signed with the app secret over the raw bytes, in batches, and are posted again with
growing pauses until they are answered with 200. Sends are refused as Meta refuses them: a missing field, more than 4096
characters, a number that nobody has (131026), more than one message in six seconds to one person once the burst is used up
(131056), a dead token (190). A message outside of the 24 hours is taken and fails later, by a status (131047), as Meta
does. `seen` is what people saw.
"""

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from crossclaw.channels.contract import WebhookAnswer, WebhookRequest
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of
from tests.channels.multipart import read_form

GRAPH, MEDIA_HOST = "graph.facebook.com", "lookaside.fbsbx.com"
TEXT_MAX, CAPTION_MAX, OPAQUE_MAX = 4096, 1024, 512
WINDOW_S = 24 * 3600.0
BURST, PAIR_S = 45, 6.0
EPOCH_S = 1_767_268_800
_TYPES = {
    "image": ("image/jpeg", "image/png"),
    "audio": ("audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"),
    "video": ("video/mp4", "video/3gp"),
    "document": (),
    "sticker": ("image/webp",),
}
_MB_MAX = {"image": 5, "audio": 16, "video": 16, "document": 100, "sticker": 1}

Call = Callable[[WebhookRequest], Awaitable[WebhookAnswer]]


class CloudRefusal(Exception):
    def __init__(self, code: int, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.code, self.status = code, status
        self.body = {
            "error": {
                "message": f"(#{code}) {text}",
                "type": "OAuthException",
                "code": code,
                "error_data": {"messaging_product": "whatsapp", "details": text},
                "fbtrace_id": "Az8or2yhqkZfEZ-_4Qn_Bam",
            }
        }


class SeenOnWhatsApp(msgspec.Struct, kw_only=True):
    person: str
    id: str
    text: str
    kind: str = "text"
    reply_to: str | None = None
    data: bytes = b""


class FakeWhatsApp(FakeHttpService):
    def __init__(
        self,
        *,
        number_id: str = "106540352242922",
        number: str = "15550783881",
        token: str = "EAAJB-token",
        app_secret: str = "app-secret",
        verify_token: str = "verify-me",
    ) -> None:
        super().__init__()
        self.number_id, self.number, self.token = number_id, number, token
        self.app_secret, self.verify_token = app_secret, verify_token
        self.people: dict[str, str] = {}
        """wa_id → name."""
        self.gone: set[str] = set()
        self.seen: list[SeenOnWhatsApp] = []
        self.receipts: list[tuple[str, bool]] = []
        """Messages that were marked as read, and whether typing was shown."""
        self.reactions: dict[str, str] = {}
        self.media: dict[str, tuple[str, bytes]] = {}
        self.waiting: list[dict[str, Any]] = []
        """Values of changes that were not answered with 200 yet."""
        self.statuses = True
        self._written_at: dict[str, float] = {}
        self._sent_at: dict[str, list[float]] = {}
        self._numbers = 0
        self._changed = anyio.Event()

    # ── what people do ─────────────────────────────────────────────────────────────────────────

    def say(self, person: str, text: str = "", **content: Any) -> str:
        wa_id = person.lstrip("+")
        self.people.setdefault(wa_id, f"Person {wa_id[-4:]}")
        self._written_at[wa_id] = anyio.current_time()
        message_id = self.new_id("in")
        message = {
            "from": wa_id,
            "id": message_id,
            "timestamp": str(EPOCH_S + int(anyio.current_time())),
            "type": next(iter(content), "text"),
            **(content or {"text": {"body": text}}),
        }
        contact = {"profile": {"name": self.people[wa_id]}, "wa_id": wa_id}
        self.notify({"contacts": [contact], "messages": [message]})
        return message_id

    def put_media(self, data: bytes, mime: str) -> dict[str, str]:
        media_id = str(1_000_000 + len(self.media))
        self.media[media_id] = (mime, data)
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        return {"id": media_id, "mime_type": mime, "sha256": checksum}

    def notify(self, value: dict[str, Any]) -> None:
        metadata = {"display_phone_number": self.number, "phone_number_id": self.number_id}
        self.waiting.append({"messaging_product": "whatsapp", "metadata": metadata, **value})
        self._wake()

    def new_id(self, kind: str) -> str:
        self._numbers += 1
        return f"wamid.{kind}{self._numbers:08}"

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self._changed.wait()

    # ── the webhook ────────────────────────────────────────────────────────────────────────────

    def signed(self, body: bytes) -> WebhookRequest:
        made = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"x-hub-signature-256": f"sha256={made}", "content-type": "application/json"}
        return WebhookRequest(
            method="POST", path="/whatsapp-webhook", query={}, headers=headers, body=body
        )

    def notice(self, values: list[dict[str, Any]]) -> bytes:
        changes = [{"field": "messages", "value": value} for value in values]
        entry = [{"id": "102290129340398", "changes": changes}]
        return msgspec.json.encode({"object": "whatsapp_business_account", "entry": entry})

    async def post_waiting(self, call: Call) -> bool:
        """All that waits, as one batch. Whether it was taken."""
        batch = list(self.waiting)
        if not batch:
            return True
        answer = await call(self.signed(self.notice(batch)))
        if answer.status == 200:
            self.waiting = self.waiting[len(batch) :]
        return answer.status == 200

    async def serve_webhook(self, call: Call) -> None:
        """Until cancelled: posts what waits, again after growing pauses where it is not taken."""
        pause_s = 1.0
        while True:
            changed = self._changed
            if not self.waiting:
                await changed.wait()
            elif await self.post_waiting(call):
                pause_s = 1.0
            else:
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 2, 3600.0)

    # ── the Graph API ──────────────────────────────────────────────────────────────────────────

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        try:
            if asked.headers.get("authorization") != f"Bearer {self.token}":
                raise CloudRefusal(190, "Invalid OAuth access token", 401)
            if asked.host == MEDIA_HOST:
                mime, data = self.media[asked.path.rpartition("/")[2]]
                return FakeAnswer(200, data, mime)
            return self._graph(asked)
        except CloudRefusal as refused:
            return json_of(refused.body, refused.status)

    def _graph(self, asked: AskedOfFake) -> FakeAnswer:
        version, _, rest = asked.path.lstrip("/").partition("/")
        if not version.startswith("v"):
            self.complaints.append(f"no version in {asked.path}")
        match asked.method, rest.split("/"):
            case "GET", [self.number_id]:
                return json_of(
                    {
                        "id": self.number_id,
                        "display_phone_number": "+1 555-078-3881",
                        "verified_name": "Claw",
                    }
                )
            case "POST", [self.number_id, "messages"]:
                return json_of(self._messages(asked.json()))
            case "POST", [self.number_id, "media"]:
                return json_of(self._upload(asked))
            case "GET", [media_id] if media_id in self.media:
                mime, data = self.media[media_id]
                return json_of(
                    {
                        "id": media_id,
                        "url": f"https://{MEDIA_HOST}/whatsapp_business/attachments/{media_id}",
                        "mime_type": mime,
                        "sha256": hashlib.sha256(data).hexdigest(),
                        "file_size": len(data),
                        "messaging_product": "whatsapp",
                    }
                )
        raise CloudRefusal(100, f"Unsupported request: {asked.method} {asked.path}")

    def _upload(self, asked: AskedOfFake) -> dict[str, Any]:
        fields, files = read_form(asked)
        if fields.get("messaging_product") != "whatsapp" or "file" not in files:
            raise CloudRefusal(100, "The parameter messaging_product is required.")
        return {"id": self.put_media(files["file"], fields.get("type", ""))["id"]}

    def _messages(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("messaging_product") != "whatsapp":
            raise CloudRefusal(100, "The parameter messaging_product is required.")
        if body.get("status") == "read":
            self.receipts.append((body["message_id"], "typing_indicator" in body))
            self._wake()
            return {"success": True}
        person = str(body.get("to", "")).lstrip("+")
        kind = body.get("type", "text")
        if len(body.get("biz_opaque_callback_data", "")) > OPAQUE_MAX:
            raise CloudRefusal(131009, "biz_opaque_callback_data is too long")
        if kind == "reaction":
            self.reactions[body["reaction"]["message_id"]] = body["reaction"]["emoji"]
            return {"messages": [{"id": self.new_id("re")}]}
        if person in self.gone or person not in self.people:
            raise CloudRefusal(131026, "Message Undeliverable")
        text, data = self._content(kind, body)
        self._check_pace(person)
        return self._take(person, kind, text, data, body)

    def _content(self, kind: str, body: dict[str, Any]) -> tuple[str, bytes]:
        part = body.get(kind)
        if not isinstance(part, dict):
            raise CloudRefusal(131009, f"Parameter {kind} is missing")
        if kind == "text":
            if not 1 <= len(part.get("body", "")) <= TEXT_MAX:
                raise CloudRefusal(100, "Param text['body'] must be at most 4096 characters long.")
            return part["body"], b""
        if kind == "template":
            values = part["components"][0]["parameters"][0]["text"]
            if "\n" in values or "\t" in values or "    " in values:
                raise CloudRefusal(100, "Param text cannot have new-line/tab characters")
            return f"{part['name']}: {values}", b""
        if kind not in _TYPES:
            raise CloudRefusal(131051, "Unsupported message type")
        if part.get("id") not in self.media:
            raise CloudRefusal(131009, "Media id is not valid")
        mime, data = self.media[part["id"]]
        if (_TYPES[kind] and mime not in _TYPES[kind]) or len(data) > _MB_MAX[kind] << 20:
            raise CloudRefusal(131053, "Media upload error")
        if len(part.get("caption", "")) > CAPTION_MAX or (kind == "audio" and "caption" in part):
            raise CloudRefusal(131009, "Parameter caption is not valid")
        return part.get("caption", ""), data

    def _check_pace(self, person: str) -> None:
        now, sent = anyio.current_time(), self._sent_at.setdefault(person, [])
        sent[:] = [at for at in sent if at > now - BURST * PAIR_S]
        if len(sent) >= BURST:
            raise CloudRefusal(131056, "(Business Account, Consumer Account) pair rate limit hit")
        sent.append(now)

    def _take(
        self, person: str, kind: str, text: str, data: bytes, body: dict[str, Any]
    ) -> dict[str, Any]:
        message_id = self.new_id("out")
        open_until = self._written_at.get(person, float("-inf")) + WINDOW_S
        status: dict[str, Any] = {"id": message_id, "recipient_id": person, "status": "sent"}
        status["timestamp"] = str(EPOCH_S + int(anyio.current_time()))
        if key := body.get("biz_opaque_callback_data"):
            status["biz_opaque_callback_data"] = key
        if anyio.current_time() > open_until and kind != "template":
            error = {
                "code": 131047,
                "title": "Re-engagement message",
                "message": "Re-engagement message",
            }
            status |= {"status": "failed", "errors": [error]}
        else:
            reply = (body.get("context") or {}).get("message_id")
            self.seen.append(
                SeenOnWhatsApp(
                    person=f"+{person}",
                    id=message_id,
                    text=text,
                    kind=kind,
                    reply_to=reply,
                    data=data,
                )
            )
        if self.statuses:
            self.notify({"statuses": [status]})
        self._wake()
        return {
            "messaging_product": "whatsapp",
            "contacts": [{"input": f"+{person}", "wa_id": person}],
            "messages": [{"id": message_id}],
        }
