"""Who gives up a message that has waited a week for its account: one gateway, and never while another keeps the account."""

from pathlib import Path

import pytest

from crossclaw.delivery.sender import ABSENT_MS_MAX
from crossclaw.domain.addresses import Address
from crossclaw.domain.clock import SystemClock
from crossclaw.ledger.gateways import GatewayFacts
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import NewDelivery, PutDelivery
from crossclaw.testing import ScriptedProvider
from tests.cluster.test_gateways import members
from tests.cluster.test_two_gateways import one_gateway, until
from tests.ledger.making import ANA, session

KEPT, NOBODYS = Address("memory", "ana", "kept"), Address("memory", "ana", "nobodys")


@pytest.mark.spec("B6")
@pytest.mark.anyio
async def test_an_old_message_is_not_given_up_by_a_gateway_while_another_keeps_its_account(
    tmp_path: Path, url: str
) -> None:
    keeper = open_ledger(tmp_path / "keeper" / "l.sqlite", url=url, shared=True)
    await members(keeper).join(GatewayFacts(gateway_id="keeper"))
    assert await members(keeper).take_role("channel:memory:kept")
    at = SystemClock().now_ms() - ABSENT_MS_MAX - 60_000
    put = [
        PutDelivery(new=NewDelivery(delivery_key=key, key=ANA, address=where, text="hi"), at=at)
        for key, where in (("kept", KEPT), ("nobodys", NOBODYS))
    ]
    await keeper.commit(session(ANA), *put)

    async def has_failed(key: str) -> bool:
        found = await keeper.find_delivery(key)
        return found is not None and found.state == "failed"

    async with one_gateway(tmp_path, url, "other", ScriptedProvider([])) as other:
        await until(lambda: has_failed("nobodys"))
        assert not await has_failed("kept")

        await members(keeper).leave_role("channel:memory:kept")
        other.outbox.look_again()
        await until(lambda: has_failed("kept"))
    await keeper.close()
