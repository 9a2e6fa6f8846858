"""An account logs in as another device: the homeserver knows a transaction id only from the device that sent it."""

from pathlib import Path

import anyio
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.testing import open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import DEVICE, TOKEN, FakeHomeserver
from tests.channels.matrix.test_hostile_rooms import ANN
from tests.flows.crashing import crashed_copy
from tests.flows.test_runs_keep_their_order import Recording

CHANNEL = {
    "homeserver": "https://fake.example",
    "accessToken": TOKEN,
    "dmPolicy": "open",
    "allowFrom": ["*"],
}


@pytest.mark.spec("B2", "N9")
@pytest.mark.parametrize(("device", "troubled"), [(DEVICE, []), ("ANOTHER", ["uncertain"])])
async def test_a_reply_that_was_cut_off_is_seen_once_whichever_device_goes_on(
    tmp_path: Path, device: str, troubled: list[str]
) -> None:
    (tmp_path / "gateway").mkdir()
    homeserver, copies = FakeHomeserver(), list[Path]()
    room = homeserver.room_with(ANN)
    config = Config(channels=Loose.of({"matrix": CHANNEL}))

    def clients() -> HttpClients:
        return HttpClients(FakeTransport({"fake.example": homeserver}))

    def crash() -> None:
        """The message is in the room, and its answer comes too late for this process."""
        copies.append(crashed_copy(tmp_path / "gateway"))

    homeserver.effects.append(("send", crash))
    async with open_gateway(tmp_path / "gateway", Recording(), config=config, http=clients):
        await homeserver.followed.wait()
        homeserver.say(room, ANN, "hi")
        await homeserver.wait_seen(1)
        await anyio.sleep(1)

    homeserver.device = device
    async with open_gateway(copies[0], Recording(), config=config, http=clients) as gateway:
        await anyio.sleep(60)
        assert len(homeserver.seen) == 1
        left = await gateway.ledger.monitoring.troubled_deliveries(since=0, limit=9)
        assert [each.state for each in left] == troubled
        homeserver.say(room, ANN, "and now?")
        await homeserver.wait_seen(2)
