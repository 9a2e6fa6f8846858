"""A message of which nobody else has a copy: held until it is stored, or until the account is closed."""

import anyio
import pytest

from crossclaw.channels.holding import BUSY_S_MAX, PAUSE_MAX_S, receive_only_copy
from crossclaw.channels.http import HttpClients
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import Busy, StoreDamaged, StoreFull
from tests.channels.fake_http import FakeTransport
from tests.channels.listening import ListeningHost

pytestmark = pytest.mark.spec("N8", "B1")
WORDS = Inbound(address=Address("pigeon", "1"), sender="1", text="hi", message_id="m1")


def host_with(*faults: Exception) -> ListeningHost:
    host = ListeningHost(HttpClients(FakeTransport({})), "pigeon")
    host.faults.extend(faults)
    return host


async def test_it_is_tried_with_growing_pauses_until_there_is_room() -> None:
    host = host_with(*[StoreFull("no room")] * 10, Busy("too much at once"))
    began = anyio.current_time()
    received = await receive_only_copy(host, WORDS)

    assert (received.what, host.texts) == ("accepted", ["hi"])
    assert anyio.current_time() - began == 1 + 2 + 4 + 8 + 16 + 6 * PAUSE_MAX_S
    assert host.troubles[0] == "a message waits to be stored: no room"


async def test_who_closes_the_account_is_not_held_up() -> None:
    host = host_with(*[StoreFull("no room")] * 1_000)
    with anyio.move_on_after(100) as closed:
        await receive_only_copy(host, WORDS)

    assert closed.cancelled_caught


async def test_what_no_trying_helps_is_let_out() -> None:
    with pytest.raises(StoreDamaged):
        await receive_only_copy(host_with(StoreDamaged("a row")), WORDS)


async def test_a_session_that_takes_no_more_silences_no_others() -> None:
    host = host_with(*[Busy("1,000 runs wait")] * 1_000)
    began = anyio.current_time()
    received = await receive_only_copy(host, WORDS)

    assert (received.what, host.texts) == ("dropped", [])
    assert anyio.current_time() - began < 2 * BUSY_S_MAX
    assert host.troubles[-1] == "a message was not stored: 1,000 runs wait"
