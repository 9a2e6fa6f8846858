"""One Matrix account of ours on a real Synapse, and a host that writes down what it is given."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.contract import AccountFacts, OutgoingFile, Piece, Received
from crossclaw.channels.http import HttpClients
from crossclaw.channels.matrix.account import MatrixAccount, open_account
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError, StoreError
from tests.channels.synapse import Person, Synapse

WITHIN_S = 30.0


class MatrixHost:
    """`received` has each message once, as the ledger would; `arrived` has every call. Cursors outlive an account."""

    channel, account_id = "matrix", "default"

    def __init__(self, folder: Path) -> None:
        self.http = HttpClients()
        self.cursors: dict[str, str] = {}
        self.received: list[Inbound] = []
        self.arrived: list[Inbound] = []
        self.strangers: set[str] = set()
        self.failures = 0
        self.facts: AccountFacts | None = None
        self.troubles: list[str] = []
        self.files: list[bytes] = []
        self.account: MatrixAccount | None = None
        self._folder = folder
        self.ended: CrossclawError | None = None
        self._over = anyio.Event()
        self._news = anyio.Event()

    async def receive(self, inbound: Inbound) -> Received:
        self.arrived.append(inbound)
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is full")
        if inbound.dedupe_key not in {each.dedupe_key for each in self.received}:
            for file in inbound.attachments:
                assert self.account is not None
                self.files.append(await self.account.fetch(file, 1_000_000))
            self.received.append(inbound)
        self._news.set()
        return Received(what="accepted", run_id="run")

    def end(self, error: CrossclawError) -> None:
        self.ended = error
        self._over.set()

    async def wait_end(self) -> CrossclawError:
        with anyio.fail_after(WITHIN_S):
            await self._over.wait()
        assert self.ended is not None
        return self.ended

    async def wait_trouble(self) -> str:
        with anyio.fail_after(WITHIN_S):
            while not self.troubles:
                self._news = anyio.Event()
                await self._news.wait()
        return self.troubles[0]

    async def wait_for(self, count: int) -> list[Inbound]:
        with anyio.fail_after(WITHIN_S):
            while len(self.received) < count:
                self._news = anyio.Event()
                await self._news.wait()
        return self.received

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.received]

    async def may_talk(self, inbound: Inbound) -> bool:
        return inbound.sender not in self.strangers

    async def private_folder(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder

    async def load_cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    async def save_cursor(self, name: str, value: str) -> None:
        self.cursors[name] = value

    async def confirm_delivery(self, delivery_key: str, platform_id: str | None = None) -> None:
        return None

    async def fail_delivery(self, delivery_key: str, error: str) -> None:
        return None

    async def is_ours(self, where: Address, platform_id: str) -> bool:
        return False

    async def move_chat(self, old: str, new: str) -> None:
        return None

    async def connected(self, facts: AccountFacts) -> None:
        self.facts = facts

    def heard(self) -> None:
        return None

    def troubled(self, error: str) -> None:
        self.troubles.append(error)
        self._news.set()

    def now_ms(self) -> int:
        return SystemClock().now_ms()


class Place:
    """Ann, the bot's account, and what the bot is set to."""

    def __init__(self, synapse: Synapse, folder: Path) -> None:
        self.ann = synapse.register("ann")
        self.bot = synapse.register("bot")
        self.host = MatrixHost(folder / "keys")
        self.url = synapse.url

    def settings(self, **more: Any) -> MatrixSettings:
        section = {"homeserver": self.url, "accessToken": self.bot.token, **more}
        return msgspec.convert(section, MatrixSettings, dec_hook=_secret)

    def direct(self, person: Person | None = None) -> str:
        """A room with the bot, who has joined it."""
        room = (person or self.ann).make_room(self.bot.user_id, direct=True)
        self.bot.join(room)
        return room

    @asynccontextmanager
    async def served(self, **more: Any) -> AsyncGenerator[MatrixAccount]:
        self.host.facts = None
        account = open_account(self.settings(**more), self.host)
        self.host.account = account
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._serve, account)
                yield account
                tasks.cancel_scope.cancel()
        finally:
            await self.host.http.close()

    async def _serve(
        self,
        account: MatrixAccount,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """As the supervisor would; how it ended is kept."""
        try:
            await account.serve(self.host, task_status=task_status)
        except CrossclawError as error:
            self.host.end(error)
            with suppress(RuntimeError):  # it had said so before
                task_status.started()


def piece(to: str, text: str, key: str, **more: Any) -> Piece:
    address = Address("matrix", to, "default", more.pop("thread_id", None))
    formatted = more.pop("formatted", text)
    return Piece(address=address, text=text, formatted=formatted, delivery_key=key, **more)


def picture(data: bytes = b"\x89PNG\r\n\x1a\nnot really") -> OutgoingFile:
    return OutgoingFile(kind="image", data=data, mime="image/png", name="map.png")


def _secret(kind: type, value: object) -> object:
    return kind(value)
