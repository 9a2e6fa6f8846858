"""Slack for the contract of channels: a person's hands and eyes on `FakeSlack`, by Socket Mode."""

from collections.abc import Callable
from typing import Any

import anyio

from crossclaw.channels.contract import ChannelAccount, ChannelHost, GivenChannel
from crossclaw.channels.slack.account import SlackAccount
from crossclaw.channels.slack.manifest import MANIFEST
from crossclaw.channels.slack.settings import SlackSettings
from crossclaw.config.channels import GroupSettings
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_http import FakeAnswer, FakeTransport, json_of
from tests.channels.fake_socket import SocketPlatform
from tests.channels.slack.fake import APP_TOKEN, BOT_ID, BOT_TOKEN, BOT_USER, FakeSlack

SEND = "chat.postMessage"


class SlackDriver(SocketPlatform, ChannelDriver):
    name = "slack"
    traits = MANIFEST.traits
    finds_lost = True
    has_threads = True
    session_names = (r"slack:channel:C\d+", r"slack:channel:C\d+:thread:\d+\.\d{6}")

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeSlack(VirtualClock().now_ms)
        self._said: dict[str, dict[str, Any]] = {}
        self._root: str | None = None
        self.settings = SlackSettings(
            bot_token=Secret(BOT_TOKEN),
            app_token=Secret(APP_TOKEN),
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            channels={"*": GroupSettings(require_mention=False)},
        )

    def is_connected(self) -> bool:
        return bool(self.fake.connections)

    def transport(self) -> FakeTransport:
        return FakeTransport(dict.fromkeys(("slack.com", "files.slack.com"), self.fake))

    def channel(self) -> GivenChannel:
        async def open_it(host: ChannelHost) -> ChannelAccount:
            return SlackAccount(
                self.settings, host, self.dial({"wss-primary.slack.com": self.fake})
            )

        return HandedOver(self, open_it)

    def person_id(self, person: str) -> str:
        return self._user(person)

    def _user(self, person: str) -> str:
        user = f"U0{person:0>8}"
        self.fake.users[user] = person
        return user

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        user = self._user(person)
        where = self.fake.room if group else self.fake.direct(user)
        ts = self.fake.say(user, text, where)
        message = where.messages[-1]
        self._said[ts] = {**message, "channel": where.id, "channel_type": where.kind}
        return ts

    async def say_in_thread(self, text: str, *, group: str, person: str = "1001") -> str:
        root = self._root = self._root or self.fake.ts()
        return self.fake.say(self._user(person), text, self.fake.room, thread_ts=root)

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        path = "/files-pri/T1-F1/download/a.png"
        self.fake.files[path] = data
        file = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": len(data)}
        file |= {"url_private_download": f"https://files.slack.com{path}"}
        self.fake.say(self._user(person), text, subtype="file_share", files=[file])
        return True

    async def change(self, message_id: str, text: str) -> bool:
        said = self._said[message_id]
        where = {name: said[name] for name in ("channel", "channel_type")}
        before = {name: value for name, value in said.items() if name not in where}
        now = {**before, "text": text, "edited": {"user": said["user"], "ts": self.fake.ts()}}
        event = {"type": "message", "subtype": "message_changed", "ts": self.fake.ts(), **where}
        self.fake.tell({**event, "message": now, "previous_message": before})
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.tell(self._said[message_id])

    async def say_as_us(self, text: str) -> None:
        where = self.fake.direct(self._user("1001"))
        event = {"type": "message", "user": BOT_USER, "bot_id": BOT_ID, "text": text}
        self.fake.tell({**event, "ts": self.fake.ts(), "channel": where.id, "channel_type": "im"})

    async def say_as_bot(self, text: str) -> bool:
        event = {"type": "message", "bot_id": "B0OTHER001", "subtype": "bot_message", "text": text}
        room = self.fake.room
        self.fake.tell(
            {**event, "ts": self.fake.ts(), "channel": room.id, "channel_type": "channel"}
        )
        return True

    async def bring_hostile(self) -> None:
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        whole = {
            "type": "message",
            "user": self._user("1001"),
            "text": "x",
            "ts": "1",
            "channel": 9,
        }
        for event in (None, 7, deep, whole, {**whole, "channel": "C1", "ts": "nan", "text": ""}):
            self.fake.tell(event)
        self.fake.order(b'{"type": 7}')

    def _ours(self) -> list[tuple[str, dict[str, Any]]]:
        chats = self.fake.chats.values()
        said = [(chat.id, message) for chat in chats for message in chat.messages]
        return [(where, message) for where, message in said if message["user"] == BOT_USER]

    def seen(self) -> list[str]:
        return [str(message["text"]) for _, message in self._ours()]

    def places(self) -> list[str]:
        return [f"{where} {message.get('thread_ts')}" for where, message in self._ours()]

    def answered(self) -> list[str | None]:
        """By a thread under it."""
        return [message.get("thread_ts") for _, message in self._ours()]

    async def wait_seen(self, count: int) -> None:
        while len(self.seen()) < count:  # noqa: ASYNC110  time is virtual, and the fake has no event for it
            await anyio.sleep(0.05)

    def fail_next_send(self, how: Failure) -> None:
        match how:
            case "not sent":
                self.fake.cut(SEND, "before")
            case "lost before":
                self.fake.cut(SEND, "read")
            case "lost after":
                self.fake.cut(SEND, "after")
            case "later":
                body = b'{"ok": false, "error": "ratelimited"}'
                self.fake.refuse(SEND, FakeAnswer(429, body, headers={"retry-after": "7"}))
            case "never":
                self.fake.refuse(SEND, json_of({"ok": False, "error": "msg_too_long"}))
            case "gone":
                self.fake.refuse(SEND, json_of({"ok": False, "error": "channel_not_found"}))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append((SEND, act))

    def attempts(self) -> int:
        return sum(each.path.endswith(SEND) for each in self.fake.requests)

    def reactions_seen(self) -> int:
        return len(self.fake.reactions)

    def files_seen(self) -> list[bytes]:
        return list(self.fake.uploaded.values())

    def waiting(self) -> int:
        return len(self.fake.unacked)

    def complaints(self) -> list[str]:
        return self.fake.complaints
