"""iMessage for the contract of channels: a person's hands and eyes on `FakeBlueBubbles`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from crossclaw.channels.contract import GivenChannel, WebhookAnswer, WebhookRequest
from crossclaw.channels.imessage.account import ASK_EVERY_S, open_account
from crossclaw.channels.imessage.manifest import MANIFEST
from crossclaw.channels.imessage.settings import IMessageSettings
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.secret import Secret
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_http import FakeTransport, json_of
from tests.channels.imessage.fake import BlueRefusal, FakeBlueBubbles

SEND = "/message/text"
PERSON = "+1650555{}"


class IMessageDriver(ChannelDriver):
    name = "imessage"
    traits = MANIFEST.traits
    session_names = (r"imessage:group:iMessage;\+;chat-1001",)
    later_s = 0.0  # BlueBubbles does not say when

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeBlueBubbles(private_api=False)
        self.settings = IMessageSettings(
            server_url="http://mac.local:1234",
            password=Secret(self.fake.password),
            webhook_secret=Secret("the-secret"),
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            require_mention=False,
        )
        self.fake.secret = "the-secret"
        self.fake.tells_own = False  # or nothing would stay uncertain
        self._channel: HandedOver | None = None

    def person_id(self, person: str) -> str:
        return PERSON.format(person)

    def transport(self) -> FakeTransport:
        return FakeTransport({"mac.local": self.fake})

    def channel(self) -> GivenChannel:
        self._channel = HandedOver(self, lambda host: open_account(self.settings, host))
        return self._channel

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        self.fake.call = self._call
        try:
            yield
        finally:
            self.fake.call = None

    async def _call(self, request: WebhookRequest) -> WebhookAnswer:
        assert self._channel is not None
        try:
            return await self._channel.webhook(request)
        except CrossclawError:
            return WebhookAnswer(status=503)

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        chat = f"iMessage;+;chat{group}" if group else None
        return await self.fake.say(PERSON.format(person), text, chat=chat)

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        self.fake.files["p1"] = data
        file = {"guid": "p1", "mimeType": "image/png", "transferName": "a.png", "totalBytes": len(data)}  # fmt: skip
        await self.fake.say(PERSON.format(person), text, attachments=[file])
        return True

    async def change(self, message_id: str, text: str) -> bool:
        row = next(row for row in self.fake.rows if row["guid"] == message_id)
        await self.fake.post("updated-message", {**row, "text": text, "dateEdited": 9})
        return True

    async def say_again(self, message_id: str) -> None:
        row = next(row for row in self.fake.rows if row["guid"] == message_id)
        await self.fake.post("new-message", row)

    async def say_as_us(self, text: str) -> None:
        await self.fake.say(PERSON.format("1001"), text, isFromMe=True)

    async def bring_hostile(self) -> None:
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        row = {"guid": "odd", "text": "x", "handle": {"address": PERSON.format("1001")}}
        for odd in (
            7,
            {},
            {**row, "handle": 5},
            {**row, "chats": [{"guid": 7}]},
            {**row, "chats": []},
            {**row, "attachments": [{}]},
            {"deep": deep},
        ):
            await self.fake.post("new-message", odd)  # type: ignore[arg-type]
        self.fake.add_row(PERSON.format("1001"), "x", handle="odd")
        await anyio.sleep(ASK_EVERY_S + 1)

    def seen(self) -> list[str]:
        return [seen.text for seen in self.fake.seen]

    def places(self) -> list[str]:
        return [each.chat for each in self.fake.seen]

    def answered(self) -> list[str | None]:
        return [each.reply_to for each in self.fake.seen]

    async def wait_seen(self, count: int) -> None:
        await self.fake.wait_seen(count)

    def fail_next_send(self, how: Failure) -> None:
        cuts: dict[str, Any] = {"not sent": "before", "lost before": "read", "lost after": "after"}
        statuses = {"later": 429, "never": 400, "gone": 404}
        if how in cuts:
            self.fake.cut(SEND, cuts[how])
        else:
            self.fake.refuse(SEND, json_of(BlueRefusal(statuses[how], how).body, statuses[how]))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append((SEND, act))

    def at_its_best(self) -> None:
        self.fake.private_api = True

    def attempts(self) -> int:
        return sum(each.path.endswith(SEND) for each in self.fake.requests)

    def typing_seen(self) -> int:
        return sum(what == "typing" for what, _ in self.fake.signals)

    def reactions_seen(self) -> int:
        return sum(what == "like" for what, _ in self.fake.signals)

    def files_seen(self) -> list[bytes]:
        return [each.data for each in self.fake.seen if each.data]

    def complaints(self) -> list[str]:
        return self.fake.complaints
