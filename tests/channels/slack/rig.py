"""The rig of Slack's tests: a fake Slack, a host that outlives accounts, and accounts that are served on demand."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from crossclaw.channels.slack.account import SlackAccount
from crossclaw.channels.slack.settings import SlackSettings
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.fake_http import FakeTransport
from tests.channels.fake_socket import memory_dial
from tests.channels.recording import RecordingHost
from tests.channels.slack.fake import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, FakeSlack

ANA = "U0ANA00001"
SOCKET = SlackSettings(bot_token=Secret(BOT_TOKEN), app_token=Secret(APP_TOKEN))
HTTP = SlackSettings(
    mode="http", bot_token=Secret(BOT_TOKEN), signing_secret=Secret(SIGNING_SECRET)
)


class SlackRig:
    def __init__(self) -> None:
        clock = VirtualClock()
        self.fake = FakeSlack(clock.now_ms)
        hosts = ("slack.com", "files.slack.com")
        self.host = RecordingHost("slack", FakeTransport(dict.fromkeys(hosts, self.fake)), clock)

    def account(
        self, tasks: anyio.abc.TaskGroup | None = None, settings: SlackSettings = SOCKET
    ) -> SlackAccount:
        fakes = {"wss-primary.slack.com": self.fake}
        if tasks is None:
            return SlackAccount(settings, self.host)
        return SlackAccount(settings, self.host, memory_dial(tasks, fakes))

    @asynccontextmanager
    async def served(self, settings: SlackSettings = SOCKET) -> AsyncGenerator[SlackAccount]:
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as serving:
            account = self.account(tasks, settings)
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
