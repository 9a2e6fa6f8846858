"""A fork has the history up to an entry, and nothing else of its source."""

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Text,
    ToolResultMessage,
    ToolUse,
    UserMessage,
)
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.forking import Forked, ForkSession
from crossclaw.ledger.operations import Append, EnsureSession, PatchSession
from tests.ledger.making import ANA, claim, says, submit

FORK = SessionKey.named("main", "fork-1")


async def fork(ledger: Ledger, entry_id: str | None, name: str = "fork-1") -> Forked:
    return await ledger.do(
        ForkSession(
            source=ANA,
            entry_id=entry_id,
            key=SessionKey.named("main", name),
            session_id=f"id-of-{name}",
            note_id="lineage",
            at=50,
        )
    )


async def talked(ledger: Ledger) -> None:
    """A message, a call that is answered and one that is not, in a session with a bound."""
    bound = Authority(owner=True, tools=frozenset({"read"}))
    new = NewSession(key=ANA, session_id="id-of-ana", authority=bound)
    await ledger.do(EnsureSession(new=new, at=1))
    await ledger.do(PatchSession(key=ANA, changes={"model": "x/y", "label": "garden"}, at=1))
    await submit(ledger, "r1", text="lavender please")
    run = await claim(ledger)
    calls = AssistantMessage(
        [Text("let me look"), ToolUse("c1", "read", {}), ToolUse("c2", "exec", {})]
    )
    result = ToolResultMessage("c1", "read", "found", False)
    await ledger.do(
        Append(
            fence=run.fence,
            entries=[
                NewEntry(entry_id="calls", message=calls),
                NewEntry(entry_id="result", message=result),
                says("it is blue", "words"),
            ],
            at=5,
        )
    )


@pytest.mark.spec("B8")
async def test_a_fork_has_the_history_its_numbers_and_its_bound_and_no_name_or_address(
    ledger: Ledger,
) -> None:
    await talked(ledger)

    forked = await fork(ledger, "words")
    copied = await ledger.list_entries("id-of-fork-1", limit=9)
    before = await ledger.list_entries("id-of-ana", limit=9)
    found = await ledger.search("lavender", limit=9, sight=EVERYTHING)

    assert forked.forked_at is None
    assert [each.entry_id for each in copied[:-1]] == [each.entry_id for each in before]
    assert [each.message for each in copied[:-1]] == [each.message for each in before]
    assert [each.seq for each in copied] == [1, 2, 3, 4, 5]
    assert copied[-1].note == {
        "about": "fork",
        "from": ANA.shown,
        "sessionId": "id-of-ana",
        "seq": 4,
    }
    session = forked.session
    assert (session.model, session.label, session.last_address, session.spawned_by) == (
        "x/y",
        None,
        None,
        None,
    )
    assert session.authority.tools == frozenset({"read"})
    assert (session.cost_usd, session.input_tokens) == (0.0, 0), "nobody pays twice"
    assert {hit.key for hit in found} == {ANA, FORK}
    assert not await ledger.has_open_run(FORK)


@pytest.mark.spec("B8")
async def test_a_call_without_a_result_is_closed_as_interrupted(ledger: Ledger) -> None:
    await talked(ledger)

    await fork(ledger, "result")
    entries = await ledger.list_entries("id-of-fork-1", limit=9)

    results = [each.message for each in entries if isinstance(each.message, ToolResultMessage)]
    assert [(each.tool_use_id, each.is_error) for each in results] == [("c1", False), ("c2", True)]
    assert "interrupted" in str(results[1].content)


@pytest.mark.spec("B8")
async def test_at_a_persons_message_it_ends_before_it_and_the_words_come_back(
    ledger: Ledger,
) -> None:
    await talked(ledger)
    (first, *_) = await ledger.list_entries("id-of-ana", limit=9)

    forked = await fork(ledger, first.entry_id)
    entries = await ledger.list_entries("id-of-fork-1", limit=9)

    assert isinstance(forked.forked_at, UserMessage)
    assert [each.type for each in entries] == ["note"]
    assert first.seq == 1


async def test_what_is_not_there_cannot_be_forked_and_the_whole_can(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="no session"):
        await fork(ledger, None)
    await talked(ledger)
    with pytest.raises(NotFound, match="no entry"):
        await fork(ledger, "nothing")
    whole = await fork(ledger, None, "fork-2")

    assert len(await ledger.list_entries(whole.session.session_id, limit=9)) == 5
    assert await ledger.find_session(FORK) is None
