"""What a run was asked and what it answered is found from its ledger rows, however long its session is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, UserMessage, words_of
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.operations import EndOpenRun, Inject, Submit
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.sessions.newest import ENTRIES_A_PAGE, entries_of, message_of
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say

MAIN = SessionKey.main("main")
MANY = 20 * ENTRIES_A_PAGE


async def talk_on(gateway: Gateway, run: Run, name: str) -> None:
    """Says so much in the main session, an hour after a run, that whoever reads all of it is noticed."""
    at = (run.ended_at or 0) + 3_600_000
    entries = [NewEntry(entry_id=f"{name}{n}", message=UserMessage("more")) for n in range(MANY)]
    await gateway.ledger.do(Inject(key=MAIN, entries=entries, at=at))
    await anyio.sleep(2 * 3600)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> Iterator[list[int]]:
    """Counts the entries that each read of a transcript brings."""
    read, counts = gateway.ledger.list_entries, list[int]()

    async def counted(*args: Any, **named: Any) -> Any:
        found = await read(*args, **named)
        counts.append(len(found))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gateway.ledger, "list_entries", counted)
        yield counts


async def words(gateway: Gateway, run: Run) -> tuple[Any, list[str]]:
    message = await message_of(gateway.ledger, run)
    said = [each.message for each in await entries_of(gateway.ledger, run)]
    answers = [each for each in said if isinstance(each, AssistantMessage)]
    return message and message.content, [str(each.content) for each in answers]


async def test_the_words_of_an_old_run_in_a_long_session_are_found_by_few_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "fine")) as gateway:
        first = await say(gateway, "main", "at first", "r0")
        await talk_on(gateway, first, "a")
        run = await say(gateway, "main", "in between", "r1")
        await talk_on(gateway, run, "b")
        with counting(monkeypatch, gateway) as counts:
            asked, answers = await words(gateway, run)

    assert asked == "in between"
    assert len(answers) == 1
    assert sum(counts) < 6 * ENTRIES_A_PAGE, counts


async def test_the_words_of_a_run_that_has_just_ended_take_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "fine")) as gateway:
        first = await say(gateway, "main", "at first", "r0")
        await talk_on(gateway, first, "a")
        run = await say(gateway, "main", "now", "r1")
        with counting(monkeypatch, gateway) as counts:
            entries = await entries_of(gateway.ledger, run)

    assert len(entries) == 2
    assert counts == [ENTRIES_A_PAGE]


async def test_a_run_whose_message_is_gone_is_not_looked_for_in_all_that_was_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "fine")) as gateway:
        first = await say(gateway, "main", "at first", "r0")
        await talk_on(gateway, first, "a")
        gone = replace(await say(gateway, "main", "now", "r1"), run_id="r9")
        with counting(monkeypatch, gateway) as counts:
            asked = await message_of(gateway.ledger, gone)

    assert asked is None
    assert sum(counts) <= 2 * ENTRIES_A_PAGE


async def test_a_run_whose_words_are_gone_cannot_be_retried_and_says_so(tmp_path: Path) -> None:
    """As those of a run that was accepted before its session was imported over, or whose compaction said nothing."""
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "fine")) as gateway:
        await say(gateway, "main", "at first", "r0")
        silent = NewRun(run_id="r1", key=MAIN, kind="compact", message=None)
        await gateway.ledger.commit(
            Submit(new=silent, at=1),
            EndOpenRun(run_id="r1", outcome=Outcome("error", error="no"), at=2),
        )
        with pytest.raises(Invalid, match="is not there any more; say it again in the chat"):
            await call(gateway, "runs.retry", runId="r1")


async def test_a_message_that_entered_while_another_run_was_at_work_is_what_its_run_was_asked(
    tmp_path: Path,
) -> None:
    """Its own run begins with a reminder, and that is not what a person said."""
    model = RehearsalProvider()
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "/queue steer-backlog", "q")
        await call(
            gateway,
            "chat.send",
            sessionKey="main",
            message="tool: session_status {}\nwait: 5000\nthen:\nsay: done",
            idempotencyKey="r1",
        )
        await anyio.sleep(1)
        await call(
            gateway, "chat.send", sessionKey="main", message="say: early", idempotencyKey="r2"
        )
        run = await gateway.run_store.wait("r2", timeout_s=600)
        assert run is not None
        message = await message_of(gateway.ledger, run)

    assert message is not None
    assert message.content == "say: early"


async def test_a_run_that_answers_too_many_was_asked_their_summary(tmp_path: Path) -> None:
    config = msgspec.convert(
        {"messages": {"queue": {"mode": "collect", "cap": 2, "drop": "summarize"}}}, Config
    )
    model = ScriptedProvider(lambda r: "fine", delay_s=10)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        for text in "abcde":
            await call(gateway, "chat.send", sessionKey="main", message=text, idempotencyKey=text)
        run = await gateway.run_store.wait("b", timeout_s=600)
        assert run is not None
        message = await message_of(gateway.ledger, run)

    assert message is not None
    assert words_of(message).splitlines()[1:] == ["- b", "- c"]
