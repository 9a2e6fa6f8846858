"""WhatsApp for the contract of channels: a person's hands and eyes on `FakeWhatsApp`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from crossclaw.channels.contract import GivenChannel, WebhookAnswer, WebhookRequest
from crossclaw.channels.whatsapp.account import open_account
from crossclaw.channels.whatsapp.manifest import MANIFEST
from crossclaw.channels.whatsapp.settings import WhatsAppAck, WhatsAppSettings
from crossclaw.domain.errors import CrossclawError
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_http import FakeTransport, json_of
from tests.channels.whatsapp.fake import GRAPH, MEDIA_HOST, CloudRefusal, FakeWhatsApp
from tests.channels.whatsapp.test_whatsapp import cloud_of

SEND = "/messages"


class WhatsAppDriver(ChannelDriver):
    name = "whatsapp"
    traits = MANIFEST.traits
    text_limit = 4_096
    has_groups = False  # the Cloud API has none
    later_s = 6.0  # the pace to one person, which Meta names in its documents and not in its answer

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeWhatsApp()
        self.fake.statuses = False  # or nothing would stay uncertain
        self.settings = WhatsAppSettings(
            cloud=cloud_of(self.fake),
            dm_policy="open",
            allow_from=("*",),
            send_read_receipts=False,  # the failures below are of messages that people see
        )
        self._brought: dict[str, dict[str, Any]] = {}
        self._channel: HandedOver | None = None

    def person_id(self, person: str) -> str:
        return f"+1650555{person}"

    def transport(self) -> FakeTransport:
        return FakeTransport({GRAPH: self.fake, MEDIA_HOST: self.fake})

    def channel(self) -> GivenChannel:
        self._channel = HandedOver(self, lambda host: open_account(self.settings, host))
        return self._channel

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.fake.serve_webhook, self._call)
            yield
            tasks.cancel_scope.cancel()

    async def _call(self, request: WebhookRequest) -> WebhookAnswer:
        """What the gateway's HTTP server makes of an account that could not store something."""
        assert self._channel is not None
        try:
            return await self._channel.webhook(request)
        except CrossclawError:
            return WebhookAnswer(status=503)

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        message_id = self.fake.say(self.person_id(person), text)
        self._brought[message_id] = self.fake.waiting[-1]
        return message_id

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        image = {**self.fake.put_media(data, "image/png"), "caption": text}
        self.fake.say(self.person_id(person), image=image)
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.notify(self._brought[message_id])

    async def say_as_us(self, text: str) -> None:
        self.fake.say(self.fake.number, text)

    async def bring_hostile(self) -> None:
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        sender = {"from": "16505551001", "id": "w1", "timestamp": "1", "type": "text"}
        for odd in (
            {"messages": 7},
            {"messages": [None, 7, "x", {}, deep]},
            {"messages": [{**sender, "text": {"body": 5}}]},
            {"messages": [{**sender, "from": "'; DROP", "text": {"body": "x"}}]},
            {"messages": [{**sender, "timestamp": "soon", "text": {"body": "x"}}]},
            {"statuses": [{"id": 5}, {"id": "x", "status": "failed", "biz_opaque_callback_data": "no such key"}]},
            {"contacts": [{"wa_id": 5}], "messages": []},
        ):  # fmt: skip
            self.fake.notify(odd)

    def seen(self) -> list[str]:
        return [seen.text for seen in self.fake.seen]

    def places(self) -> list[str]:
        return [each.person for each in self.fake.seen]

    def answered(self) -> list[str | None]:
        return [each.reply_to for each in self.fake.seen]

    async def wait_seen(self, count: int) -> None:
        await self.fake.wait_seen(count)

    def fail_next_send(self, how: Failure) -> None:
        codes = {"later": 131056, "never": 131009, "gone": 131026}
        cuts: dict[str, Any] = {"not sent": "before", "lost before": "read", "lost after": "after"}
        if how in cuts:
            self.fake.cut(SEND, cuts[how])
        else:
            self.fake.refuse(SEND, json_of(CloudRefusal(codes[how], how).body, 400))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append((SEND, act))

    def at_its_best(self) -> None:
        ack = WhatsAppAck(emoji="👍")
        self.settings = msgspec.structs.replace(self.settings, ack_reaction=ack)

    def attempts(self) -> int:
        return sum(each.path.endswith(SEND) for each in self.fake.requests)

    def typing_seen(self) -> int:
        return sum(typing for _, typing in self.fake.receipts)

    def reactions_seen(self) -> int:
        return len(self.fake.reactions)

    def files_seen(self) -> list[bytes]:
        return [each.data for each in self.fake.seen if each.data]

    def waiting(self) -> int:
        return len(self.fake.waiting)

    def complaints(self) -> list[str]:
        return self.fake.complaints
