import pytest

from tests.channels.discord.rig import DiscordRig


@pytest.fixture
async def rig() -> DiscordRig:
    return DiscordRig()
