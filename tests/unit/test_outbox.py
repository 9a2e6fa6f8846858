"""The outbox is stopped at every one of its awaits: what was not tried is pending again, what was tried is
never tried twice on a platform that would show it twice, and nothing is lost."""

from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.channels.hosting import AccountHost, HostServices
from crossclaw.channels.http import HttpClients
from crossclaw.channels.manifest import Rate, Traits
from crossclaw.delivery import outbox
from crossclaw.delivery.outbox import Outbox
from crossclaw.delivery.pacing import Pace
from crossclaw.delivery.send_order import TURN_S_MAX
from crossclaw.delivery.sender import FORGOTTEN, LAST_S
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import (
    DeliveryError,
    DeliveryUncertain,
    PlatformUnreachable,
    StoreError,
)
from crossclaw.ledger.attention import Resend
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import (
    Delivery,
    NewDelivery,
    Op,
    PutDelivery,
    TakeDelivery,
    TakenDelivery,
)
from crossclaw.ledger.pieces import (
    BeginPreview,
    DeliveryPiece,
    NotePreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.policy.decision import Decision
from crossclaw.testing import MemoryChannel, VirtualClock
from tests.ledger.making import ANA, session

R = TypeVar("R")
STEP_S = 1.0
LONG = "\n\n".join(f"Part {number} " + "word " * 12 for number in (1, 2, 3))  # in three pieces
LAST_MOMENT_S = 14  # a delivery is over by then, however slow


class SlowLedger(SqliteLedger):
    """A disk that takes its time: before a step is stored, and before its caller hears of it."""

    step_s = STEP_S

    async def do(self, op: Op[R]) -> R:
        await anyio.sleep(self.step_s)
        answer = await super().do(op)
        await anyio.sleep(self.step_s)
        return answer

    async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
        await anyio.sleep(STEP_S)
        return await super().list_open_deliveries(after=after, limit=limit)


class SlowChannel(MemoryChannel):
    async def send(self, piece: Piece) -> str | None:
        self.tries += 1
        await anyio.sleep(STEP_S)
        self.sent.append((piece.address.to, piece.text))
        await anyio.sleep(STEP_S)
        return "m1"


async def slowly_allowed(taken: TakenDelivery) -> Decision:
    await anyio.sleep(STEP_S)
    return Decision(True, "")


async def with_a_reply(ledger: Ledger, text: str = "hi", at: int = 1) -> None:
    new = NewDelivery(delivery_key="reply", key=ANA, address=Address("memory", "ana"), text=text)
    await ledger.commit(session(ANA), PutDelivery(new=new, at=at))


async def state_of(ledger: Ledger) -> tuple[str, int]:
    found = await ledger.find_delivery("reply")
    assert found is not None
    return found.state, found.attempt


def outbox_of(ledger: Ledger, *channels: MemoryChannel, **other: Any) -> Outbox:
    accounts = LiveAccounts()
    for channel in channels:
        accounts.put(LiveAccount(channel.name, channel.account_id, channel, channel.traits))
    return Outbox(ledger, accounts, VirtualClock(), other.get("may_deliver", slowly_allowed))


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("moment_s", [half / 2 for half in range(LAST_MOMENT_S * 2 + 1)])
async def test_stopped_at_any_await_what_was_not_tried_is_pending_again(
    tmp_path: Path, moment_s: float
) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    with anyio.move_on_after(moment_s):
        await outbox_of(ledger, chat).serve()
    state, attempt = await state_of(ledger)

    with anyio.move_on_after(60):
        await outbox_of(ledger, chat).serve()
    end, _ = await state_of(ledger)
    await ledger.close()

    if state == "pending":
        assert (attempt, end, chat.sent) == (0, "delivered", [("ana", "hi")])
    else:
        assert chat.tries == 1
        assert end in ("delivered", "uncertain")
        assert len(chat.sent) <= 1


@pytest.mark.spec("N9")
async def test_a_claim_that_takes_longer_than_a_closing_gateway_waits_is_undone(
    tmp_path: Path,
) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    ledger.step_s = 3 * LAST_S
    stored_s = STEP_S + ledger.step_s
    with anyio.move_on_after(stored_s + 0.5):  # stored, and its caller has not heard of it
        await outbox_of(ledger, chat).serve()
    state = await state_of(ledger)
    await ledger.close()

    assert (state, chat.tries) == (("pending", 0), 0)


@pytest.mark.spec("N9")
async def test_whoever_looks_for_a_quiet_moment_sees_every_claim(tmp_path: Path) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    watched, seen = outbox_of(ledger, chat), set[tuple[str, bool]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.serve)
        for _ in range(LAST_MOMENT_S * 4):
            seen.add(((await state_of(ledger))[0], watched.at_work))
            await anyio.sleep(STEP_S / 4)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert ("sending", True) in seen
    assert ("sending", False) not in seen
    assert ("delivered", False) in seen


@pytest.mark.spec("N9")
async def test_what_comes_into_a_chat_while_the_outbox_looks_for_more_there_goes_out_at_once(
    tmp_path: Path,
) -> None:
    """A store across a network answers later: what it saw is older than the message."""

    class Late(SqliteLedger):
        looking, may_answer = anyio.Event(), anyio.Event()

        async def find_open_delivery(self, chat: Address) -> Delivery | None:
            found = await super().find_open_delivery(chat)
            self.looking.set()
            await self.may_answer.wait()
            return found

    ledger, chat = Late(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    await with_a_reply(ledger)
    serving = outbox_of(ledger, chat)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serving.serve)
        await ledger.looking.wait()
        new = NewDelivery(delivery_key="x", key=ANA, address=Address("memory", "ana"), text="two")
        await ledger.do(PutDelivery(new=new, at=2))
        serving.wake()
        await anyio.wait_all_tasks_blocked()
        ledger.may_answer.set()
        await anyio.sleep(outbox.LOOK_AGAIN_S / 2)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert chat.sent == [("ana", "hi"), ("ana", "two")]


@pytest.mark.spec("N9")
async def test_a_policy_that_cannot_be_asked_leaves_the_reply_to_be_tried_later(
    tmp_path: Path,
) -> None:
    ledger, chat = open_ledger(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    await with_a_reply(ledger)
    asked = 0

    async def may_deliver(taken: TakenDelivery) -> Decision:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreError("the disk does not answer")
        return Decision(True, "")

    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=may_deliver).serve()
    end = await state_of(ledger)
    await ledger.close()

    assert (end, chat.sent) == (("delivered", 1), [("ana", "hi")])


async def test_a_ledger_that_cannot_be_read_for_a_moment_ends_no_outbox(tmp_path: Path) -> None:
    class Forgetful(SqliteLedger):
        reads = 0

        async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
            self.reads += 1
            if self.reads in (2, 3):  # the first is for what was cut off
                raise StoreError("the ledger could not be read")
            return await super().list_open_deliveries(after=after, limit=limit)

    ledger, chat = Forgetful(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    async with anyio.create_task_group() as tasks:
        await tasks.start(outbox_of(ledger, chat).serve)
        await with_a_reply(ledger)
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert chat.sent == [("ana", "hi")]


# ── one at a time, where the platform knows no keys ────────────────────────────────────────────


class Counted(MemoryChannel):
    """Each message takes a moment, that to `stuck` for ever. Knows when they were sent, and how many at once."""

    takes_s = 0.1

    def __init__(self, name: str = "memory", **more: Any) -> None:
        super().__init__(name, **more)
        self.at_once = self.most = 0
        self.times: list[tuple[str, float]] = []

    async def send(self, piece: Piece) -> str | None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await anyio.sleep(inf if piece.address.to == "stuck" else self.takes_s)
            self.times.append((piece.address.to, anyio.current_time()))
            return await super().send(piece)
        finally:
            self.at_once -= 1


async def everybody_allowed(taken: TakenDelivery) -> Decision:
    return Decision(True, "")


async def sent_by(
    folder: Path, chats: list[tuple[MemoryChannel, str, str]], until_s: float = 60
) -> float:
    """The outbox delivers these texts to these chats. Answers when it began."""
    ledger = open_ledger(folder / "l.sqlite", inline=True)
    await ledger.commit(session(ANA))
    for number, (channel, to, text) in enumerate(chats):
        address = Address(channel.name, to)
        new = NewDelivery(delivery_key=f"d{number}", key=ANA, address=address, text=text)
        await ledger.do(PutDelivery(new=new, at=1))
    channels = {id(channel): channel for channel, _, _ in chats}
    began_s = anyio.current_time()
    with anyio.move_on_after(until_s):
        await outbox_of(ledger, *channels.values(), may_deliver=everybody_allowed).serve()
    await ledger.close()
    return began_s


@pytest.mark.spec("N9", "B2")
async def test_an_account_whose_platform_knows_no_keys_sends_one_at_a_time_and_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CHATS_AT_ONCE", 9)  # not one for each that waits
    plain, second, keyed = Counted(), Counted("second"), Counted("other", knows_key_s=inf)
    many = [(plain, f"c{number}", "hi") for number in range(25)]  # for longer than a turn may last
    few: list[tuple[MemoryChannel, str, str]] = [(keyed, f"k{number}", "hi") for number in range(9)]
    began_s = await sent_by(tmp_path, [*many, *few, (second, "s", "hi")])

    assert (len(plain.sent), plain.most) == (25, 1)
    assert (len(keyed.sent), keyed.most) == (9, 9)
    assert max(at for _, at in keyed.times) - began_s < 3 * keyed.takes_s
    assert [at - began_s < 2 * second.takes_s for _, at in second.times] == [True]


async def test_a_message_that_hangs_holds_up_others_of_its_account_for_one_turn_only(
    tmp_path: Path,
) -> None:
    chat = Counted()
    names = ["stuck", *(f"c{number}" for number in range(21))]
    began_s = await sent_by(tmp_path, [(chat, name, "hi") for name in names])

    times = [began_s, *(at for _, at in chat.times)]
    waits = sorted(later - earlier for earlier, later in pairwise(times))
    assert len(chat.sent) == 21
    assert chat.most == 2  # the one that hangs, and one beside it
    assert waits[-1] == pytest.approx(TURN_S_MAX + chat.takes_s, abs=0.05)
    assert waits[-2] == pytest.approx(chat.takes_s, abs=0.05)


async def test_between_the_pieces_of_a_long_reply_others_of_its_account_are_sent(
    tmp_path: Path,
) -> None:
    chat = Counted(traits=Traits(text_limit=100, chat_rate=Rate(1, 1.0)))
    others = [(chat, f"c{number}", "hi") for number in range(15)]  # until after the first pause
    began_s = await sent_by(tmp_path, [(chat, "long", LONG), *others])

    pieces = [at for to, at in chat.times if to == "long"]
    assert (len(chat.sent), len(pieces), chat.most) == (18, 3, 1)
    assert max(at for to, at in chat.times if to != "long") - began_s < 18 * chat.takes_s
    assert pieces == sorted(pieces)
    assert [piece.number for piece in chat.pieces if piece.address.to == "long"] == [1, 2, 3]


# ── how long a platform recognises an earlier attempt ──────────────────────────────────────────

KNOWN_S = 5.0
CUT = DeliveryUncertain("the connection ended")
LATER = DeliveryError("slow down", retryable=True, retry_after_s=3 * KNOWN_S)


@pytest.mark.spec("B2")
@pytest.mark.parametrize("text", ["hi", LONG])
@pytest.mark.parametrize(
    ("away_s", "end"), [(KNOWN_S / 2, "delivered"), (KNOWN_S * 2, "uncertain")]
)
async def test_what_waits_for_another_attempt_goes_out_only_while_its_key_is_known(
    tmp_path: Path, text: str, away_s: float, end: str
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    chat = MemoryChannel(knows_key_s=KNOWN_S, traits=Traits(text_limit=100))
    chat.faults.append(CUT)
    await with_a_reply(ledger, text)
    with anyio.move_on_after(1):
        await outbox_of(ledger, chat, may_deliver=everybody_allowed).serve()
    assert (await state_of(ledger), chat.tries) == (("pending", 1), 1)

    await anyio.sleep(away_s)
    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=everybody_allowed).serve()
    found = await ledger.find_delivery("reply")
    assert found is not None
    assert (found.state, chat.tries > 1) == (end, end == "delivered")
    assert found.error == (FORGOTTEN if end == "uncertain" else None)

    if end == "uncertain":  # a person looks, and wants it sent
        assert await ledger.do(Resend(delivery_id=found.delivery_id, at=2))
        with anyio.move_on_after(60):
            await outbox_of(ledger, chat, may_deliver=everybody_allowed).serve()
        assert (await state_of(ledger))[0] == "delivered"
    await ledger.close()


@pytest.mark.spec("B2", "N9")
@pytest.mark.parametrize("why", [PlatformUnreachable("no network"), "the gateway closes"])
async def test_what_has_arrived_of_a_reply_is_not_said_again_when_it_would_fit_into_one_message_now(
    tmp_path: Path, why: DeliveryError | str
) -> None:
    """An attempt that was given back is none; what arrived in it did arrive."""
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    slow = Traits(text_limit=100, chat_rate=Rate(1, 5.0))
    narrow, wide = MemoryChannel(traits=slow), MemoryChannel(traits=Traits(text_limit=4_000))
    await with_a_reply(ledger, LONG, VirtualClock().now_ms())

    async def break_down() -> None:
        await anyio.sleep(1)
        narrow.faults.extend([why] if isinstance(why, DeliveryError) else [])

    with anyio.move_on_after(3 if isinstance(why, str) else 7):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(break_down)
            tasks.start_soon(outbox_of(ledger, narrow, may_deliver=everybody_allowed).serve)
    assert (len(narrow.sent), (await state_of(ledger))[0]) == (1, "pending")

    with anyio.move_on_after(120):
        await outbox_of(ledger, wide, may_deliver=everybody_allowed).serve()
    end, _ = await state_of(ledger)
    await ledger.close()
    assert (end, [text[:6] for _, text in wide.sent]) == ("delivered", ["Part 2", "Part 3"])


@pytest.mark.spec("B2")
@pytest.mark.parametrize("text", ["hi", LONG])
@pytest.mark.parametrize("between", ["a refusal", "a claim that is undone"])
async def test_an_attempt_that_may_have_arrived_is_not_forgotten_by_one_that_surely_did_not(
    tmp_path: Path, text: str, between: str
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    chat = MemoryChannel(knows_key_s=KNOWN_S, traits=Traits(text_limit=100))
    chat.faults.extend([CUT, LATER] if between == "a refusal" else [CUT])
    await with_a_reply(ledger, text)
    asked: list[float] = []

    async def may_deliver(taken: TakenDelivery) -> Decision:
        asked.append(anyio.current_time())
        if between != "a refusal" and 0 < asked[-1] - asked[0] < KNOWN_S + 2:
            raise StoreError("the disk does not answer")
        return Decision(True, "")

    with anyio.move_on_after(6 * KNOWN_S):
        await outbox_of(ledger, chat, may_deliver=may_deliver).serve()
    end, _ = await state_of(ledger)
    await ledger.close()

    assert (end, chat.sent) == ("uncertain", [])


async def test_the_end_of_a_delivery_is_no_reason_to_look_at_all_the_others(tmp_path: Path) -> None:
    """Rows read while everything goes out: twice as many chats, twice as many rows."""

    class Counting(SqliteLedger):
        rows = 0

        async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
            found = await super().list_open_deliveries(after=after, limit=limit)
            self.rows += len(found)
            return found

    async def rows_read(chats: int) -> int:
        ledger = Counting(tmp_path / f"{chats}.sqlite", inline=True)
        await ledger.commit(session(ANA))
        for number in range(chats):
            where = Address("memory", f"chat {number % (chats // 2)}")
            new = NewDelivery(delivery_key=f"d{number}", key=ANA, address=where, text="hi")
            await ledger.do(PutDelivery(new=new, at=1))
        channel, accounts = MemoryChannel(), LiveAccounts()
        accounts.put(LiveAccount("memory", "default", channel, channel.traits))
        out = Outbox(ledger, accounts, VirtualClock(), _all_may)
        async with anyio.create_task_group() as tasks:
            await tasks.start(out.serve)
            await channel.wait_sent(chats)
            tasks.cancel_scope.cancel()
        await ledger.close()
        return ledger.rows

    few, many = await rows_read(40), await rows_read(80)
    assert many <= 2 * few
    assert few <= 2 * 40


async def _all_may(_taken: TakenDelivery) -> Decision:
    return Decision(True, "everything goes out")


def test_what_is_no_message_takes_only_places_that_are_free() -> None:
    pace = Pace(Rate(4, 1.0))
    assert [pace.spare(0.0) for _ in range(3)] == [True, True, False]
    assert [pace.reserve(0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert not pace.spare(0.5)
    single = Pace(Rate(1, 1.0))
    assert single.spare(0.0)
    assert single.reserve(0.0) == 0.0, "a signal takes no place where there is only one"
    assert not single.spare(0.5)


async def test_a_retry_that_is_due_is_made_however_much_comes_in_meanwhile(tmp_path: Path) -> None:
    ledger, channel, accounts = open_ledger(tmp_path / "l.sqlite", inline=True), MemoryChannel(), LiveAccounts()  # fmt: skip
    await ledger.commit(session(ANA))
    new = NewDelivery(delivery_key="d", key=ANA, address=Address("memory", "ann"), text="hi")
    await ledger.do(PutDelivery(new=new, at=1))
    channel.faults.append(DeliveryError("later", retryable=True, retry_after_s=3.0))
    accounts.put(LiveAccount("memory", "default", channel, channel.traits))
    box = Outbox(ledger, accounts, VirtualClock(), _all_may)
    async with anyio.create_task_group() as tasks:
        await tasks.start(box.serve)
        for _ in range(1_500):
            box.wake()
            await anyio.sleep(0.004)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert channel.sent == [("ann", "hi")]


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("moment_s", [half / 2 for half in range(13)])
async def test_a_reply_that_is_whole_while_its_beginning_is_being_stored_or_sent_is_not_taken_for_lost(
    tmp_path: Path, moment_s: float
) -> None:
    """Its run ends at that moment, and what shows it is stopped."""
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    carrying = outbox_of(ledger, chat)
    live = LiveAccount(chat.name, chat.account_id, chat, chat.traits)
    words = Piece(address=Address("memory", "ana"), text="h", formatted="h", delivery_key="reply")
    carrying.previews.open("reply")
    async with anyio.create_task_group() as tasks:

        async def show() -> None:
            with anyio.move_on_after(moment_s):
                await carrying.previews.begin(live, words)

        tasks.start_soon(show)
        await anyio.sleep(moment_s)
        await with_a_reply(ledger)
        tasks.start_soon(carrying.serve)
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()
    state = await state_of(ledger)
    await ledger.close()

    assert (state[0], list(chat.shown.values())) == ("delivered", ["hi"])


# ── what a dead process left, and what an end means ────────────────────────────────────────────


async def left_in_pieces(ledger: Ledger, delivered: int, on_the_way: int | None) -> None:
    """A long reply of which so many pieces had arrived when the process died."""
    await with_a_reply(ledger, LONG)
    found = await ledger.find_delivery("reply")
    assert found is not None
    number = found.delivery_id
    await ledger.do(TakeDelivery(delivery_id=number, at=1))
    pieces = tuple(
        DeliveryPiece(delivery_id=number, number=each, of=3, text=text, formatted=text)
        for each, text in enumerate(LONG.split("\n\n"), 1)
    )
    await ledger.do(SplitDelivery(delivery_id=number, pieces=pieces))
    for each in range(1, delivered + 1):
        await ledger.do(TakePiece(delivery_id=number, number=each, at=1))
        await ledger.do(SettlePiece(delivery_id=number, number=each, state="delivered"))
    if on_the_way is not None:
        await ledger.do(TakePiece(delivery_id=number, number=on_the_way, at=1))


@pytest.mark.spec("B2", "N9")
@pytest.mark.parametrize(
    ("delivered", "on_the_way", "shown", "end"),
    [
        (1, None, False, ("delivered", ["Part 2", "Part 3"], None)),
        (1, 2, False, ("uncertain", [], outbox.CUT_OFF)),
        (0, 1, True, ("delivered", ["Part 1", "Part 2", "Part 3"], None)),
        (1, 2, True, ("uncertain", ["Part"], outbox.CUT_OFF)),
    ],
    ids=["between two", "one on its way", "the first takes a beginning's place", "the second not"],
)
async def test_of_a_reply_that_a_crash_cut_off_that_goes_out_of_which_nothing_was_on_its_way(
    tmp_path: Path,
    delivered: int,
    on_the_way: int | None,
    shown: bool,
    end: tuple[str, list[str], str | None],
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    chat = MemoryChannel(traits=Traits(text_limit=100, edits=True))
    if shown:
        chat.shown["b"] = "Part"
        await ledger.do(BeginPreview(delivery_key="reply", at=1))
        await ledger.do(NotePreview(delivery_key="reply", platform_id="b"))
    await left_in_pieces(ledger, delivered, on_the_way)
    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=everybody_allowed).serve()
    found = await ledger.find_delivery("reply")
    await ledger.close()

    assert found is not None
    seen = [text.split(" word")[0] for text in chat.shown.values()]
    assert (found.state, seen, found.error) == end


async def test_a_reply_in_one_message_is_its_first_and_answers_what_was_asked(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    chat = MemoryChannel(traits=Traits(replies=True, reply_to_mode="first"))
    where = Address("memory", "ana")
    new = NewDelivery(delivery_key="reply", key=ANA, address=where, text="hi", reply_to="q7")
    await ledger.commit(session(ANA), PutDelivery(new=new, at=1))
    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=everybody_allowed).serve()
    await ledger.close()

    assert [(each.number, each.of, each.reply_to) for each in chat.pieces] == [(1, 1, "q7")]


def host_of(chat: MemoryChannel, ledger: Ledger, folder: Path) -> AccountHost:
    async def nobody(_host: AccountHost, _inbound: Inbound) -> Any:
        raise AssertionError("nothing arrives")

    services = HostServices(
        receive=nobody,
        may_talk=nobody,
        ledger=ledger,
        clock=VirtualClock(),
        wake=lambda: None,
    )
    return AccountHost((chat.name, chat.account_id), services, HttpClients(), folder)


@pytest.mark.parametrize(("wait_s", "told"), [(None, "the token was revoked"), (30.0, None)])
async def test_an_account_that_is_refused_stops_until_the_platform_or_a_person_says_so(
    tmp_path: Path, wait_s: float | None, told: str | None
) -> None:
    ledger, chat, accounts = open_ledger(tmp_path / "l.sqlite", inline=True), Counted(), LiveAccounts()  # fmt: skip
    await with_a_reply(ledger)
    revoked = DeliveryError("the token was revoked", stops_account=True, retry_after_s=wait_s)
    chat.faults.append(revoked)
    host = host_of(chat, ledger, tmp_path)
    accounts.put(LiveAccount("memory", "default", chat, chat.traits, host=host))
    began_s, attempt = anyio.current_time(), host.begin_attempt()
    box = Outbox(ledger, accounts, VirtualClock(), everybody_allowed)
    async with anyio.create_task_group() as tasks:
        await tasks.start(box.serve)
        await anyio.sleep(1)
        new = NewDelivery(delivery_key="x", key=ANA, address=Address("memory", "ben"), text="two")
        await ledger.do(PutDelivery(new=new, at=2))
        box.wake()
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert (host.broken_by, attempt.cancel_called) == (told, told is not None)
    to_ben = next(at for to, at in chat.times if to == "ben") - began_s
    assert (to_ben >= 30) is (wait_s is not None), "an account that was asked to be silent is"


async def test_a_warning_is_written_of_what_did_not_surely_arrive_and_of_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            if piece.address.to == "refused":
                raise DeliveryError("no such chat")
            return await super().send(piece)

    ledger, chat = open_ledger(tmp_path / "l.sqlite", inline=True), Refusing()
    await ledger.commit(session(ANA))
    for name in ("refused", "arrives", "not allowed"):
        new = NewDelivery(delivery_key=name, key=ANA, address=Address("memory", name), text="hi")
        await ledger.do(PutDelivery(new=new, at=1))

    async def may_deliver(taken: TakenDelivery) -> Decision:
        return Decision(taken.delivery.address.to != "not allowed", "")

    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=may_deliver).serve()
    ends = [await ledger.find_delivery(name) for name in ("refused", "arrives", "not allowed")]
    await ledger.close()

    assert [each and each.state for each in ends] == ["failed", "delivered", "failed"]
    (warned,) = [each.getMessage() for each in caplog.records if "arrive" in each.getMessage()]
    assert warned.endswith("no such chat")
