"""FakeBlueBubbles: the BlueBubbles server, by its published source (github.com/BlueBubblesApp/bluebubbles-server, state
of 2026-07-18: validators, routers, MessageSerializer, webhookService).

The password is asked for in the address of every request. A text needs `chatGuid`, `message` and, by AppleScript, a
`tempGuid`; the same one while it is being sent is refused. Replies, tapbacks, typing and read marks need the Private API. New
messages are posted to the webhook once and never again. Sent ones come back by it with their `tempGuid`. `seen` is what people
saw.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec

from crossclaw.channels.contract import WebhookAnswer, WebhookRequest
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of
from tests.channels.multipart import read_form

EPOCH_MS = 1_767_268_800_000
TAPBACKS = frozenset(["love", "like", "dislike", "laugh", "emphasize", "question"])
_TEXT_FIELDS = frozenset(
    [
        "chatGuid",
        "tempGuid",
        "message",
        "method",
        "effectId",
        "subject",
        "selectedMessageGuid",
        "partIndex",
        "ddScan",
    ]
)
Call = Callable[[WebhookRequest], Awaitable[WebhookAnswer]]


class BlueRefusal(Exception):
    def __init__(self, status: int, text: str, kind: str = "Validation Error") -> None:
        super().__init__(text)
        self.status = status
        self.body = {"status": status, "message": text, "error": {"type": kind, "message": text}}


class SeenOnIMessage(msgspec.Struct, kw_only=True):
    chat: str
    guid: str
    text: str
    reply_to: str | None = None
    data: bytes = b""


class FakeBlueBubbles(FakeHttpService):
    def __init__(self, *, password: str = "mac-password", private_api: bool = True) -> None:
        super().__init__()
        self.password, self.private_api = password, private_api
        self.rows: list[dict[str, Any]] = []
        self.chats: dict[str, dict[str, Any]] = {}
        self.seen: list[SeenOnIMessage] = []
        self.signals: list[tuple[str, str]] = []
        """Typing, read marks and tapbacks."""
        self.files: dict[str, bytes] = {}
        self.webhooks: list[dict[str, Any]] = []
        self.call: Call | None = None
        """Who is posted to; without it nobody hears of a message, and nothing is posted later."""
        self.tells_own = True
        """Whether sent messages come back by the webhook: who entered it chooses the events."""
        self.secret = ""
        self.posts: list[int] = []
        self._sending: set[str] = set()
        self._changed = anyio.Event()

    # ── what people do ─────────────────────────────────────────────────────────────────────────

    def chat(self, guid: str, name: str = "") -> str:
        self.chats.setdefault(guid, {"guid": guid, "displayName": name})
        return guid

    async def say(self, person: str, text: str, *, chat: str | None = None, **fields: Any) -> str:
        message = self.add_row(person, text, chat=chat, **fields)
        await self.post("new-message", message)
        return str(message["guid"])

    def add_row(
        self, person: str, text: str, *, chat: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """The Mac has it; the webhook is another matter."""
        guid = self.chat(chat or f"iMessage;-;{person}")
        row = len(self.rows) + 1
        message = {
            "originalROWID": row,
            "guid": f"MSG-{row:06}",
            "text": text,
            "handle": {"originalROWID": 1, "address": person, "service": "iMessage"},
            "attachments": [],
            "chats": [self.chats[guid]],
            "isFromMe": False,
            "dateCreated": EPOCH_MS + int(anyio.current_time() * 1000),
            "itemType": 0,
            "groupActionType": 0,
            "associatedMessageGuid": None,
            "associatedMessageType": None,
            "threadOriginatorGuid": None,
            "error": 0,
            **fields,
        }
        self.rows.append(message)
        return message

    async def post(self, kind: str, data: dict[str, Any], secret: str | None = None) -> int | None:
        if self.call is None:
            return None
        query = {"secret": self.secret if secret is None else secret}
        answer = await self.call(
            WebhookRequest(
                method="POST",
                path="/bluebubbles-webhook",
                query=query,
                headers={"content-type": "application/json"},
                body=msgspec.json.encode({"type": kind, "data": data}),
            )
        )
        self.posts.append(answer.status)
        return answer.status

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self._changed.wait()

    # ── the wire ───────────────────────────────────────────────────────────────────────────────

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        try:
            shown = (
                asked.query.get("guid") or asked.query.get("password") or asked.query.get("token")
            )
            if not shown or shown.strip() != self.password:
                raise BlueRefusal(401, "Unauthorized", "Authentication Error")
            path = unquote(asked.path).removeprefix("/api/v1/")
            if found := re.fullmatch(r"attachment/(.+)/download", path):
                if found[1] not in self.files:
                    raise BlueRefusal(404, "Attachment does not exist!", "Database Error")
                return FakeAnswer(200, self.files[found[1]], "application/octet-stream")
            data = await self._route(asked, path)
        except BlueRefusal as refused:
            return json_of(refused.body, refused.status)
        return json_of({"status": 200, "message": "Success", "data": data})

    async def _route(self, asked: AskedOfFake, path: str) -> Any:
        match asked.method, path:
            case "GET", "server/info":
                return {
                    "private_api": self.private_api,
                    "helper_connected": self.private_api,
                    "detected_imessage": "claw@example.org",
                }
            case "POST", "message/query":
                return self._query(asked.json())
            case "POST", "message/text":
                return await self._send_text(asked.json())
            case "POST", "message/attachment":
                return await self._send_file(asked)
            case "POST", "message/react":
                return self._react(asked.json())
            case "POST", "chat/new":
                return await self._new_chat(asked.json())
            case "GET", "webhook":
                return self.webhooks
            case "POST", "webhook":
                self.webhooks.append(asked.json())
                return asked.json()
        return self._one(asked.method, path)

    def _one(self, method: str, path: str) -> Any:
        if method == "GET" and (found := re.fullmatch(r"message/([^/]+)", path)):
            for row in self.rows:
                if row["guid"] == found[1]:
                    return row
            raise BlueRefusal(404, "Message does not exist!", "Database Error")
        if found := re.fullmatch(r"chat/(.+)/(typing|read)", path):
            self._need_private_api()
            self.signals.append((found[2], found[1]))
            return None
        if method == "GET" and (found := re.fullmatch(r"chat/([^/]+)", path)):
            if found[1] not in self.chats:
                raise BlueRefusal(404, "Chat does not exist!", "Database Error")
            return self.chats[found[1]]
        raise BlueRefusal(404, f"no such route: {method} {path}")

    def _need_private_api(self) -> None:
        if not self.private_api:
            raise BlueRefusal(500, "iMessage Private API is not enabled!", "iMessage Error")

    def _query(self, body: dict[str, Any]) -> Any:
        limit = body.get("limit", 100)
        if not 1 <= limit <= 1000 or body.get("sort", "DESC") not in ("ASC", "DESC"):
            raise BlueRefusal(400, "The limit may not be greater than 1000.")
        rows = self.rows
        for where in body.get("where", []):
            if where["statement"] != "message.ROWID > :row":
                self.complaints.append(f"a statement that is not expected: {where['statement']}")
            rows = [row for row in rows if row["originalROWID"] > where["args"]["row"]]
        rows = sorted(rows, key=lambda row: row["dateCreated"], reverse=body.get("sort") != "ASC")
        return [_with(row, body.get("with", [])) for row in rows[:limit]]

    async def _send_text(self, body: dict[str, Any]) -> Any:
        if odd := set(body) - _TEXT_FIELDS:
            self.complaints.append(f"message/text has no fields {sorted(odd)}")
        if "chatGuid" not in body or "message" not in body:
            raise BlueRefusal(400, "The chatGuid field is required.")
        needs = body.get("selectedMessageGuid") or body.get("method") == "private-api"
        if needs:
            self._need_private_api()
        elif not body.get("tempGuid"):
            raise BlueRefusal(400, "A 'tempGuid' is required when sending via AppleScript")
        if not body["message"]:
            raise BlueRefusal(400, "A 'message' is required when sending via AppleScript")
        if body["chatGuid"] not in self.chats:
            raise BlueRefusal(500, "Can't get chat id. (-1728)", "iMessage Error")
        return await self._show(
            body["chatGuid"], body["message"], body.get("tempGuid"), body.get("selectedMessageGuid")
        )

    async def _send_file(self, asked: AskedOfFake) -> Any:
        fields, files = read_form(asked)
        if not fields.get("name") or not fields.get("tempGuid") or not files.get("attachment"):
            raise BlueRefusal(400, "Attachment not provided or was empty!")
        return await self._show(
            fields["chatGuid"], "", fields["tempGuid"], None, files["attachment"]
        )

    async def _new_chat(self, body: dict[str, Any]) -> Any:
        if not isinstance(body.get("addresses"), list) or not body.get("message"):
            raise BlueRefusal(400, "The addresses field is required.")
        guid = self.chat(f"iMessage;-;{body['addresses'][0]}")
        await self._show(guid, body["message"], body.get("tempGuid"), None)
        return {**self.chats[guid], "messages": []}

    def _react(self, body: dict[str, Any]) -> Any:
        self._need_private_api()
        if body["reaction"].lstrip("-") not in TAPBACKS:
            raise BlueRefusal(400, "The selected reaction is invalid.")
        self.signals.append((body["reaction"], body["selectedMessageGuid"]))
        return {}

    async def _show(
        self, chat: str, text: str, temp: str | None, reply: str | None, data: bytes = b""
    ) -> Any:
        if temp is not None and temp in self._sending:
            raise BlueRefusal(400, f"Message is already queued to be sent! (Temp GUID: {temp})")
        self._sending.add(temp or "")
        message = self.add_row("", text, chat=chat, isFromMe=True, handle=None)
        self.seen.append(
            SeenOnIMessage(chat=chat, guid=message["guid"], text=text, reply_to=reply, data=data)
        )
        self._sending.discard(temp or "")
        self._wake()
        if self.tells_own:
            await self.post("new-message", {**message, "tempGuid": temp})
        return {**message, "tempGuid": temp}


def _with(row: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    left_out = {"chats": "chat", "attachments": "attachment"}
    return {name: value for name, value in row.items() if left_out.get(name) in (None, *wanted)}
