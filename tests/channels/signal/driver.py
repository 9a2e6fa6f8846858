"""Signal for the contract of channels: a person's hands and eyes on `FakeSignalCli`."""

import base64
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from crossclaw.channels.contract import ChannelAccount, ChannelHost, GivenChannel
from crossclaw.channels.http import HttpClients
from crossclaw.channels.signal.account import SignalAccount, open_account
from crossclaw.channels.signal.manifest import MANIFEST
from crossclaw.channels.signal.settings import SignalSettings
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.signal.fake import ACCOUNT, GROUP, OWN_UUID, FakeSignalCli, Refused, failed

UUID = "00000000-0000-4000-8000-00000000{}"


class OnFake(SignalAccount):
    """Connections go to the fake, which lives as long as the account is served."""

    def __init__(self, settings: SignalSettings, host: Any, fake: FakeSignalCli) -> None:
        self._fake = fake
        super().__init__(settings, host)

    async def serve(self, host: ChannelHost, **more: Any) -> None:
        async with anyio.create_task_group() as tasks:
            self._client = open_account(
                self._settings, _Dialing(host, self._fake.dial(tasks))
            )._client
            await super().serve(host, **more)
            tasks.cancel_scope.cancel()


class _Dialing:
    def __init__(self, host: ChannelHost, dial: Any) -> None:
        self._host = host
        self.http = HttpClients(dial=dial)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


class SignalDriver(ChannelDriver):
    name = "signal"
    traits = MANIFEST.traits
    brings_again = False
    session_names = (f"signal:group:{re.escape(GROUP)}",)

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeSignalCli()
        self.settings = SignalSettings(
            account=ACCOUNT,
            http_url="tcp://signal.example:7583",
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            require_mention=False,
        )
        self._said: dict[str, Any] = {}

    def channel(self) -> GivenChannel:
        async def opened(host: Any) -> ChannelAccount:
            return OnFake(self.settings, host, self.fake)

        return HandedOver(self, opened)

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        await self.fake.listening.wait()
        yield

    def person_id(self, person: str) -> str:
        return f"+49151000{person}"

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        info = {"groupInfo": {"groupId": GROUP, "groupName": "Team", "type": "DELIVER"}}
        said = self.fake.say(
            text,
            number=f"+49151000{person}",
            uuid=UUID.format(person),
            **(info if group else {}),
        )
        self._said[str(said["timestamp"])] = said
        return str(said["timestamp"])

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        self.fake.files["p1"] = base64.b64encode(data).decode()
        file = {"contentType": "image/png", "filename": "a.png", "id": "p1", "size": len(data)}
        number = f"+49151000{person}"
        self.fake.say(text, number=number, uuid=UUID.format(person), attachments=[file])
        return True

    async def change(self, message_id: str, text: str) -> bool:
        said = self._said[message_id]
        at, data = said["timestamp"] + 500, said["dataMessage"]
        edit = {"targetSentTimestamp": said["timestamp"], "dataMessage": {**data, "timestamp": at, "message": text}}  # fmt: skip
        kept = {name: value for name, value in said.items() if name != "dataMessage"}
        self.fake.bring({**kept, "timestamp": at, "editMessage": edit})
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.bring(self._said[message_id])

    async def say_as_us(self, text: str) -> None:
        self.fake.say(text, number=None, uuid=OWN_UUID)
        self.fake.say(text, number=ACCOUNT, uuid=OWN_UUID.upper())

    async def bring_hostile(self) -> None:
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        whole = {"sourceNumber": "+491510001001", "sourceUuid": None, "timestamp": 5}
        for odd in (
            7,
            {},
            {**whole, "dataMessage": "text"},
            {**whole, "dataMessage": {"timestamp": "now", "message": "x"}},
            {**whole, "dataMessage": {"timestamp": 5, "message": {"a": 1}}},
            {**whole, "dataMessage": {"timestamp": 5, "message": "", "mentions": [{"start": -4, "length": 1 << 40}]}},
            {**whole, "sourceNumber": "ann", "dataMessage": {"timestamp": 5, "message": "x"}},
            {**whole, "dataMessage": {"timestamp": 5, "message": "", "groupInfo": deep}},
            {**whole, "receiptMessage": {"isDelivery": True}},
            {**whole, "syncMessage": {"sentMessage": {"message": "x"}}},
        ):  # fmt: skip
            self.fake.bring(odd)

    def seen(self) -> list[str]:
        return [text for _, text in self.fake.seen]

    def places(self) -> list[str]:
        return [to for to, _ in self.fake.seen]

    def answered(self) -> list[str | None]:
        sent = [params for method, params in self.fake.calls if method == "send"]
        quoted = [params.get("quoteTimestamp") for params in sent]
        return [None if at is None else str(at) for at in quoted]

    async def wait_seen(self, count: int) -> None:
        await self.fake.wait_seen(count)

    def fail_next_send(self, how: Failure) -> None:
        match how:
            case "not sent":
                self._before_send("before")
            case "lost before":
                self.fake.cuts.append("read")
            case "lost after":
                self.fake.cuts.append("after")
            case "later":
                data = failed("RATE_LIMIT_FAILURE", retryAfterSeconds=7)
                self.fake.refusals.append(Refused(-5, "Rate limited", data))
            case "never":
                self.fake.refusals.append(Refused(-1, "Invalid style syntax"))
            case "gone":
                data = failed("UNREGISTERED_FAILURE")
                self.fake.refusals.append(Refused(-1, "Failed to send message", data))

    def _before_send(self, cut: Any) -> None:
        """Only once the account is connected: the next connection is the one for the reply."""
        self.fake.effects_on_listening.append(lambda: self.fake.cuts.append(cut))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append(act)

    def typing_seen(self) -> int:
        calls = [params for method, params in self.fake.calls if method == "sendTyping"]
        assert not calls or calls[-1].get("stop"), "it has to be ended"
        return len(calls)

    def reactions_seen(self) -> int:
        return sum(method == "sendReaction" for method, _ in self.fake.calls)

    def files_seen(self) -> list[bytes]:
        sent = [params for method, params in self.fake.calls if method == "send"]
        files = [each for params in sent for each in params.get("attachment", ())]
        return [base64.b64decode(each.partition("base64,")[2]) for each in files]

    def waiting(self) -> int:
        return self.fake.waiting

    def complaints(self) -> list[str]:
        return []
