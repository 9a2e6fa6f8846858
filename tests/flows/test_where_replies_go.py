"""What follows from a message of one account's thread goes back to that account and that thread."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.channels.manifest import Traits
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, VirtualLoop, open_gateway
from tests.flows.talking import call

SPAWNS = 'tool: sessions_spawn {"task": "say: The errand is done."}\nthen:\nsay: Begun.'


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One of them: nothing here depends on it."""
    return "asyncio", {"loop_factory": VirtualLoop}


def account(name: str) -> MemoryChannel:
    return MemoryChannel(account_id=name, settings=OPEN_TO_ALL, traits=Traits(threads="thread"))


def said(text: str) -> Inbound:
    return Inbound(
        address=Address("memory", "team", "work", "7"),
        sender="ann",
        text=text,
        message_id=text[:8],
        chat_type="group",
        chat_id="team",
    )


@pytest.mark.spec("P6", "N9")
async def test_a_sub_agents_report_and_a_jobs_reply_go_to_the_account_and_thread_they_are_for(
    tmp_path: Path,
) -> None:
    home, work = account("default"), account("work")
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[home, work]) as gateway:
        await work.bring(said(SPAWNS))
        await work.wait_sent(2)
        await anyio.sleep(30)
        (session,) = [
            row
            for row in (await call(gateway, "sessions.list", limit=50))["sessions"]
            if "team" in row["key"] and "subagent" not in row["key"]
        ]
        await call(
            gateway,
            "cron.add",
            name="news",
            schedule={"kind": "every", "everyMs": 60_000},
            sessionTarget="isolated",
            wakeMode="now",
            payload={"kind": "agentTurn", "message": "say: news"},
            delivery={"mode": "announce", "channel": "memory", "to": "ann"},
        )
        await home.wait_sent(1)

    where = {(each.address.to, each.address.account_id, each.address.thread_id) for each in work.pieces}  # fmt: skip
    assert where == {("team", "work", "7")}
    assert any("The errand is done." in each.text for each in work.pieces)
    assert session["key"].endswith("team:thread:7")
    assert [(each.address.to, each.text) for each in home.pieces] == [("ann", "news")]
