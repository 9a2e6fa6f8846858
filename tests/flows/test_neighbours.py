"""Whoever fails by itself takes nobody else with it."""

from pathlib import Path

import anyio
import anyio.abc
import pytest

from crossclaw.channels.contract import ChannelHost
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.operations import Dedupe
from crossclaw.ledger.sqlite import runs
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, open_gateway
from tests.flows.test_runs_keep_their_order import Recording

ANA = SessionKey.named("main", "ana")


class Pouring(MemoryChannel):
    """Hands up a number of messages of one chat as soon as it serves, and asks nobody whether they fit."""

    def __init__(self, messages: int) -> None:
        super().__init__("pouring", settings=OPEN_TO_ALL)
        self.starts: list[float] = []
        where = Address(self.name, "zoe")
        self.messages = [
            Inbound(
                address=where,
                sender="zoe",
                text=f"m{number}",
                message_id=str(number),
                chat_type="group",
                chat_id="zoe",
            )
            for number in range(messages)
        ]

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.starts.append(anyio.current_time())
        self.host = host
        task_status.started()
        for message in self.messages:
            await host.receive(message)
        await anyio.sleep_forever()


class Broken(MemoryChannel):
    """Fails before it serves, so often; then it is well."""

    def __init__(self, times: int) -> None:
        super().__init__("broken", settings=OPEN_TO_ALL)
        self._times = times

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self._times -= 1
        if self._times >= 0:
            raise ConnectionError("the platform is away")
        await super().serve(host, task_status=task_status)


@pytest.mark.spec("N8")
async def test_a_chat_with_more_messages_than_its_lane_takes_does_not_end_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runs, "LANE_RUNS_MAX", 5)
    pouring, other = Pouring(7), MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(20.0), channels=[pouring, other]) as gateway:
        await other.say("ana", "hello")
        await other.wait_sent()
        await anyio.sleep(600)
        keys = [message.dedupe_key for message in pouring.messages]
        found = [await gateway.ledger.find_deduped(Dedupe("inbound", key, "")) for key in keys]
        runs_of = [await gateway.run_store.find(run_id) for run_id in found if run_id]

    assert other.sent == [("ana", "re: hello")]
    assert "pouring account default failed because of Busy" in caplog.text
    assert len(pouring.starts) > 1
    # A platform offers again what was not accepted.
    assert [run.status for run in runs_of if run] == ["ok"] * 7


async def test_a_channel_that_cannot_start_keeps_no_gateway_from_starting_and_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = Broken(3), MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, Recording(), channels=[broken, other]):
        await other.say("ana", "hello")
        await other.wait_sent()
        await anyio.sleep(10)  # 1, 2 and 4 seconds
        await broken.say("ben", "at last")
        await broken.wait_sent()

    assert broken.sent == [("ben", "re: at last")]
    assert caplog.text.count("broken account default failed because of ConnectionError") == 3
