"""FakeDiscord: Discord's REST API as strict as its documents (https://discord.com/developers/docs, API v10, read in
August 2026: resources/message, resources/channel, topics/rate-limits, topics/opcodes-and-status-codes, reference).

It refuses a wrong token, a missing User-Agent, 2001 characters, an empty message, a nonce of 26 characters, files of
more than 10 MiB; it keeps rate limits per channel and for all, with their headers; a nonce that is enforced gives the
earlier message for three minutes. Its gateway is in `gateway.py`.
"""

import re
from collections import deque
from collections.abc import Callable
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec

from tests.channels.discord.gateway import FakeGateway
from tests.channels.discord.world import DM, FORUM, DiscordWorld, FakeChannel, Person
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of

TOKEN = "MTk4NjIy.fake.token"
NONCE_S = 180.0
FILE_BYTES_MAX = 10 * 2**20
PER_CHANNEL, PER_CHANNEL_S = 5, 5.0
PER_SECOND = 50


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str, errors: Any = None) -> None:
        super().__init__(message)
        body = {"code": code, "message": message, **({"errors": errors} if errors else {})}
        self.answer = json_of(body, status)


def form_error(field: str, code: str, message: str) -> Refused:
    errors = {field: {"_errors": [{"code": code, "message": message}]}}
    return Refused(400, 50035, "Invalid Form Body", errors)


class FakeDiscord(FakeHttpService):
    """Serves `discord.com` and its CDN; `say` is a person typing, `texts` is what people see of the bot."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.token = TOKEN
        self.hears_words = True
        """The switch Message Content Intent in the developer portal."""
        self.world = DiscordWorld(now_ms)
        self.gateway = FakeGateway(self.world, lambda: self.token)
        self.limited: int = 0
        """Requests that were refused because of a rate limit: a good client makes none."""
        self.pinged: list[str] = []
        """Messages of the bot that called people."""
        self.typing: list[str] = []
        self.reactions: list[tuple[str, str, str]] = []
        self._nonces: dict[str, tuple[dict[str, Any], float]] = {}
        self._spent: dict[str, deque[float]] = {}
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., FakeAnswer]]] = [
            ("GET", re.compile(r"/users/@me"), self._me),
            ("GET", re.compile(r"/applications/@me"), self._application),
            ("POST", re.compile(r"/users/@me/channels"), self._open_direct),
            ("GET", re.compile(r"/gateway/bot"), self._gateway_bot),
            ("GET", re.compile(r"/channels/(\d+)"), self._channel),
            ("GET", re.compile(r"/channels/(\d+)/messages"), self._messages),
            ("POST", re.compile(r"/channels/(\d+)/messages"), self._create),
            ("PATCH", re.compile(r"/channels/(\d+)/messages/(\d+)"), self._edit),
            ("POST", re.compile(r"/channels/(\d+)/typing"), self._typing),
            (
                "PUT",
                re.compile(r"/channels/(\d+)/messages/(\d+)/reactions/([^/]+)/@me"),
                self._react,
            ),
            (
                "DELETE",
                re.compile(r"/channels/(\d+)/messages/(\d+)/reactions/([^/]+)/@me"),
                self._unreact,
            ),
        ]

    # ── what people do ─────────────────────────────────────────────────────────────────────────

    def say(self, person: Person, text: str, where: FakeChannel | None = None, **extra: Any) -> str:
        """Answers the id of the message."""
        channel = where or self.world.direct(person)
        message = self.world.message(channel, person, text, **extra)
        self.gateway.tell_message("MESSAGE_CREATE", channel, message)
        return str(message["id"])

    def edit(self, channel: FakeChannel, message_id: str, text: str, at: str) -> None:
        message = self.world.find_message(channel, message_id)
        assert message is not None
        message |= {"content": text, "edited_timestamp": at}
        self.gateway.tell_message("MESSAGE_UPDATE", channel, message)

    def texts(self, where: FakeChannel | Person) -> list[str]:
        channel = self.world.direct(where) if isinstance(where, Person) else where
        return self.world.texts(channel)

    # ── the API ────────────────────────────────────────────────────────────────────────────────

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        if asked.host in ("cdn.discordapp.com", "media.discordapp.net"):
            return self._file(asked)
        try:
            self._let_in(asked)
            return self._answer(asked)
        except Refused as refused:
            return refused.answer

    def _let_in(self, asked: AskedOfFake) -> None:
        if not re.fullmatch(r"DiscordBot \(\S+, \S+\).*", asked.headers.get("user-agent", "")):
            raise Refused(403, 40333, "internal network error")  # as Cloudflare does
        if asked.headers.get("authorization") != f"Bot {self.token}":
            raise Refused(401, 0, "401: Unauthorized")

    def _answer(self, asked: AskedOfFake) -> FakeAnswer:
        path = asked.path.removeprefix("/api/v10")
        for method, shape, handler in self._routes:
            if method == asked.method and (found := shape.fullmatch(path)):
                limited, headers = self._limit(method, found)
                if limited is not None:
                    return limited
                answer = handler(asked, *found.groups())
                return msgspec.structs.replace(answer, headers={**answer.headers, **headers})
        raise Refused(404, 0, "404: Not Found")

    def _limit(self, method: str, found: re.Match[str]) -> tuple[FakeAnswer | None, dict[str, str]]:
        if wait_s := self._spend("", PER_SECOND, 1.0):
            headers = {"x-ratelimit-scope": "global", "x-ratelimit-global": "true"}
            return self._too_many(wait_s, headers, is_global=True), {}
        bucket = f"{method} {found.re.pattern}"
        key = f"{bucket} {found[1] if found.groups() else ''}"
        wait_s = self._spend(key, PER_CHANNEL, PER_CHANNEL_S)
        spent = self._spent[key]
        headers = {
            "x-ratelimit-limit": str(PER_CHANNEL),
            "x-ratelimit-remaining": str(PER_CHANNEL - len(spent)),
            "x-ratelimit-reset-after": f"{spent[0] + PER_CHANNEL_S - anyio.current_time():.3f}",
            "x-ratelimit-bucket": f"{hash(bucket) & 0xFFFFFFFF:08x}",
        }
        if wait_s:
            return self._too_many(wait_s, {**headers, "x-ratelimit-scope": "user"}), {}
        return None, headers

    def _spend(self, key: str, count: int, seconds: float) -> float:
        """How long to wait; 0: it is spent."""
        spent, now = self._spent.setdefault(key, deque()), anyio.current_time()
        while spent and spent[0] <= now - seconds:
            spent.popleft()
        if len(spent) >= count:
            return spent[0] + seconds - now
        spent.append(now)
        return 0.0

    def _too_many(
        self, wait_s: float, headers: dict[str, str], *, is_global: bool = False
    ) -> FakeAnswer:
        self.limited += 1
        body = {
            "message": "You are being rate limited.",
            "retry_after": round(wait_s, 3),
            "global": is_global,
        }
        answer = json_of(body, 429)
        return msgspec.structs.replace(answer, headers={**headers, "retry-after": str(wait_s)})

    def _me(self, asked: AskedOfFake) -> FakeAnswer:
        return json_of(self.world.bot.shown())

    def _application(self, asked: AskedOfFake) -> FakeAnswer:
        """An id of its own, as applications from before 2016 have; `flags` as resources/application lists them."""
        flags = 1 << 19 if self.hears_words else 0
        bot = self.world.bot
        shown = {"id": "1" + bot.id[1:], "name": bot.username, "icon": None, "description": ""}
        return json_of({**shown, "bot_public": True, "flags": flags, "bot": bot.shown()})

    def _gateway_bot(self, asked: AskedOfFake) -> FakeAnswer:
        limit = {
            "total": 1000,
            "remaining": self.gateway.identifies_left,
            "reset_after": 14_400_000,
            "max_concurrency": 1,
        }
        url = "wss://gateway.discord.gg"
        return json_of({"url": url, "shards": 1, "session_start_limit": limit})

    def _open_direct(self, asked: AskedOfFake) -> FakeAnswer:
        person = self.world.people.get(str(_json(asked).get("recipient_id")))
        if person is None:
            raise form_error("recipient_id", "USER_UNKNOWN", "Unknown user")
        return json_of(self.world.direct(person).shown())

    def _seen(self, channel_id: str) -> FakeChannel:
        channel = self.world.channels.get(channel_id)
        if channel is None:
            raise Refused(404, 10003, "Unknown Channel")
        if channel.hidden:
            raise Refused(403, 50001, "Missing Access")
        return channel

    def _channel(self, asked: AskedOfFake, channel_id: str) -> FakeAnswer:
        return json_of(self._seen(channel_id).shown())

    def _messages(self, asked: AskedOfFake, channel_id: str) -> FakeAnswer:
        limit = int(asked.query.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise form_error(
                "limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100."
            )
        after = int(asked.query.get("after", "0"))
        found = [each for each in self._seen(channel_id).messages if int(each["id"]) > after]
        return json_of(found[:limit][::-1])  # those next to `after`, the newest of them first

    def _writable(self, channel_id: str) -> FakeChannel:
        channel = self._seen(channel_id)
        if channel.type == FORUM:
            raise Refused(400, 40058, "Cannot send a message in a forum channel")
        if channel.type == DM and channel.recipients[0].blocks_us:
            raise Refused(403, 50007, "Cannot send messages to this user")
        if channel.read_only:
            raise Refused(403, 50013, "Missing Permissions")
        if channel.locked:
            raise Refused(403, 160005, "Thread is locked")
        if channel.archived:
            raise Refused(400, 50083, "Thread is archived")
        return channel

    def _create(self, asked: AskedOfFake, channel_id: str) -> FakeAnswer:
        channel = self._writable(channel_id)
        body, files = _form(asked)
        self._check_words(body, has_files=bool(files))
        self._check_reference(channel, body)
        nonce = str(body.get("nonce") or "")
        if nonce and body.get("enforce_nonce"):
            earlier = self._nonces.get(nonce)
            if earlier is not None and anyio.current_time() - earlier[1] < NONCE_S:
                return json_of(earlier[0])
        made = self._make(channel, body, files)
        self._nonces[nonce] = (made, anyio.current_time())
        return json_of(made)

    def _make(
        self, channel: FakeChannel, body: dict[str, Any], files: list[tuple[str, bytes, str]]
    ) -> dict[str, Any]:
        kept = [self.world.file(*each) for each in files]
        extra: dict[str, Any] = {"attachments": kept, "nonce": body.get("nonce")}
        if (reference := body.get("message_reference")) is not None:
            replied = self.world.find_message(channel, str(reference["message_id"]))
            if replied is not None:
                extra |= {
                    "type": 19,
                    "message_reference": reference,
                    "referenced_message": replied,
                }
        content = str(body.get("content") or "")
        message = self.world.message(channel, self.world.bot, content, **extra)
        self._note_pings(body, content)
        self.gateway.tell_message("MESSAGE_CREATE", channel, message)
        return message

    def _note_pings(self, body: dict[str, Any], content: str) -> None:
        allowed = body.get("allowed_mentions")
        if allowed is None and re.search(r"@everyone|@here|<@[!&]?\d+>", content):
            self.pinged.append(content)
        if allowed is not None and (allowed.get("parse") or allowed.get("users")):
            self.pinged.append(content)

    def _check_words(self, body: dict[str, Any], *, has_files: bool) -> None:
        content = body.get("content")
        if content is not None and not isinstance(content, str):
            raise form_error("content", "STRING_TYPE_CONVERT", "Could not interpret as string.")
        if len(content or "") > 2000:
            words = "Must be 2000 or fewer in length."
            raise form_error("content", "BASE_TYPE_MAX_LENGTH", words)
        if not (content or "").strip() and not has_files:
            raise Refused(400, 50006, "Cannot send an empty message")
        if len(str(body.get("nonce") or "")) > 25:
            words = "Must be 25 or fewer in length."
            raise form_error("nonce", "BASE_TYPE_MAX_LENGTH", words)
        allowed = body.get("allowed_mentions") or {}
        if set(allowed.get("parse", [])) - {"users", "roles", "everyone"}:
            raise form_error("allowed_mentions", "BASE_TYPE_CHOICES", "Not a valid choice.")

    def _check_reference(self, channel: FakeChannel, body: dict[str, Any]) -> None:
        reference = body.get("message_reference")
        if reference is None or not reference.get("fail_if_not_exists", True):
            return
        if self.world.find_message(channel, str(reference.get("message_id"))) is None:
            raise form_error(
                "message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message"
            )

    def _edit(self, asked: AskedOfFake, channel_id: str, message_id: str) -> FakeAnswer:
        channel = self._writable(channel_id)
        message = self.world.find_message(channel, message_id)
        if message is None:
            raise Refused(404, 10008, "Unknown Message")
        if message["author"]["id"] != self.world.bot.id:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        body = _json(asked)
        self._check_words(body, has_files=False)
        self._note_pings(body, str(body["content"]))
        message |= {"content": body["content"], "edited_timestamp": "2026-01-01T12:00:01+00:00"}
        self.gateway.tell_message("MESSAGE_UPDATE", channel, message)
        return json_of(message)

    def _typing(self, asked: AskedOfFake, channel_id: str) -> FakeAnswer:
        self.typing.append(self._writable(channel_id).id)
        return FakeAnswer(204)

    def _react(
        self, asked: AskedOfFake, channel_id: str, message_id: str, emoji: str
    ) -> FakeAnswer:
        if unquote(emoji).isascii():
            raise Refused(400, 10014, "Unknown Emoji")
        if self.world.find_message(self._seen(channel_id), message_id) is None:
            raise Refused(404, 10008, "Unknown Message")
        self.reactions.append((channel_id, message_id, unquote(emoji)))
        return FakeAnswer(204)

    def _unreact(
        self, asked: AskedOfFake, channel_id: str, message_id: str, emoji: str
    ) -> FakeAnswer:
        self.reactions.remove((channel_id, message_id, unquote(emoji)))
        return FakeAnswer(204)

    def _file(self, asked: AskedOfFake) -> FakeAnswer:
        if "authorization" in asked.headers:
            self.complaints.append("the token was shown to the file server")
        data = self.world.files.get(asked.path)
        if data is None or ("hm" not in asked.query and asked.host.startswith("cdn")):
            return FakeAnswer(404, b"This content is no longer available.", "text/plain")
        return FakeAnswer(200, data, "application/octet-stream")


def _json(asked: AskedOfFake) -> dict[str, Any]:
    if asked.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused(400, 50035, "Invalid Form Body")
    body = asked.json()
    if not isinstance(body, dict):
        raise Refused(400, 50035, "Invalid Form Body")
    return body


def _form(asked: AskedOfFake) -> tuple[dict[str, Any], list[tuple[str, bytes, str]]]:
    """The body, and files as (name, content, type). `attachments[].id` must be the n of `files[n]`."""
    kind = asked.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return _json(asked), []
    if len(asked.body) > FILE_BYTES_MAX:
        raise Refused(413, 40005, "Request entity too large")
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    body: dict[str, Any] = {}
    files = []
    for part in BytesParser(policy=HTTP).parsebytes(head + asked.body).iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        if name == "payload_json":
            body = msgspec.json.decode(data)
        elif re.fullmatch(r"files\[\d\]", str(name)):
            files.append((str(part.get_filename()), data, part.get_content_type()))
    ids = [each["id"] for each in body.get("attachments", [])]
    if ids and ids != list(range(len(files))):
        raise form_error("attachments", "ATTACHMENT_NOT_FOUND", "Unknown attachment")
    return body, files
