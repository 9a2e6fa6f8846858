"""Telegram for the contract of channels: a person's hands and eyes on `FakeTelegram`."""

from collections.abc import Callable
from typing import Any

from crossclaw.channels.contract import GivenChannel
from crossclaw.channels.telegram.account import open_account
from crossclaw.channels.telegram.manifest import MANIFEST
from crossclaw.channels.telegram.settings import TelegramSettings
from crossclaw.domain.secret import Secret
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_http import FakeTransport, json_of
from tests.channels.telegram.fake import FakeTelegram

TOKEN = "700:AAE-the-token"
SEND = "/sendMessage"


def refusal(code: int, text: str, **parameters: int) -> Any:
    body = {"ok": False, "error_code": code, "description": text, "parameters": parameters}
    return json_of(body, code)


class TelegramDriver(ChannelDriver):
    name = "telegram"
    traits = MANIFEST.traits
    text_limit = 4_096
    has_threads = True
    session_names = ("telegram:group:-1001", "telegram:group:-1002:topic:7")

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.fake = FakeTelegram(rates=True)
        self.bot = self.fake.add_bot(TOKEN)
        given = {"bot_token": Secret(TOKEN), "dm_policy": "open", "allow_from": ("*",)}
        groups = {"group_policy": "open", "require_mention": False}
        self.settings = TelegramSettings(**{**given, **groups, **settings})
        self._brought: dict[str, dict[str, Any]] = {}

    def transport(self) -> FakeTransport:
        return FakeTransport({"api.telegram.org": self.fake})

    def channel(self) -> GivenChannel:
        return HandedOver(self, lambda host: open_account(self.settings, host))

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        fields: dict[str, Any] = {"from": {"id": int(person), "is_bot": False, "first_name": "Ann"}}
        if group is not None:
            self.fake.add_chat(int(group), "supergroup", title="Team")
        number = self.fake.say(self.bot, int(group or person), text, **fields)
        self._brought[str(number)] = self.bot.updates[-1]
        return str(number)

    async def say_in_thread(self, text: str, *, group: str, person: str = "1001") -> str:
        sender = {"id": int(person), "is_bot": False, "first_name": "Ann"}
        forum = int(group) - 1
        if forum not in self.fake.chats:
            self.fake.add_chat(forum, "supergroup", title="Forum", is_forum=True, topics={7})
        topic = {"message_thread_id": 7, "is_topic_message": True}
        return str(self.fake.say(self.bot, forum, text, **{"from": sender}, **topic))

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        self.fake.files["p1"] = data
        photo = [{"file_id": "p1", "width": 9, "height": 9, "file_size": len(data)}]
        self.fake.say(self.bot, int(person), photo=photo, caption=text)
        return True

    async def change(self, message_id: str, text: str) -> bool:
        message = self._brought[message_id]["message"]
        changed = {**message, "text": text, "edit_date": message["date"] + 5}
        self.fake.update(self.bot, {"edited_message": changed})
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.update(self.bot, {"message": self._brought[message_id]["message"]})

    async def say_as_us(self, text: str) -> None:
        us = {"id": self.bot.id, "is_bot": True, "first_name": "Claw"}
        self.fake.say(self.bot, 1001, text, **{"from": us})

    async def say_as_bot(self, text: str) -> bool:
        other = {"id": 9, "is_bot": True, "first_name": "Beep"}
        self.fake.say(self.bot, 1001, text, **{"from": other})
        return True

    async def bring_hostile(self) -> None:
        chat = {"id": 1001, "type": "private"}
        sender = {"id": 1001, "is_bot": False, "first_name": "\u202e\x00"}
        whole = {"message_id": 1, "date": 1, "chat": chat, "from": sender, "text": "x"}
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        for odd in (
            {"message": 7},
            {"message": {**whole, "from": "ann"}},
            {"message": {**whole, "chat": {"id": "1001; DROP", "type": "private"}}},
            {"message": {**whole, "text": {"a": 1}}},
            {"message": {**whole, "text": "", "photo": [{"file_id": 5}]}},
            {"message": {**whole, "entities": [{"type": "mention", "offset": -9, "length": 1 << 40}]}
             | {"text": ""}},
            {"message": {**whole, "date": -(1 << 62), "text": ""}},
            {"message": None, "edited_message": None},
            {"message": {"odd": deep}},
        ):  # fmt: skip
            self.fake.update(self.bot, odd)

    def seen(self) -> list[str]:
        return self.fake.texts()

    def places(self) -> list[str]:
        return [f"{each.bot} {each.chat} {each.thread}" for each in self.fake.seen]

    def answered(self) -> list[str | None]:
        return [str(each.reply_to) if each.reply_to else None for each in self.fake.seen]

    async def wait_seen(self, count: int) -> None:
        await self.fake.wait_seen(count)

    def fail_next_send(self, how: Failure) -> None:
        match how:
            case "not sent":
                self.fake.cut(SEND, "before")
            case "lost before":
                self.fake.cut(SEND, "read")
            case "lost after":
                self.fake.cut(SEND, "after")
            case "later":
                self.fake.refuse(
                    SEND, refusal(429, "Too Many Requests: retry after 7", retry_after=7)
                )
            case "never":
                self.fake.refuse(SEND, refusal(400, "Bad Request: message is too long"))
                self.fake.refuse(SEND, refusal(400, "Bad Request: message is too long"))
            case "gone":
                self.fake.refuse(SEND, refusal(403, "Forbidden: bot was blocked by the user"))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append((SEND, act))

    def attempts(self) -> int:
        return sum(each.path.endswith(SEND) for each in self.fake.requests)

    def typing_seen(self) -> int:
        return len(self.fake.actions)

    def reactions_seen(self) -> int:
        return sum(map(len, self.fake.reactions.values()))

    def files_seen(self) -> list[bytes]:
        return [each.data for each in self.fake.seen if each.data]

    def waiting(self) -> int:
        return len(self.fake.pending(self.bot))

    def complaints(self) -> list[str]:
        return self.fake.complaints
