"""FakeSlack: the Web API and Socket Mode as strict as Slack's documents (https://docs.slack.dev, October 2026:
reference/methods, apis/web-api/rate-limits, apis/events-api/using-socket-mode, authentication/verifying-requests-from-slack).

One message a second and channel, tickets of Socket Mode that open one connection, envelopes that come again until they
are acknowledged, files in three requests, private files only with the token and a login page without it.
"""

import hmac
import itertools
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import msgspec

from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of
from tests.channels.fake_socket import CutConnection, FakeSocket, SocketLeft

BOT_TOKEN, APP_TOKEN, SIGNING_SECRET = (
    "xoxb-1-2-three",
    "xapp-1-A2-three",
    "8f742231b10e8888abcd99yyyzzz85a5",
)
BOT_USER, BOT_ID, APP_ID, TEAM = "U0BOT00001", "B0BOT00001", "A0APP00001", "T0TEAM0001"
AGAIN_S = 5.0
"""An envelope that was not acknowledged so long comes again."""


class SlackRefused(Exception):
    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.body = {"ok": False, "error": error, **more}


class SlackChat(msgspec.Struct):
    id: str
    kind: str
    """im, mpim, channel or group."""
    user: str | None = None
    archived: bool = False
    joined: bool = True
    messages: list[dict[str, Any]] = []


class FakeSlack(FakeHttpService):
    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._now_ms = now_ms
        self._count = itertools.count(1)
        self.tokens = {BOT_TOKEN, APP_TOKEN}
        self.scopes = {
            "chat:write",
            "reactions:write",
            "im:write",
            "files:write",
            "channels:history",
        }
        self.users = {"U0ANA00001": "ana"}
        self.chats: dict[str, SlackChat] = {}
        self.files: dict[str, bytes] = {}
        self.uploads: dict[str, tuple[str, int]] = {}
        self.uploaded: dict[str, bytes] = {}
        self.reactions: list[tuple[str, str, str]] = []
        self.tickets: set[str] = set()
        self.unacked: dict[str, dict[str, Any]] = {}
        self.acked: list[str] = []
        self.connections: dict[int, Any] = {}
        self.opened = 0
        self.quiet = False
        """No pings and no words: a socket that is alive and deaf."""
        self.other_connections = 0
        self._posted_at: dict[str, float] = {}
        self.room = self.chat("channel")

    # ── what people do ─────────────────────────────────────────────────────────────────────────

    def chat(self, kind: str, *, user: str | None = None) -> SlackChat:
        letter = {"im": "D", "mpim": "G"}.get(kind, "C")
        chat = SlackChat(f"{letter}0{next(self._count):08d}", kind, user)
        self.chats[chat.id] = chat
        return chat

    def direct(self, user: str) -> SlackChat:
        found = (chat for chat in self.chats.values() if chat.user == user)
        return next(found, None) or self.chat("im", user=user)

    def ts(self) -> str:
        return f"{self._now_ms() // 1000}.{next(self._count):06d}"

    def say(self, user: str, text: str, where: SlackChat | None = None, **extra: Any) -> str:
        chat = where or self.direct(user)
        message = {"type": "message", "user": user, "text": text, "ts": self.ts(), **extra}
        chat.messages.append(message)
        self.tell(
            {**message, "channel": chat.id, "channel_type": chat.kind, "event_ts": message["ts"]}
        )
        return str(message["ts"])

    def callback(self, event: Any) -> dict[str, Any]:
        return {
            "token": "gone",
            "team_id": TEAM,
            "api_app_id": APP_ID,
            "type": "event_callback",
            "event": event,
            "event_id": f"Ev{next(self._count):08d}",
            "event_time": self._now_ms() // 1000,
        }

    def tell(self, event: Any) -> None:
        """Held until it is acknowledged, as by Socket Mode."""
        envelope_id = f"envelope-{next(self._count)}"
        self.unacked[envelope_id] = {
            "envelope_id": envelope_id,
            "type": "events_api",
            "accepts_response_payload": False,
            "retry_attempt": 0,
            "retry_reason": "",
            "payload": self.callback(event),
        }
        for out in self.connections.values():
            out.send_nowait(self.unacked[envelope_id])
            break  # one connection gets it, not all

    def signed(
        self, body: bytes, *, secret: str = SIGNING_SECRET, age_s: int = 0
    ) -> dict[str, str]:
        stamp = str(self._now_ms() // 1000 - age_s)
        base = b"v0:" + stamp.encode() + b":" + body
        signature = hmac.new(secret.encode(), base, sha256).hexdigest()
        return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={signature}"}

    def texts(self, where: SlackChat | str) -> list[str]:
        chat = self.direct(where) if isinstance(where, str) else where
        return [str(each["text"]) for each in chat.messages if each["user"] == BOT_USER]

    # ── Web API ────────────────────────────────────────────────────────────────────────────────

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        if asked.host == "files.slack.com":
            return self._file(asked)
        method = asked.path.removeprefix("/api/")
        handler = getattr(self, "_" + method.replace(".", "_").lower(), None)
        if handler is None or asked.method != "POST":
            return json_of({"ok": False, "error": "unknown_method"})
        try:
            self._let_in(asked, method)
            answer = handler(_arguments(asked))
        except SlackRefused as refused:
            return json_of(refused.body)
        return answer if isinstance(answer, FakeAnswer) else json_of({"ok": True, **answer})

    def _let_in(self, asked: AskedOfFake, method: str) -> None:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if not token:
            raise SlackRefused("not_authed")
        if token not in self.tokens:
            raise SlackRefused("invalid_auth")
        if token.startswith("xapp") != (method == "apps.connections.open"):
            raise SlackRefused("not_allowed_token_type")

    def _need(self, scope: str) -> None:
        if scope not in self.scopes:
            raise SlackRefused("missing_scope", needed=scope, provided=",".join(self.scopes))

    def _auth_test(self, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "user_id": BOT_USER,
            "bot_id": BOT_ID,
            "team_id": TEAM,
            "team": "Workshop",
            "user": "claw",
        }

    def _apps_connections_open(self, given: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{next(self._count)}"
        self.tickets.add(ticket)
        return {"url": f"wss://wss-primary.slack.com/link/?ticket={ticket}&app_id={APP_ID}"}

    def _chat_of(self, given: dict[str, Any]) -> SlackChat:
        chat = self.chats.get(str(given.get("channel")))
        if chat is None:
            raise SlackRefused("channel_not_found")
        return chat

    def _conversations_open(self, given: dict[str, Any]) -> dict[str, Any]:
        self._need("im:write")
        if given.get("users") not in self.users:
            raise SlackRefused("user_not_found")
        return {"channel": {"id": self.direct(str(given["users"])).id}}

    def _chat_postmessage(self, given: dict[str, Any]) -> dict[str, Any] | FakeAnswer:
        self._need("chat:write")
        chat = self._chat_of(given)
        if chat.archived:
            raise SlackRefused("is_archived")
        if not chat.joined:
            raise SlackRefused("not_in_channel")
        text = str(given.get("text") or "")
        if not text.strip():
            raise SlackRefused("no_text")
        if len(text) > 40_000:
            raise SlackRefused("msg_too_long")
        now = anyio.current_time()
        if now - self._posted_at.get(chat.id, -9.0) < 1.0 / 3:  # short bursts over 1/s are let pass
            body = msgspec.json.encode({"ok": False, "error": "ratelimited"})
            return FakeAnswer(429, body, headers={"retry-after": "3"})
        self._posted_at[chat.id] = now
        message = {
            "type": "message",
            "user": BOT_USER,
            "bot_id": BOT_ID,
            "text": text,
            "ts": self.ts(),
            **{name: given[name] for name in ("thread_ts", "metadata") if given.get(name)},
        }
        if "<!" in text or "<@" in text:
            self.complaints.append(f"people were called: {text}")
        chat.messages.append(message)
        self.tell({**message, "channel": chat.id, "channel_type": chat.kind})
        return {"channel": chat.id, "ts": message["ts"], "message": message}

    def _chat_update(self, given: dict[str, Any]) -> dict[str, Any]:
        for message in self._chat_of(given).messages:
            if message["ts"] == given.get("ts"):
                if message["user"] != BOT_USER:
                    raise SlackRefused("cant_update_message")
                message["text"] = given["text"]
                return {"ts": message["ts"]}
        raise SlackRefused("message_not_found")

    def _reactions_add(self, given: dict[str, Any]) -> dict[str, Any]:
        self._need("reactions:write")
        if not str(given.get("name", "")).isascii():
            raise SlackRefused("invalid_name")
        self.reactions.append(
            (self._chat_of(given).id, str(given["timestamp"]), str(given["name"]))
        )
        return {}

    def _reactions_remove(self, given: dict[str, Any]) -> dict[str, Any]:
        self.reactions.remove((str(given["channel"]), str(given["timestamp"]), str(given["name"])))
        return {}

    def _conversations_history(self, given: dict[str, Any]) -> dict[str, Any]:
        self._need("channels:history")
        limit = int(given.get("limit", 100))
        found = [
            each
            for each in self._chat_of(given).messages
            if float(each["ts"]) > float(given.get("oldest", 0)) and "thread_ts" not in each
        ]
        return {"messages": found[::-1][:limit], "has_more": len(found) > limit}

    def _conversations_replies(self, given: dict[str, Any]) -> dict[str, Any]:
        root = given.get("ts")
        found = [
            each
            for each in self._chat_of(given).messages
            if root in (each["ts"], each.get("thread_ts"))
        ]
        return {"messages": found}

    def _files_getuploadurlexternal(self, given: dict[str, Any]) -> dict[str, Any]:
        self._need("files:write")
        file_id = f"F0{next(self._count):08d}"
        self.uploads[file_id] = (str(given["filename"]), int(given["length"]))
        return {"upload_url": f"https://files.slack.com/upload/v1/{file_id}", "file_id": file_id}

    def _files_completeuploadexternal(self, given: dict[str, Any]) -> dict[str, Any]:
        chat = self.chats.get(str(given.get("channel_id")))
        if chat is None:
            raise SlackRefused("channel_not_found")
        for file in given["files"]:
            if file["id"] not in self.uploaded:
                raise SlackRefused("file_not_found")
        comment = str(given.get("initial_comment") or "")
        message = {"type": "message", "user": BOT_USER, "text": comment, "ts": self.ts()}
        chat.messages.append({**message, "files": given["files"]})
        return {"files": given["files"]}

    def _file(self, asked: AskedOfFake) -> FakeAnswer:
        if asked.method == "POST":
            file_id = asked.path.rpartition("/")[2]
            if len(asked.body) != self.uploads[file_id][1]:
                return FakeAnswer(400)
            self.uploaded[file_id] = asked.body
            return FakeAnswer(200, b"OK", "text/plain")
        if (
            asked.headers.get("authorization") != f"Bearer {BOT_TOKEN}"
            or asked.path not in self.files
        ):
            return FakeAnswer(200, b"<!DOCTYPE html><html>Sign in to Workshop", "text/html")
        return FakeAnswer(200, self.files[asked.path], "application/octet-stream")

    # ── Socket Mode ────────────────────────────────────────────────────────────────────────────

    async def talk(self, target: str, socket: FakeSocket) -> None:
        [ticket] = parse_qs(urlsplit(target).query).get("ticket", [""])
        if ticket not in self.tickets:
            raise CutConnection
        self.tickets.remove(ticket)
        self.opened += 1
        number, (out, into) = self.opened, anyio.create_memory_object_stream[Any](10_000)
        hello = {
            "type": "hello",
            "num_connections": 1 + self.other_connections,
            "connection_info": {"app_id": APP_ID},
            "debug_info": {"host": "applink-1", "approximate_connection_time": 18060},
        }
        await socket.send(hello)
        self.connections[number] = out
        for envelope in self.unacked.values():
            out.send_nowait({**envelope, "retry_attempt": 1, "retry_reason": "timeout"})
        ended: list[BaseException] = []
        try:
            async with into, anyio.create_task_group() as tasks:
                tasks.start_soon(self._say, into, socket, tasks, ended)
                tasks.start_soon(self._ping, socket)
                await self._listen(socket, ended)
                tasks.cancel_scope.cancel()
        finally:
            self.connections.pop(number).close()
        if ended:
            raise ended[0]

    async def _listen(self, socket: FakeSocket, ended: list[BaseException]) -> None:
        while True:
            try:
                ack = await socket.receive()
            except SocketLeft as left:
                ended.append(left)
                return
            if self.unacked.pop(str(ack.get("envelope_id")), None) is None:
                self.complaints.append(f"acknowledged what nobody sent: {ack}")
            self.acked.append(str(ack.get("envelope_id")))

    async def _say(
        self,
        into: anyio.abc.ObjectReceiveStream[Any],
        socket: FakeSocket,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> None:
        async for frame in into:
            if isinstance(frame, BaseException):
                ended.append(frame)
                tasks.cancel_scope.cancel()
                return
            if not self.quiet:
                await socket.send(frame)

    async def _ping(self, socket: FakeSocket) -> None:
        while True:
            await anyio.sleep(AGAIN_S)
            if not self.quiet:
                await socket.ping()
                for envelope in list(self.unacked.values()):
                    await socket.send({**envelope, "retry_attempt": 1, "retry_reason": "timeout"})

    def order(self, what: Any) -> None:
        for out in self.connections.values():
            out.send_nowait(what)

    def drop(self) -> None:
        self.order(CutConnection())


def _arguments(asked: AskedOfFake) -> dict[str, Any]:
    kind = asked.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return dict(asked.json())
    if kind.startswith("application/x-www-form-urlencoded") or not asked.body:
        return {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    raise SlackRefused("invalid_post_type")
