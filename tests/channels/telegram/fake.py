"""FakeTelegram: the Bot API as https://core.telegram.org/bots/api publishes it (Bot API 9.3, read 2026-11-16).

It keeps updates until an offset confirms them and gives them again until then, holds a long poll open, ends a poll when a
second one begins (409), refuses what Telegram refuses (4096 UTF-16 units after the marks are read, captions of 1024, marks
that cannot be read, chats that are gone, topics that are not there, the General topic by its number), limits the rate
with `retry_after`, and can break the connection before or after an effect. `seen` is what people saw, in order; nothing
of the gateway writes there.
"""

import re
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of
from tests.channels.multipart import read_form
from tests.channels.telegram.html_rules import CannotParse, visible

TEXT_MAX, CAPTION_MAX = 4096, 1024
PHOTO_BYTES_MAX, UPLOAD_BYTES_MAX, DOWNLOAD_BYTES_MAX = 10 << 20, 50 << 20, 20 << 20
SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
REACTIONS = frozenset(["👀", "👍", "👎", "❤", "🔥", "🎉", "🤔", "👌", "🙏", "⚡", "✍", "💯"])
_MEDIA = {
    "sendphoto": "photo",
    "senddocument": "document",
    "sendvoice": "voice",
    "sendaudio": "audio",
    "sendvideo": "video",
}
_SENDING = frozenset(
    [
        "chat_id",
        "message_thread_id",
        "text",
        "caption",
        "parse_mode",
        "reply_parameters",
        "link_preview_options",
        "disable_notification",
    ]
)
_KNOWN: dict[str, frozenset[str]] = {
    "getme": frozenset(),
    "getupdates": frozenset({"offset", "limit", "timeout", "allowed_updates"}),
    "setwebhook": frozenset(
        {"url", "secret_token", "allowed_updates", "max_connections", "drop_pending_updates"}
    ),
    "deletewebhook": frozenset({"drop_pending_updates"}),
    "sendmessage": _SENDING - {"caption"},
    "editmessagetext": (_SENDING | {"message_id"}) - {"caption", "message_thread_id"},
    "sendchataction": frozenset({"chat_id", "message_thread_id", "action"}),
    "setmessagereaction": frozenset({"chat_id", "message_id", "reaction", "is_big"}),
    "getfile": frozenset({"file_id"}),
    **{name: _SENDING | {kind} for name, kind in _MEDIA.items()},
}


class TelegramRefusal(Exception):
    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.answer = {"ok": False, "error_code": code, "description": description} | (
            {"parameters": parameters} if parameters else {}
        )
        self.code = code


class SeenByPeople(msgspec.Struct, kw_only=True):
    """One message in a chat, as its members see it."""

    bot: int
    chat: int
    message_id: int
    text: str
    kind: str = "text"
    thread: int | None = None
    reply_to: int | None = None
    formatted: bool = False
    edits: int = 0
    data: bytes = b""


class FakeChat(msgspec.Struct, kw_only=True):
    id: int
    type: str = "private"
    title: str | None = None
    first_name: str | None = None
    is_forum: bool = False
    topics: set[int] = set()
    gone: tuple[int, str] | None = None
    """How sends are refused: it was left, blocked or deleted."""
    moved_to: int | None = None

    def shown(self) -> dict[str, Any]:
        fields = {"id": self.id, "type": self.type, "title": self.title}
        fields |= {"first_name": self.first_name, "is_forum": self.is_forum or None}
        return {name: value for name, value in fields.items() if value is not None}


class FakeBot(msgspec.Struct, kw_only=True):
    token: str
    username: str
    updates: list[dict[str, Any]] = []
    next_update: int = 1000
    confirmed: int = 0
    """Updates below it are forgotten: a client has said that it has them."""
    webhook: dict[str, Any] | None = None
    polls: int = 0
    """Long polls so far: a newer one ends those before."""

    @property
    def id(self) -> int:
        return int(self.token.partition(":")[0])

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "is_bot": True,
            "first_name": self.username,
            "username": self.username,
        }


class FakeTelegram(FakeHttpService):
    """`rates` switches the limits of a chat (1 a second after a burst, 20 a minute in groups) on."""

    def __init__(self, *, rates: bool = False) -> None:
        super().__init__()
        self.bots: dict[str, FakeBot] = {}
        self.chats: dict[int, FakeChat] = {}
        self.seen: list[SeenByPeople] = []
        self.actions: list[tuple[int, int | None, str]] = []
        self.reactions: dict[tuple[int, int], list[str]] = {}
        self.files: dict[str, bytes] = {}
        self.rates = rates
        self._sent_at: dict[int, list[float]] = {}
        self._next_message = 1
        self._changed = anyio.Event()

    # ── what people do ─────────────────────────────────────────────────────────────────────────

    def add_bot(self, token: str, username: str = "claw_bot") -> FakeBot:
        self.bots[token] = FakeBot(token=token, username=username)
        return self.bots[token]

    def add_chat(self, chat_id: int, type: str = "private", **fields: Any) -> FakeChat:
        self.chats[chat_id] = FakeChat(id=chat_id, type=type, **fields)
        return self.chats[chat_id]

    def say(self, bot: FakeBot, chat_id: int, text: str = "", **fields: Any) -> int:
        """A person writes. Answers the message's id in its chat."""
        chat = self.chats.get(chat_id) or self.add_chat(chat_id, first_name=f"Person {chat_id}")
        message_id = self.number()
        sender = {"id": abs(chat_id), "is_bot": False, "first_name": f"Person {chat_id}"}
        message = {
            "message_id": message_id,
            "date": fields.pop("date", 1_767_268_800 + int(anyio.current_time())),
            "chat": chat.shown(),
            "from": sender,
        }
        if text:
            message["text"] = text
        self.update(bot, {"message": message | fields})
        return message_id

    def update(self, bot: FakeBot, content: dict[str, Any]) -> int:
        bot.next_update += 1
        bot.updates.append({"update_id": bot.next_update, **content})
        self._wake()
        return bot.next_update

    def number(self) -> int:
        self._next_message += 1
        return self._next_message

    def texts(self, chat_id: int | None = None) -> list[str]:
        return [seen.text for seen in self.seen if chat_id in (None, seen.chat)]

    async def wait_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self._changed.wait()

    def pending(self, bot: FakeBot) -> list[dict[str, Any]]:
        """What Telegram still holds for the bot."""
        return [update for update in bot.updates if update["update_id"] >= bot.confirmed]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # ── the wire ───────────────────────────────────────────────────────────────────────────────

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        if found := re.fullmatch(r"/file/bot([^/]+)/(.+)", asked.path):
            data = self.files.get(found[2].partition("/")[2])
            if found[1] not in self.bots or data is None:
                return json_of({"ok": False, "error_code": 404, "description": "Not Found"}, 404)
            return FakeAnswer(200, data, "application/octet-stream")
        found = re.fullmatch(r"/bot([^/]+)/(\w+)", asked.path)
        if not found or not re.fullmatch(r"\d+:[\w-]+", found[1]):
            return json_of({"ok": False, "error_code": 404, "description": "Not Found"}, 404)
        try:
            bot = self.bots.get(found[1])
            if bot is None:
                raise TelegramRefusal(401, "Unauthorized")
            result = await self._call(bot, found[2].lower(), _params(asked))
        except TelegramRefusal as refused:
            return json_of(refused.answer, refused.code)
        return json_of({"ok": True, "result": result})

    async def _call(self, bot: FakeBot, method: str, params: dict[str, Any]) -> Any:
        if method not in _KNOWN:
            raise TelegramRefusal(404, "Not Found")
        if odd := set(params) - _KNOWN[method]:
            self.complaints.append(f"{method} has no parameters {sorted(odd)}")
        if method in _MEDIA:
            return self._send_media(bot, _MEDIA[method], params)
        work: Callable[[FakeBot, dict[str, Any]], Any] = getattr(self, f"_do_{method}")
        result = work(bot, params)
        return await result if method == "getupdates" else result

    def _do_getme(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        return {**bot.shown(), "can_join_groups": True, "can_read_all_group_messages": False}

    async def _do_getupdates(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        if bot.webhook is not None:
            raise TelegramRefusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            )
        bot.polls += 1
        mine = bot.polls
        self._wake()
        offset, limit = int(params.get("offset", 0)), int(params.get("limit", 100))
        if not 1 <= limit <= 100:
            self.complaints.append(f"limit {limit} is not within 1 to 100")
        if offset > 0:
            bot.confirmed = max(bot.confirmed, offset)
            bot.updates = [each for each in bot.updates if each["update_id"] >= offset]
        wanted = params.get("allowed_updates") or ["message", "edited_message"]
        with anyio.move_on_after(min(int(params.get("timeout", 0)), 50)):
            while not (ready := _wanted(bot.updates, wanted)):
                changed = self._changed
                await changed.wait()
                if bot.polls != mine:
                    raise TelegramRefusal(
                        409,
                        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                    )
        return ready[:limit]

    def _do_setwebhook(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        if not str(params.get("url", "")).startswith("https://"):
            raise TelegramRefusal(
                400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"
            )
        secret = params.get("secret_token", "")
        if secret and not SECRET.fullmatch(secret):
            raise TelegramRefusal(400, "Bad Request: secret token contains unallowed characters")
        bot.webhook = params
        return True

    def _do_deletewebhook(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        if params.get("drop_pending_updates"):
            bot.updates.clear()
        bot.webhook = None
        return True

    def _do_sendmessage(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        chat = self._chat(params)
        text = self._text(params, "text", TEXT_MAX)
        if not text.strip():
            raise TelegramRefusal(400, "Bad Request: message text is empty")
        return self._show(bot, chat, params, text, "text", b"")

    def _send_media(self, bot: FakeBot, kind: str, params: dict[str, Any]) -> Any:
        chat = self._chat(params)
        data = params.get(kind)
        if not isinstance(data, bytes) or not data:
            raise TelegramRefusal(400, "Bad Request: there is no file to send")
        if len(data) > (PHOTO_BYTES_MAX if kind == "photo" else UPLOAD_BYTES_MAX):
            raise TelegramRefusal(413, "Request Entity Too Large")
        if kind == "photo" and not data.startswith((b"\xff\xd8", b"\x89PNG", b"RIFF", b"GIF8")):
            raise TelegramRefusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
        text = self._text(params, "caption", CAPTION_MAX)
        return self._show(bot, chat, params, text, kind, data)

    def _show(
        self,
        bot: FakeBot,
        chat: FakeChat,
        params: dict[str, Any],
        text: str,
        kind: str,
        data: bytes,
    ) -> Any:
        thread = self._thread(chat, params)
        reply = params.get("reply_parameters") or {}
        self._check_rate(chat)
        if reply and not reply.get("allow_sending_without_reply"):
            known = any(seen.message_id == reply["message_id"] for seen in self.seen)
            if not known and reply["message_id"] > self._next_message:
                raise TelegramRefusal(400, "Bad Request: message to be replied not found")
        seen = SeenByPeople(
            bot=bot.id,
            chat=chat.id,
            message_id=self.number(),
            text=text,
            kind=kind,
            thread=thread,
            reply_to=reply.get("message_id"),
            formatted="parse_mode" in params,
            data=data,
        )
        self.seen.append(seen)
        self._wake()
        return {
            "message_id": seen.message_id,
            "date": 1_767_268_800,
            "chat": chat.shown(),
            "text": text,
        }

    def _do_editmessagetext(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        chat = self._chat(params)
        text = self._text(params, "text", TEXT_MAX)
        for seen in self.seen:
            if (seen.chat, seen.message_id, seen.bot) == (chat.id, params["message_id"], bot.id):
                if seen.text == text:
                    raise TelegramRefusal(
                        400,
                        "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
                    )
                seen.text, seen.edits = text, seen.edits + 1
                self._wake()
                return {"message_id": seen.message_id, "date": 1, "chat": chat.shown()}
        raise TelegramRefusal(400, "Bad Request: message to edit not found")

    def _do_sendchataction(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        chat = self._chat(params)
        self.actions.append((chat.id, params.get("message_thread_id"), params["action"]))
        return True

    def _do_setmessagereaction(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        chat = self._chat(params)
        emoji = [each["emoji"] for each in params.get("reaction", [])]
        if len(emoji) > 1 or not set(emoji) <= REACTIONS:
            raise TelegramRefusal(400, "Bad Request: REACTION_INVALID")
        self.reactions[chat.id, int(params["message_id"])] = emoji
        self._wake()
        return True

    def _do_getfile(self, bot: FakeBot, params: dict[str, Any]) -> Any:
        data = self.files.get(params["file_id"])
        if data is None:
            raise TelegramRefusal(
                400, "Bad Request: wrong file_id or the file is temporarily unavailable"
            )
        if len(data) > DOWNLOAD_BYTES_MAX:
            raise TelegramRefusal(400, "Bad Request: file is too big")
        name = params["file_id"]
        return {"file_id": name, "file_size": len(data), "file_path": f"documents/{name}"}

    # ── rules that several share ───────────────────────────────────────────────────────────────

    def _chat(self, params: dict[str, Any]) -> FakeChat:
        chat_id = str(params.get("chat_id"))
        chat = self.chats.get(int(chat_id)) if chat_id.lstrip("-").isdigit() else None
        if chat is None:
            raise TelegramRefusal(400, "Bad Request: chat not found")
        if chat.moved_to:
            raise TelegramRefusal(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.moved_to,
            )
        if chat.gone:
            raise TelegramRefusal(*chat.gone)
        return chat

    def _thread(self, chat: FakeChat, params: dict[str, Any]) -> int | None:
        thread = params.get("message_thread_id")
        if thread is None:
            return 1 if chat.is_forum else None
        if (
            int(thread) not in chat.topics
        ):  # General is no topic of its own when sending: 1 is refused
            raise TelegramRefusal(400, "Bad Request: message thread not found")
        return int(thread)

    def _text(self, params: dict[str, Any], name: str, most: int) -> str:
        text = str(params.get(name, ""))
        if params.get("parse_mode") == "HTML":
            try:
                text = visible(text)
            except CannotParse as odd:
                raise TelegramRefusal(400, f"Bad Request: can't parse entities: {odd}") from None
        elif "parse_mode" in params:
            self.complaints.append(f"parse_mode {params['parse_mode']} is not expected")
        if len(text.encode("utf-16-le", "surrogatepass")) // 2 > most:
            raise TelegramRefusal(
                400, f"Bad Request: message {'caption ' * (name != 'text')}is too long"
            )
        return text

    def _check_rate(self, chat: FakeChat) -> None:
        if not self.rates:
            return
        now, sent = anyio.current_time(), self._sent_at.setdefault(chat.id, [])
        span, most = (1.0, 1) if chat.type == "private" else (60.0, 20)
        sent[:] = [at for at in sent if at > now - span + 1e-6]  # sums of fractions
        if len(sent) >= most:
            wait = max(1, round(sent[0] + span - now + 0.5))
            raise TelegramRefusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        sent.append(now)


def _wanted(updates: list[dict[str, Any]], kinds: list[str]) -> list[dict[str, Any]]:
    return [
        update
        for update in updates
        if len(update) < 2 or any(k in update for k in kinds) or "odd" in update
    ]


def _params(asked: AskedOfFake) -> dict[str, Any]:
    kind = asked.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return {**asked.query, **(asked.json() if asked.body else {})}
    fields, files = read_form(asked)
    read = {n: msgspec.json.decode(t) if t[:1] in "{[" else t for n, t in fields.items()}
    return {**read, **files}
