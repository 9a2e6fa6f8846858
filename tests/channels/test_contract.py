"""Every channel passes the contract. Channels whose fakes need more than this file are beside theirs."""

from math import inf

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.imessage.driver import IMessageDriver
from tests.channels.memory import MemoryDriver
from tests.channels.telegram.driver import TelegramDriver
from tests.channels.whatsapp.driver import WhatsAppDriver


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


@pytest.mark.spec("N5")
class TestWhatsApp(ChannelContract):
    @pytest.fixture
    def driver(self) -> WhatsAppDriver:
        return WhatsAppDriver()


@pytest.mark.spec("N6")
class TestIMessage(ChannelContract):
    @pytest.fixture
    def driver(self) -> IMessageDriver:
        return IMessageDriver()
