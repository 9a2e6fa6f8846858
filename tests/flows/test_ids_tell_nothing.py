"""Ids: unique, and nobody learns from them what happens elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.operations import Inject
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say

MAIN = SessionKey.main("main")


async def ids_of_what_people_said(folder: Path, others: int) -> list[str]:
    """In one session, while so much is said in another."""
    async with open_gateway(folder, ScriptedProvider(lambda request: "ok")) as gateway:
        for number in range(3):
            await say(gateway, "agent:main:mine", f"word {number}", f"r{number}")
            for other in range(others):
                await say(gateway, "agent:main:theirs", "secret", f"r{number}-{other}")
        history = await call(gateway, "sessions.entries", key="agent:main:mine")
    messages = [(e["entryId"], e["message"]) for e in history["entries"]]
    return [entry_id for entry_id, message in messages if message["role"] == "user"]


@pytest.mark.spec("V3")
async def test_the_id_of_a_message_does_not_count_the_messages_of_others(tmp_path: Path) -> None:
    alone = await ids_of_what_people_said(tmp_path / "alone", others=0)
    beside = await ids_of_what_people_said(tmp_path / "beside", others=4)

    assert alone == beside
    assert len(set(alone)) == 3


@pytest.mark.spec("V3")
def test_a_hundred_thousand_entries_and_more_have_different_ids() -> None:
    ids = RandomIds()

    assert len({ids.short() for _ in range(300_000)}) == 300_000


@pytest.mark.spec("V3", "M5")
async def test_ids_of_an_older_store_are_found_and_pinned(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda request: "ok")) as gateway:
        await say(gateway, "main", "hello", "r1")
        old = NewEntry(entry_id="0000002a", message=UserMessage("keep this", 1))
        await gateway.ledger.do(Inject(key=MAIN, entries=[old], at=1))
        pinned: dict[str, Any] = await call(gateway, "sessions.pin", key="main", entryId="0000002a")
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        pins = await gateway.ledger.list_pinned(session.session_id)

    assert pinned["entryId"] == "0000002a"
    assert [pin.entry_id for pin in pins] == ["0000002a"]
