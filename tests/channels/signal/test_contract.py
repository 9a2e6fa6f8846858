"""Signal passes the contract of channels, on a fake signal-cli in virtual time."""

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.signal.driver import SignalDriver


@pytest.mark.spec("N4")
class TestSignal(ChannelContract):
    @pytest.fixture
    def driver(self) -> SignalDriver:
        return SignalDriver()
