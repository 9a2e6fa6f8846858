"""Matrix passes the contract of channels, on a fake homeserver in virtual time."""

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.matrix.driver import MatrixDriver


@pytest.mark.spec("N7")
class TestMatrix(ChannelContract):
    @pytest.fixture
    def driver(self) -> MatrixDriver:
        return MatrixDriver()
