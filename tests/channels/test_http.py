"""HTTP for channels: an account that is closed lets its sends end."""

import anyio
import pytest

from crossclaw.channels.http import SENDS_S_MAX, HttpClients
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, FakeTransport

pytestmark = pytest.mark.spec("N9", "B2")


class Slow(FakeHttpService):
    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.takes_s = takes_s

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        await anyio.sleep(self.takes_s)
        return FakeAnswer(200)


@pytest.mark.parametrize(("takes_s", "waits_s"), [(0.0, 0.0), (1.0, 1.0), (20.0, SENDS_S_MAX)])
async def test_closing_waits_for_what_is_just_being_sent_and_not_for_long(
    takes_s: float, waits_s: float
) -> None:
    clients = HttpClients(FakeTransport({"chat.example": Slow(takes_s)}))
    http = clients.open("https://chat.example")
    async with anyio.create_task_group() as tasks:
        if takes_s:
            tasks.start_soon(http.send, "POST", "message")
        tasks.start_soon(http.ask, "GET", "news")  # may be asked again: nobody waits for it
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        with anyio.CancelScope() as closing:
            closing.cancel()
            await clients.close()
        assert anyio.current_time() - began == pytest.approx(waits_s, abs=0.2)
        tasks.cancel_scope.cancel()
