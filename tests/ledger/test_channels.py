"""What chat channels keep: who asks to talk, who may, and what groups said before somebody called us."""

from typing import Any

import pytest
from msgspec.structs import replace

from crossclaw.domain.addresses import SEPARATOR, Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.attention import Resend
from crossclaw.ledger.channels import (
    ChatPairingRequest,
    DecidePairing,
    ForgetHeard,
    HeardMessage,
    LearnFate,
    RememberHeard,
    RemovePaired,
    RequestPairing,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    Dedupe,
    DeliveryFile,
    DeliveryPreview,
    EnsureSession,
    NewDelivery,
    PutDelivery,
    SettleDelivery,
    TakeDelivery,
)
from crossclaw.ledger.pieces import (
    BeginPreview,
    DeliveryPiece,
    DropPreview,
    MarkDelivered,
    NotePreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from tests.ledger.making import ANA, submit

ASKED = ChatPairingRequest(
    channel="telegram", account_id="default", sender="7", code="AAAA2222", sender_name="Ana", created_at=10, last_seen_at=10, expires_at=100,
)  # fmt: skip
LETTER = NewDelivery(
    delivery_key="pairing:1", key=ANA, address=Address("telegram", "7"), text="code"
)


def ask(**changes: Any) -> RequestPairing:
    return RequestPairing(request=replace(ASKED, **changes), pending_max=2, deliveries=(LETTER,))


async def test_who_asks_again_keeps_the_code_and_gets_no_second_letter(ledger: Ledger) -> None:
    assert await ledger.do(ask()) == ASKED
    again = await ledger.do(ask(code="BBBB2222", last_seen_at=20, sender_name=None))
    assert again == replace(ASKED, last_seen_at=20)
    assert [each.delivery_key for each in await ledger.list_open_deliveries(limit=9)] == [
        "pairing:1"
    ]
    assert await ledger.do(ask(sender="8", code="CCCC2222")) is not None
    assert await ledger.do(ask(sender="9", code="DDDD2222")) is None  # two wait already
    assert await ledger.do(ask(sender="9", code="DDDD2222", account_id="work")) is not None
    assert len(await ledger.list_pairing_requests(at=99, limit=9)) == 3
    assert await ledger.list_pairing_requests(at=100, limit=9) == []
    assert await ledger.do(ask(sender="9", code="EEEE2222", last_seen_at=100, expires_at=200))


async def test_the_oldest_request_gives_way_when_it_has_waited_long_enough(ledger: Ledger) -> None:
    for number, sender in enumerate("78"):
        await ledger.do(ask(sender=sender, code=f"{sender}AAA2222", created_at=10 + number))
    newcomer = ask(sender="9", code="CCCC2222", created_at=50)
    assert await ledger.do(replace(newcomer, gives_way_at=10)) is None
    assert await ledger.do(replace(newcomer, gives_way_at=11)) is not None
    left = await ledger.list_pairing_requests(at=50, limit=9)
    assert sorted(each.sender for each in left) == ["8", "9"]
    other = ask(sender="5", code="DDDD2222", account_id="work", created_at=50)
    assert await ledger.do(replace(other, gives_way_at=99)) is not None  # it has places of its own
    assert len(await ledger.list_pairing_requests(at=50, limit=9)) == 3


async def test_an_approval_is_of_one_account_and_ends_with_the_code(ledger: Ledger) -> None:
    await ledger.do(ask())
    decide = DecidePairing(channel="telegram", code="AAAA2222", approve=True, at=50, by="owner")
    assert await ledger.do(replace(decide, channel="discord")) is None
    assert await ledger.do(replace(decide, account_id="work")) is None
    assert await ledger.do(replace(decide, at=100)) is None
    assert await ledger.do(decide) == ASKED
    assert await ledger.do(decide) is None
    assert await ledger.is_paired("telegram", "default", ["x", "7"])
    assert not await ledger.is_paired("telegram", "work", ["7"])
    (paired,) = await ledger.list_paired_senders(limit=9)
    assert (paired.sender, paired.sender_name, paired.approved_by) == ("7", "Ana", "owner")
    remove = RemovePaired(channel="telegram", account_id="default", sender="7")
    assert await ledger.do(remove)
    assert not await ledger.do(remove)
    await ledger.do(ask(code="BBBB2222"))
    assert await ledger.do(replace(decide, code="BBBB2222", approve=False))
    assert not await ledger.is_paired("telegram", "default", ["7"])


def remembered(heard: HeardMessage) -> RememberHeard:
    once = Dedupe("inbound", f"{heard.thread_id}:{heard.message_id}", "")
    return RememberHeard(heard=heard, keep=2, dedupe=once, at=1)


async def test_so_many_messages_of_a_group_are_kept_and_forgotten_by_name(ledger: Ledger) -> None:
    heard = HeardMessage(
        channel="telegram",
        account_id="default",
        chat="g",
        message_id="1",
        sender="7",
        text="one",
        at=1,
    )
    for number in (1, 2, 3, 3, 1):
        await ledger.do(remembered(replace(heard, message_id=str(number))))
    await ledger.do(remembered(replace(heard, thread_id="t")))
    found = await ledger.list_heard("telegram", "default", "g", "", limit=9)
    assert [each.message_id for each in found] == ["2", "3"]
    forget = ForgetHeard(
        channel="telegram", account_id="default", chat="g", thread_id="", message_ids=("2",)
    )
    await ledger.do(forget)
    await ledger.do(remembered(replace(heard, message_id="2")))  # its platform brings it again
    assert [
        each.message_id for each in await ledger.list_heard("telegram", "default", "g", "", limit=9)
    ] == ["3"]
    assert len(await ledger.list_heard("telegram", "default", "g", "t", limit=9)) == 1


async def test_the_pieces_of_a_delivery_are_made_once_and_have_their_own_states(
    ledger: Ledger,
) -> None:
    await ledger.do(PutDelivery(new=LETTER, at=1))
    (row,) = await ledger.list_open_deliveries(limit=9)
    number = row.delivery_id
    pieces = tuple(
        DeliveryPiece(delivery_id=number, number=n, of=2, text=f"t{n}", formatted=f"f{n}")
        for n in (1, 2)
    )
    split = SplitDelivery(delivery_id=number, pieces=pieces)
    assert await ledger.do(replace(split, pieces=pieces[:1])) == []
    assert await ledger.do(split) == list(pieces)
    other = replace(pieces[0], text="other")
    assert await ledger.do(replace(split, pieces=(other,))) == list(pieces)
    taken = await ledger.do(TakeDelivery(delivery_id=number, at=5))
    assert taken is not None
    assert (taken.delivery.created_at, taken.delivery.tried_at) == (1, 5)
    for at in (5, 6):
        await ledger.do(TakePiece(delivery_id=number, number=1, at=at))
    assert [(p.state, p.tried_at) for p in await ledger.list_pieces(number)] == [
        ("sending", 5),
        ("pending", None),
    ]
    settle = SettlePiece(delivery_id=number, number=1, state="pending", unsent=True)
    await ledger.do(settle)
    assert (await ledger.list_pieces(number))[0].tried_at is None
    await ledger.do(replace(settle, state="uncertain", unsent=False))
    await ledger.do(SettleDelivery(delivery_id=number, state="uncertain", at=7))
    assert await ledger.do(MarkDelivered(delivery_id=number, at=8))
    assert [p.state for p in await ledger.list_pieces(number)] == ["delivered", "pending"]
    (row,) = await ledger.list_open_deliveries(limit=9)
    assert (row.state, row.tried_at) == ("pending", None)


async def test_a_shown_beginning_is_kept_until_its_reply_has_taken_its_place(
    ledger: Ledger,
) -> None:
    begin = BeginPreview(delivery_key="pairing:1", at=3)
    assert await ledger.do(begin) is None
    assert await ledger.do(begin) == DeliveryPreview("pairing:1", 3)
    await ledger.do(NotePreview(delivery_key="pairing:1", platform_id="m7"))
    await ledger.do(PutDelivery(new=LETTER, at=4))
    (row,) = await ledger.list_open_deliveries(limit=9)
    taken = await ledger.do(TakeDelivery(delivery_id=row.delivery_id, at=5))
    assert taken is not None
    assert taken.preview == DeliveryPreview("pairing:1", 3, "m7")
    await ledger.do(SettleDelivery(delivery_id=row.delivery_id, state="uncertain", at=6))
    await ledger.do(Resend(delivery_id=row.delivery_id, at=7))  # as a message of its own
    assert await ledger.find_preview("pairing:1") is None
    assert await ledger.do(begin) == DeliveryPreview("pairing:1", 3)
    assert (
        await ledger.find_preview("pairing:1") is None
    )  # the reply is there: nothing is shown before it
    week = 7 * 86_400_000
    await ledger.do(replace(begin, delivery_key="third"))
    await ledger.do(BeginPreview(delivery_key="other", at=week + 4))
    assert await ledger.find_preview("third") is None  # its reply never came
    await ledger.do(DropPreview(delivery_key="other"))
    assert await ledger.find_preview("other") is None


async def test_the_next_of_a_chat_is_found_by_the_whole_address(ledger: Ledger) -> None:
    file = DeliveryFile(sha256="0" * 64, kind="image", mime="image/png", name="a.png", size=3)
    for key, where in (
        ("work", Address("telegram", "7", "work")),
        ("topic", Address("telegram", "7", thread_id="2")),
        ("one", Address("telegram", "7")),
        ("two", Address("telegram", "7", named=True)),
    ):
        new = replace(LETTER, delivery_key=key, address=where, reply_to="q1", files=(file,))
        await ledger.do(PutDelivery(new=new, at=1))
    first = await ledger.find_open_delivery(Address("telegram", "7"))
    assert first is not None
    assert (first.delivery_key, first.reply_to, first.files) == ("one", "q1", (file,))
    await ledger.do(TakeDelivery(delivery_id=first.delivery_id, at=2))
    await ledger.do(SettleDelivery(delivery_id=first.delivery_id, state="delivered", at=3))
    then = await ledger.find_open_delivery(Address("telegram", "7"))
    assert then is not None
    assert then.delivery_key == "two"
    assert await ledger.find_open_delivery(Address("telegram", "8")) is None


@pytest.mark.parametrize("later", [True, False])
async def test_a_piece_that_fails_late_is_the_one_that_a_resend_sends(
    ledger: Ledger, later: bool
) -> None:
    """WhatsApp says it by a status: after all have gone out, or while others still do."""
    await ledger.do(PutDelivery(new=LETTER, at=1))
    (row,) = await ledger.list_open_deliveries(limit=9)
    number = row.delivery_id
    pieces = tuple(
        DeliveryPiece(delivery_id=number, number=n, of=2, text=f"t{n}", formatted=f"f{n}")
        for n in (1, 2)
    )
    await ledger.do(SplitDelivery(delivery_id=number, pieces=pieces))
    await ledger.do(TakeDelivery(delivery_id=number, at=2))
    failed = LearnFate(delivery_key="pairing:1#1", arrived=False, at=9, error="undeliverable")
    await ledger.do(SettlePiece(delivery_id=number, number=1, state="delivered"))
    if not later:
        assert await ledger.do(failed)
    await ledger.do(SettlePiece(delivery_id=number, number=2, state="delivered"))
    await ledger.do(SettleDelivery(delivery_id=number, state="delivered", at=3))
    if later:
        assert await ledger.do(failed)
    whole = await ledger.find_delivery("pairing:1")
    assert whole is not None
    assert (whole.state, bool(whole.error)) == ("failed", True)
    assert [each.state for each in await ledger.list_pieces(number)] == ["failed", "delivered"]
    await ledger.do(Resend(delivery_id=number, at=10))
    assert [each.state for each in await ledger.list_pieces(number)] == ["pending", "delivered"]
    assert not await ledger.do(replace(failed, delivery_key="nobody#1"))


async def test_sessions_forget_the_chat_of_somebody_who_may_not_talk_any_more(
    ledger: Ledger,
) -> None:
    """Of this account, and only chats in which that person wrote."""
    places = {
        "a": Address("telegram", "7", "default"),
        "b": Address("telegram", "8", "default"),
        "c": Address("telegram", "7", "work"),
        "d": Address("telegram", "room", "default", "5"),
        "e": Address("matrix", "7", "default"),
    }
    for name, address in places.items():
        new = NewSession(key=SessionKey.named("main", name), session_id=name, address=address)
        await ledger.do(EnsureSession(new=new, at=1))
    said = ("telegram", "default", "room", "7", "1")
    once = Dedupe("inbound", SEPARATOR.join(said), "")
    await submit(ledger, "r1", SessionKey.named("main", "d"), dedupe=once)
    await ledger.do(ask())
    await ledger.do(
        DecidePairing(channel="telegram", code=ASKED.code, approve=True, at=11, by="me")
    )
    gone = RemovePaired(channel="telegram", account_id="default", sender="7", chats=("7",))
    assert await ledger.do(gone)
    assert not await ledger.do(gone)
    left = {}
    for name in places:
        found = await ledger.find_session(SessionKey.named("main", name))
        left[name] = found and found.last_address
    assert {name for name, address in left.items() if address is None} == {"a", "d"}
