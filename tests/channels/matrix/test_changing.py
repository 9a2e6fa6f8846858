"""A reply that grows is one message that is changed: its last words stay, and a homeserver that is away takes none of them."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.contract import Piece
from crossclaw.channels.matrix.manifest import MANIFEST
from crossclaw.delivery.previews import Previews
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import DeliveryPreview
from crossclaw.testing import VirtualClock
from tests.channels.matrix.fake import FakeHomeserver, refusal
from tests.channels.matrix.test_hostile_rooms import ANN, following

pytestmark = [pytest.mark.anyio, pytest.mark.spec("N7", "N9")]


def words(room: str, text: str) -> Piece:
    where = Address("matrix", room, "default")
    return Piece(address=where, text=text, formatted=text, delivery_key="reply")


async def test_a_reply_that_ends_as_it_was_once_before_is_shown_so(tmp_path: Path) -> None:
    """A model that begins anew can say first what it says last. One transaction id is one event on Matrix."""
    homeserver, ledger = FakeHomeserver(), open_ledger(tmp_path / "l.sqlite", inline=True)
    room, previews = homeserver.room_with(ANN), Previews(ledger, VirtualClock())

    async def write(op: Any) -> None:
        await ledger.do(op)

    async with following(homeserver) as host:
        live = LiveAccount("matrix", "default", host.account, MANIFEST.traits)
        previews.open("reply")
        shown = await previews.begin(live, words(room, "one"))
        assert shown is not None
        for text in ("one, two", "one, two, three"):
            await previews.change(live, words(room, text), shown)
        await previews.close("reply")
        preview = DeliveryPreview("reply", 1, shown)
        for _ in range(2):  # the second time after a crash
            await previews.finish(live, words(room, "one, two"), preview, write)
    await ledger.close()

    assert homeserver.seen == [(room, "one, two")]


async def test_a_change_that_finds_the_homeserver_away_is_made_again_later(tmp_path: Path) -> None:
    homeserver, ledger = FakeHomeserver(), open_ledger(tmp_path / "l.sqlite", inline=True)
    room, previews = homeserver.room_with(ANN), Previews(ledger, VirtualClock())
    homeserver.answers.append(("members", refusal(502, "M_UNKNOWN", "Bad gateway")))

    async def write(op: Any) -> None:
        await ledger.do(op)

    async with following(homeserver) as host:
        live = LiveAccount("matrix", "default", host.account, MANIFEST.traits)
        with pytest.raises(DeliveryError) as away:
            await previews.finish(live, words(room, "x"), DeliveryPreview("reply", 1, "$e"), write)
    await ledger.close()

    assert away.value.retryable
    assert not isinstance(away.value, DeliveryUncertain)
