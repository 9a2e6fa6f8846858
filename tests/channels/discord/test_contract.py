"""Discord passes the contract of channels."""

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.discord.driver import DiscordDriver


@pytest.mark.spec("N3")
class TestDiscord(ChannelContract):
    @pytest.fixture
    async def driver(self) -> DiscordDriver:
        return DiscordDriver()
