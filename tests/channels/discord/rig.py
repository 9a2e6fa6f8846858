"""The rig of Discord's tests: a fake Discord, a host that outlives accounts, and accounts that are served on demand."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from crossclaw.channels.discord.account import DiscordAccount
from crossclaw.channels.discord.settings import DiscordSettings
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.discord.fake import TOKEN, FakeDiscord
from tests.channels.fake_http import FakeTransport
from tests.channels.fake_socket import memory_dial
from tests.channels.recording import RecordingHost

HOSTS = ("gateway.discord.gg", "gateway-us-east1-b.discord.gg")


async def no_dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
    raise AssertionError("sending needs no socket")


class DiscordRig:
    """A fake Discord, a host that outlives accounts, and an account that is served on demand."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.fake = FakeDiscord(clock.now_ms)
        self.gateway = self.fake.gateway
        hosts = ("discord.com", "cdn.discordapp.com", "media.discordapp.net")
        transport = FakeTransport(dict.fromkeys(hosts, self.fake))
        self.host = RecordingHost("discord", transport, clock)
        self.ana = self.fake.world.person("ana")
        self.guild = self.fake.world.guild("Workshop")
        self.room = self.fake.world.channel("general", guild_id=self.guild)
        self.errors: list[Exception] = []

    def account(self, tasks: anyio.abc.TaskGroup | None) -> DiscordAccount:
        dial = memory_dial(tasks, dict.fromkeys(HOSTS, self.gateway)) if tasks else no_dial
        return DiscordAccount(DiscordSettings(), self.host, Secret(TOKEN), dial)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[DiscordAccount]:
        """From a start of the gateway to its end, which tells Discord nothing that ends the session."""
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as serving:
            account = self.account(tasks)
            await serving.start(
                lambda task_status: account.serve(self.host, task_status=task_status)
            )
            yield account
            serving.cancel_scope.cancel()

    async def serve_once(self) -> CrossclawError:
        """Until it fails by itself."""
        async with anyio.create_task_group() as tasks:
            with pytest.raises(CrossclawError) as raised:
                await self.account(tasks).serve(self.host)
            tasks.cancel_scope.cancel()
        return raised.value

    async def until(self, is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(600):
            while not is_so():  # noqa: ASYNC110  time is virtual, and whatever is waited for has no event
                await anyio.sleep(0.05)
