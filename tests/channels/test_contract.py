"""Every channel passes the contract. Channels whose fakes need more than this file are beside theirs."""

from math import inf

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.memory import MemoryDriver
from tests.channels.telegram.driver import TelegramDriver


class TestMemory(ChannelContract):
    @pytest.fixture
    def driver(self) -> MemoryDriver:
        return MemoryDriver()


class TestMemoryThatKnowsKeys(ChannelContract):
    @pytest.fixture
    def driver(self) -> MemoryDriver:
        return MemoryDriver(knows_key_s=inf)


@pytest.mark.spec("N2")
class TestTelegram(ChannelContract):
    @pytest.fixture
    def driver(self) -> TelegramDriver:
        return TelegramDriver()
