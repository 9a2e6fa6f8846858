"""Messages that wait for their run: their senders may still change them, or take them back."""

from typing import Any

import pytest
from msgspec.structs import replace

from crossclaw.domain.authority import Authority
from crossclaw.domain.media import Media, carrying
from crossclaw.domain.messages import Image, MediaSource, Text, UserMessage
from crossclaw.domain.queueing import Queueing
from crossclaw.domain.runs import RunPlan
from crossclaw.ledger.channels import (
    ChangeHeard,
    EditWaiting,
    HeardMessage,
    RememberHeard,
    WithdrawWaiting,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Dedupe, Join, ReleaseRun, Submit
from tests.ledger.making import ANA, begun, claim, end, find_claim, run, session, submit

FIRST = Dedupe("inbound", "chat ana 1", "")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 32


def edit(text: str = "better", number: int = 1, of: Dedupe = FIRST, **more: Any) -> EditWaiting:
    given = {"files": None, "authority": Authority(owner=True), "at": 4, **more}
    return EditWaiting(of=(of,), dedupe=Dedupe("inbound", f"edit {number}", ""), text=text, **given)


def withdrawal(of: Dedupe = FIRST) -> WithdrawWaiting:
    return WithdrawWaiting(of=(of,), dedupe=Dedupe("inbound", "gone", ""), at=4, why="deleted")


async def text_of(ledger: Ledger, run_id: str) -> Any:
    message = await ledger.find_inbox(run_id)
    return message and message.content


async def test_an_edit_replaces_what_waits_and_the_same_edit_again_does_nothing(
    ledger: Ledger,
) -> None:
    await begun(ledger, "r0")
    await submit(ledger, "r1", dedupe=FIRST)
    assert await ledger.do(edit(of=Dedupe("inbound", "chat ben 1", ""))) is None
    assert await ledger.do(edit()) == "r1"
    assert await ledger.do(edit("best", 2)) == "r1"
    assert await ledger.do(edit()) == "r1"  # the platform brings the first one again
    assert await text_of(ledger, "r1") == "best"


async def test_what_a_run_has_begun_with_stays_also_when_it_was_given_back(ledger: Ledger) -> None:
    await submit(ledger, "r1", dedupe=FIRST)
    first = await claim(ledger)
    assert await ledger.do(edit()) is None
    assert await ledger.do(withdrawal()) == []
    await ledger.do(ReleaseRun(fence=first.fence))
    assert await ledger.do(edit()) is None
    again = await claim(ledger)
    await end(ledger, again)
    assert await ledger.do(edit()) is None
    assert await ledger.do(withdrawal()) == []
    entries = await ledger.list_entries(again.session_id, limit=9)
    assert [each.message.content for each in entries if isinstance(each.message, UserMessage)] == ["hello"]  # fmt: skip


async def test_what_has_steered_a_run_already_is_not_changed_any_more(ledger: Ledger) -> None:
    plan = RunPlan(queue=Queueing(mode="steer-backlog"))
    for number, once in enumerate((None, FIRST)):
        new = replace(run(f"r{number}"), plan=plan)
        await ledger.commit(session(ANA), Submit(new=new, at=2, dedupe=once))
        if not number:
            carrier = await claim(ledger)
    joined = await ledger.do(Join(fence=carrier.fence, at=3))
    assert len(joined.entries) == 1
    assert await ledger.do(edit()) is None
    assert await ledger.do(withdrawal()) == []


async def test_an_edit_gives_a_run_no_more_rights_and_takes_those_its_sender_has_lost(
    ledger: Ledger,
) -> None:
    await begun(ledger, "r0")
    for number, owner in enumerate((True, False)):
        once = Dedupe("inbound", f"m{number}", "")
        new = replace(run(f"o{number}"), authority=Authority(owner=owner, hops_left=2))
        await ledger.commit(session(ANA), Submit(new=new, at=2, dedupe=once))
        rights = Authority(owner=not owner, hops_left=5)
        assert await ledger.do(edit("x", 10 + number, once, authority=rights))
        after = await ledger.find_run(f"o{number}")
        assert after is not None
        assert (after.authority.owner, after.authority.hops_left) == (False, 2)


@pytest.mark.parametrize("brings_files", [False, True])
async def test_files_of_an_edited_message_stay_or_are_those_of_the_edit(
    ledger: Ledger, brings_files: bool
) -> None:
    await begun(ledger, "r0")
    old, new = Media("image/png", PNG), Media("image/png", PNG + b"1")
    picture = Image(carrying(MediaSource("base64", "image/png"), old.data))
    content = UserMessage([Text("look"), picture])
    await ledger.commit(
        session(ANA), Submit(new=replace(run("r1"), message=content), at=2, dedupe=FIRST)
    )
    other = Image(carrying(MediaSource("base64", "image/png"), new.data))
    assert await ledger.do(edit("see", files=(other,) if brings_files else None)) == "r1"
    words, shown = await text_of(ledger, "r1")
    assert words == Text("see")
    assert shown.source.sha256 == (new if brings_files else old).sha256
    assert (await ledger.find_media(old.sha256) is None) == brings_files
    assert await ledger.do(edit("", 2)) == "r1"
    assert [type(each) for each in await text_of(ledger, "r1")] == [Image]


async def test_a_deleted_message_ends_its_run_and_leaves_nothing(ledger: Ledger) -> None:
    first = await begun(ledger, "r0")
    picture = Image(carrying(MediaSource("base64", "image/png"), PNG))
    new = replace(run("r1"), message=UserMessage([picture]))
    await ledger.commit(session(ANA), Submit(new=new, at=2, dedupe=FIRST))
    (gone,) = await ledger.do(withdrawal())
    assert (gone.run_id, gone.status, gone.error) == ("r1", "aborted", "deleted")
    assert await ledger.do(withdrawal()) == []
    assert await text_of(ledger, "r1") is None
    assert await ledger.find_media(Media("image/png", PNG).sha256) is None
    await end(ledger, first)
    assert await find_claim(ledger) is None
    assert len(await ledger.list_entries(first.session_id, limit=9)) == 1


async def test_what_a_group_said_is_changed_or_forgotten_by_whoever_said_it(ledger: Ledger) -> None:
    heard = HeardMessage(
        channel="memory", account_id="a", chat="g", message_id="1", sender="7", text="helo", at=1
    )
    remember = RememberHeard(heard=heard, keep=9, dedupe=Dedupe("inbound", "m1", ""), at=1)
    await ledger.do(remember)
    once = Dedupe("inbound", "e1", "")
    change = ChangeHeard(
        channel="memory", account_id="a", chat="g", message_id="1", senders=("8",), text="x", dedupe=once, at=2,
    )  # fmt: skip
    assert not await ledger.do(change)
    assert not await ledger.do(replace(change, chat="h", senders=("7",)))
    assert await ledger.do(replace(change, senders=("uuid:7", "7"), text="hello"))
    (kept,) = await ledger.list_heard("memory", "a", "g", "", limit=9)
    assert kept == replace(heard, text="hello")
    deleted = replace(change, senders=("7",), text=None, dedupe=Dedupe("inbound", "d1", ""))
    assert await ledger.do(deleted)
    assert await ledger.do(deleted)  # once more: that is known
    await ledger.do(remember)  # and so is the message that was deleted
    assert await ledger.list_heard("memory", "a", "g", "", limit=9) == []
    other = replace(change, senders=("7",), dedupe=Dedupe("inbound", "e2", ""))
    assert not await ledger.do(other)
