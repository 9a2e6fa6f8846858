"""Sessions, entries, search, deliveries and timers in the ledger."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage, UserMessage
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.channels import LearnFate
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    ArmTimer,
    Audit,
    EnsureSession,
    Inject,
    MarkExported,
    NewDelivery,
    PutDelivery,
    SettleDelivery,
    TakeDelivery,
    TakeTimer,
    Timer,
)
from crossclaw.ledger.sqlite.store import open_reader
from tests.ledger.making import ANA, BEN, CHO, says, session

CHAT = Address("telegram", "42", "work", "7")


async def test_a_session_is_made_once_and_remembers_where_it_was_talked_to(ledger: Ledger) -> None:
    made = await ledger.do(session(ANA))
    again = await ledger.do(
        EnsureSession(
            new=NewSession(key=ANA, session_id="other", address=CHAT, display_name="Ana"), at=7
        )
    )

    assert (made.session_id, again.session_id) == ("id-of-ana", "id-of-ana")
    assert (again.last_address, again.display_name, again.created_at) == (CHAT, "Ana", 1)
    assert await ledger.find_session_by_id("id-of-ana") == again
    assert await ledger.find_session_by_id("other") is None


async def test_of_a_session_as_if_it_were_damaged_its_name_is_told_and_no_right(
    ledger: Ledger,
) -> None:
    await ledger.do(session(ANA))

    found = await ledger.find_damaged_session(ANA)

    assert found is not None
    assert (found.key, found.session_id, found.unreadable) == (ANA, "id-of-ana", True)
    assert found.authority.tools == frozenset()
    assert await ledger.find_damaged_session(BEN) is None


async def test_sessions_are_listed_newest_first_within_a_limit(ledger: Ledger) -> None:
    for number in range(5):
        key = SessionKey.named("main" if number % 2 else "ops", f"s{number}")
        await ledger.do(EnsureSession(new=NewSession(key=key, session_id=f"i{number}"), at=number))

    newest = await ledger.list_sessions(limit=3, sight=EVERYTHING)
    of_main = await ledger.list_sessions(limit=9, agent_id="main", sight=EVERYTHING)
    recent = await ledger.list_sessions(limit=9, updated_after=2, sight=EVERYTHING)

    assert [each.key.name for each in newest] == ["s4", "s3", "s2"]
    assert [each.key.name for each in of_main] == ["s3", "s1"]
    assert [each.key.name for each in recent] == ["s4", "s3"]


@pytest.mark.spec("K3")
async def test_a_cron_session_is_one_whoever_spells_it(ledger: Ledger) -> None:
    await ledger.do(
        EnsureSession(new=NewSession(key=SessionKey.cron("ops", "j1"), session_id="i"), at=1)
    )

    found = await ledger.find_session(SessionKey.parse("cron:j1"))

    assert found is not None
    assert found.key.agent_id == "ops"


async def test_the_tail_of_a_transcript_comes_oldest_first_and_pages_back(ledger: Ledger) -> None:
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says(f"w{n}") for n in range(1, 8)], at=1))

    tail = await ledger.list_entries("id-of-ana", limit=3)
    page = await ledger.list_entries("id-of-ana", limit=3, before=tail[0].seq)

    assert [entry.seq for entry in tail] == [5, 6, 7]
    assert [entry.seq for entry in page] == [2, 3, 4]
    assert [e.seq for e in await ledger.list_entries("id-of-ana", limit=9, after=5)] == [6, 7]
    assert await ledger.find_entry("id-of-ana", tail[0].seq) == tail[0]
    assert [await ledger.find_entry("id-of-ana", seq) for seq in (0, 8)] == [None, None]
    assert await ledger.find_entry("id-of-nobody", 1) is None


async def test_tool_results_can_be_left_out_before_the_limit_counts(ledger: Ledger) -> None:
    result = NewEntry(entry_id="t", message=ToolResultMessage("c", "read", "long output"))
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("one"), says("two"), result, result], at=1))

    entries = await ledger.list_entries("id-of-ana", limit=2, tool_results=False)

    assert [entry.seq for entry in entries] == [1, 2]


@pytest.mark.parametrize(
    "words", ["grüne Äpfel", "GRUNE apfel", "apf", '"quoted', "AND OR NOT", "a*b(c)", "x:y", "-"]
)
async def test_a_search_takes_whatever_a_person_types(ledger: Ledger, words: str) -> None:
    await ledger.commit(session(ANA), session(CHO))
    await ledger.do(Inject(key=ANA, entries=[says("Ich mag grüne Äpfel sehr")], at=1))
    await ledger.do(
        Inject(key=CHO, entries=[NewEntry(entry_id="u", message=UserMessage("grüne Äpfel"))], at=2)
    )

    hits = await ledger.search(words, limit=9, sight=EVERYTHING)
    of_main = await ledger.search(words, limit=9, agent_id="main", sight=EVERYTHING)

    if "apf" in words.lower() or "äpf" in words.lower():
        assert [hit.key for hit in hits] == [CHO, ANA]
        assert [hit.key for hit in of_main] == [ANA]
    else:
        assert hits == []


@pytest.mark.spec("B2")
async def test_a_delivery_is_put_once_and_taken_once(ledger: Ledger) -> None:
    put = PutDelivery(
        new=NewDelivery(delivery_key="reply:r1", key=BEN, address=CHAT, text="hi"), at=1
    )

    assert await ledger.do(put) is True
    assert await ledger.do(put) is False
    (pending,) = await ledger.list_open_deliveries(limit=9)
    taken = await ledger.do(TakeDelivery(delivery_id=pending.delivery_id, at=2))
    assert taken is not None
    tried = taken.delivery
    assert (tried.state, tried.attempt, tried.address, tried.text) == ("sending", 1, CHAT, "hi")
    assert await ledger.do(TakeDelivery(delivery_id=pending.delivery_id, at=2)) is None

    await ledger.do(
        SettleDelivery(delivery_id=tried.delivery_id, state="delivered", at=3, platform_id="p")
    )
    assert await ledger.list_open_deliveries(limit=9) == []
    found = await ledger.find_delivery("reply:r1")
    assert found is not None
    assert (found.state, found.platform_id) == ("delivered", "p")


@pytest.mark.spec("B2")
async def test_what_a_platform_says_later_settles_what_was_uncertain(ledger: Ledger) -> None:
    for name in ("r1", "r2", "r3"):
        new = NewDelivery(delivery_key=name, key=BEN, address=CHAT, text="hi")
        await ledger.do(PutDelivery(new=new, at=1))
    for row in (await ledger.list_open_deliveries(limit=9))[:2]:
        await ledger.do(TakeDelivery(delivery_id=row.delivery_id, at=2))
        await ledger.do(SettleDelivery(delivery_id=row.delivery_id, state="uncertain", at=3))

    learned = LearnFate(delivery_key="r1", arrived=True, at=4, platform_id="p1")
    assert await ledger.do(learned) is True
    assert await ledger.do(learned) is False
    assert await ledger.do(replace(learned, delivery_key="r3")) is False  # it was not tried yet
    failed = replace(learned, delivery_key="r2", arrived=False, error="no such person")
    assert await ledger.do(failed) is True
    assert await ledger.do(replace(failed, delivery_key="r1")) is True  # failed on its way

    rows = [await ledger.find_delivery(name) for name in ("r1", "r2", "r3")]
    assert [(row.state, row.platform_id, row.error) for row in rows if row] == [
        ("failed", "p1", "no such person"),
        ("failed", None, "no such person"),
        ("pending", None, None),
    ]


@pytest.mark.spec("Y4")
async def test_nothing_is_put_for_a_session_that_was_deleted_meanwhile(ledger: Ledger) -> None:
    gone = SessionKey.named("main", "gone")
    new = NewDelivery(delivery_key="spawn:r1", key=gone, address=CHAT, text="hi")

    assert await ledger.do(PutDelivery(new=new, at=1, if_there=True)) is False
    assert await ledger.list_open_deliveries(limit=9) == []


async def test_a_timer_is_moved_by_arming_it_again_and_taken_once(ledger: Ledger) -> None:
    timer = Timer(
        timer_key="archive:x", agent_id="main", kind="archive", due_at=50, payload={"a": 1}
    )
    await ledger.do(ArmTimer(timer=timer))
    await ledger.do(
        ArmTimer(timer=Timer(timer_key="archive:x", agent_id="main", kind="archive", due_at=90))
    )

    assert await ledger.list_timers(due_before=89, limit=9) == []
    assert [each.due_at for each in await ledger.list_timers(due_before=90, limit=9)] == [90]
    assert await ledger.do(TakeTimer(timer_key="archive:x")) is True
    assert await ledger.do(TakeTimer(timer_key="archive:x")) is False
    assert await ledger.count_timers() == {}


async def test_the_ledger_knows_whose_copy_is_behind(ledger: Ledger) -> None:
    await ledger.commit(session(ANA), session(BEN))
    await ledger.do(Inject(key=ANA, entries=[says("one")], at=1))

    assert [each.session_id for each in await ledger.list_exports(behind=True, limit=9)] == [
        "id-of-ana"
    ]
    await ledger.do(MarkExported(exports=[("id-of-ana", 1, 120)]))
    assert await ledger.list_exports(behind=True, limit=9) == []
    assert len(await ledger.list_exports(behind=False, limit=9)) == 2
    found = await ledger.find_export("id-of-ana")
    assert found is not None
    assert (found.exported_seq, found.exported_bytes) == (1, 120)


async def test_decisions_are_remembered(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.do(
        Audit(
            at=1,
            agent_id="main",
            principal="ana",
            action="send",
            target="x",
            allowed=False,
            reason="no",
        )
    )

    with closing(open_reader(tmp_path / "ledger.sqlite")) as db:
        (row,) = db.execute(
            "SELECT at, agent_id, principal, action, target, allowed, reason FROM audit"
        )
    assert row == (1, "main", "ana", "send", "x", 0, "no")
