import pytest

from tests.channels.slack.rig import SlackRig


@pytest.fixture
async def rig() -> SlackRig:
    return SlackRig()
