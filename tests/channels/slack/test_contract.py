"""Slack passes the contract of channels, by Socket Mode."""

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.slack.driver import SlackDriver


class TestSlack(ChannelContract):
    @pytest.fixture
    async def driver(self) -> SlackDriver:
        return SlackDriver()
