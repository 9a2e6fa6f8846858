"""Matrix for the contract of channels: a person's hands and eyes on `FakeHomeserver`."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from crossclaw.channels.contract import ChannelAccount, GivenChannel
from crossclaw.channels.matrix.account import open_account
from crossclaw.channels.matrix.manifest import MANIFEST
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.secret import Secret
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import BOT, TOKEN, FakeHomeserver, refusal


class MatrixDriver(ChannelDriver):
    name = "matrix"
    traits = MANIFEST.traits
    text_limit = 8_000
    knows_key_s = math.inf
    has_threads = True
    session_names = (r"matrix:channel:!room\d+",)  # its threads are the room's

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeHomeserver()
        self.settings = MatrixSettings(
            homeserver="https://fake.example",
            access_token=Secret(TOKEN),
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            require_mention=False,
        )
        self._rooms: dict[str, str] = {}
        self._root: str | None = None

    def transport(self) -> FakeTransport:
        return FakeTransport({"fake.example": self.fake})

    def channel(self) -> GivenChannel:
        async def opened(host: Any) -> ChannelAccount:
            return open_account(self.settings, host)

        open_it: Callable[[Any], Awaitable[ChannelAccount]] = opened
        return HandedOver(self, open_it)

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        await self.fake.followed.wait()  # what was said before the first sync is not answered
        yield

    def person_id(self, person: str) -> str:
        return _id(person)

    def _room(self, person: str, group: str | None) -> str:
        name = group or person
        if name not in self._rooms:
            others = ("@third:fake.example",) if group else ()
            self._rooms[name] = self.fake.room_with(_id(person), *others)
        return self._rooms[name]

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        return self.fake.say(self._room(person, group), _id(person), text)

    async def say_in_thread(self, text: str, *, group: str, person: str = "1001") -> str:
        room = self._room(person, group)
        if self._root is None:
            notice = {"msgtype": "m.notice", "body": "the thread's first message"}
            self._root = self.fake.happen(room, _id(person), "m.room.message", notice)
        relation = {"rel_type": "m.thread", "event_id": self._root}
        return self.fake.say(room, _id(person), text, **{"m.relates_to": relation})

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        self.fake.media["a.png"] = data
        content = {"msgtype": "m.image", "body": text, "filename": "a.png", "url": "mxc://fake.example/a.png"}  # fmt: skip
        info = {"mimetype": "image/png", "size": len(data)}
        room = self._room(person, None)
        self.fake.happen(room, _id(person), "m.room.message", {**content, "info": info})
        return True

    async def change(self, message_id: str, text: str) -> bool:
        room, said = self.fake.find(message_id)
        new = {"m.new_content": {"msgtype": "m.text", "body": text}}
        relation = {"rel_type": "m.replace", "event_id": message_id}
        self.fake.say(room, said["sender"], f"* {text}", **new, **{"m.relates_to": relation})
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.bring(*self.fake.find(message_id))

    async def say_as_us(self, text: str) -> None:
        self.fake.say(self._room("1001", None), BOT, text)

    async def say_as_bot(self, text: str) -> bool:
        """A notice: what bots say, by the specification, and what nobody answers."""
        words = {"msgtype": "m.notice", "body": text}
        self.fake.happen(self._room("1001", None), _id("1001"), "m.room.message", words)
        return True

    async def bring_hostile(self) -> None:
        room, sender = self._room("1001", None), _id("1001")
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        whole = {"type": "m.room.message", "sender": sender, "event_id": "$odd"}
        words = {"msgtype": "m.text", "body": "x"}
        for odd in (
            7,
            {"type": "m.room.message"},
            {**whole, "content": "text"},
            {**whole, "content": {"msgtype": 5, "body": {"a": 1}}},
            {**whole, "content": {**words, "body": None, "m.relates_to": [1]}},
            {**whole, "content": {"msgtype": "m.image", "body": "x", "url": 5, "file": [], "info": "y"}},
            {**whole, "content": {"msgtype": "m.image", "body": "x", "url": "http://10.0.0.1/x"}},
            {**whole, "content": {**words, "m.relates_to": {"rel_type": "m.replace"}, "m.new_content": 3}},
            {**whole, "type": "m.room.encrypted", "content": {"algorithm": {}, "ciphertext": 1}},
            {**whole, "state_key": "", "type": "m.room.member", "content": {"membership": []}},
            {**whole, "content": {"msgtype": deep}},
            {**whole, "sender": None, "content": words},
        ):  # fmt: skip
            self.fake.bring(room, odd)

    def seen(self) -> list[str]:
        return [text for _, text in self.fake.seen]

    def places(self) -> list[str]:
        return [f"{room} {self._relation(at).get('event_id')}" for at, (room, _) in self._shown()]

    def answered(self) -> list[str | None]:
        named = [self._relation(at).get("m.in_reply_to") or {} for at, _ in self._shown()]
        return [each.get("event_id") for each in named]

    def _shown(self) -> list[tuple[int, tuple[str, str]]]:
        return list(enumerate(self.fake.seen))

    def _relation(self, at: int) -> dict[str, Any]:
        return self.fake.relations[at]

    async def wait_seen(self, count: int) -> None:
        await self.fake.wait_seen(count)

    def fail_next_send(self, how: Failure) -> None:
        match how:
            case "not sent":
                self.fake.cut("send", "before")
            case "lost before":
                self.fake.cut("send", "read")
            case "lost after":
                self.fake.cut("send", "after")
            case "later":
                limited = refusal(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=7000)
                self.fake.refuse("send", limited)
            case "never":
                self.fake.refuse("send", refusal(400, "M_BAD_JSON", "Content not JSON."))
            case "gone":
                self.fake.refuse("send", refusal(403, "M_FORBIDDEN", "User not in room"))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append(("send", act))

    def typing_seen(self) -> int:
        assert not self.fake.typing or not self.fake.typing[-1], "it has to be ended"
        return len(self.fake.typing)

    def reactions_seen(self) -> int:
        return len(self.fake.reactions)

    def files_seen(self) -> list[bytes]:
        return self.fake.uploads

    def waiting(self) -> int:
        return len(self.fake.stream) - self.fake.acknowledged

    def complaints(self) -> list[str]:
        return self.fake.complaints


def _id(person: str) -> str:
    return f"@p{person}:fake.example"
