"""Files of deliveries are kept as long as somebody may send them again, and no longer."""

from collections.abc import Sequence
from typing import Any

import pytest

from crossclaw.domain.addresses import Address
from crossclaw.domain.media import Media
from crossclaw.ledger.channels import LearnFate
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.media import KeepMedia
from crossclaw.ledger.operations import (
    DeleteSession,
    DeliveryFile,
    DeliveryState,
    NewDelivery,
    Op,
    PruneDedupe,
    PutDelivery,
    SettleDelivery,
    TakeDelivery,
    media_holder,
)
from crossclaw.ledger.pieces import MarkDelivered
from tests.ledger.making import ANA, BEN, session

FILE = Media("application/pdf", b"%PDF-1.7 report")


async def put(ledger: Ledger, state: DeliveryState, key: str = "d1", at: int = 10) -> int:
    file = DeliveryFile(sha256=FILE.sha256, kind="document", mime=FILE.media_type, name="r.pdf", size=15)  # fmt: skip
    chat = Address("telegram", key)
    new = NewDelivery(delivery_key=key, key=ANA, address=chat, text="here", files=(file,))
    keep = KeepMedia(media=FILE, agent_id="main", at=at, holder=media_holder(key))
    await ledger.commit(session(ANA), session(BEN), keep, PutDelivery(new=new, at=at))
    found = await ledger.find_delivery(key)
    assert found is not None
    await ledger.do(TakeDelivery(delivery_id=found.delivery_id, at=at))
    if state != "sending":
        await ledger.do(SettleDelivery(delivery_id=found.delivery_id, state=state, at=at))
    return found.delivery_id


@pytest.mark.parametrize("state", ["failed", "uncertain"])
async def test_files_of_what_did_not_arrive_go_after_a_while_unless_it_is_on_its_way(
    ledger: Ledger, state: DeliveryState
) -> None:
    await put(ledger, state)
    await ledger.do(PruneDedupe(before=10))
    assert await ledger.find_media(FILE.sha256) is not None
    await put(ledger, "sending", "d2")
    await ledger.do(PruneDedupe(before=11))
    assert await ledger.find_media(FILE.sha256) is not None  # the second one has it
    await ledger.do(SettleDelivery(delivery_id=2, state="failed", at=20))
    await ledger.do(PruneDedupe(before=21))
    assert await ledger.find_media(FILE.sha256) is None


async def test_files_go_when_their_delivery_has_arrived_after_all_and_with_its_session(
    ledger: Ledger,
) -> None:
    steps: Sequence[Op[Any]] = (
        MarkDelivered(delivery_id=1, at=11),
        LearnFate(delivery_key="d2", arrived=True, at=11),
        DeleteSession(key=ANA, at=11),
    )
    for number, step in enumerate(steps, 1):
        assert await put(ledger, "uncertain", f"d{number}") == number
        assert await ledger.find_media(FILE.sha256) is not None
        await ledger.do(DeleteSession(key=BEN, at=11))  # another's
        assert await ledger.find_media(FILE.sha256) is not None
        await ledger.do(step)
        assert await ledger.find_media(FILE.sha256) is None, step
