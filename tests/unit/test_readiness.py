"""Whether a gateway takes work: told to anybody who asks, and cheap however many do."""

from pathlib import Path

import anyio
import pytest

from crossclaw.app.readiness import LOOK_S, Readiness
from crossclaw.ledger.opening import open_ledger
from crossclaw.runs.slots import Slots


@pytest.mark.spec("G3")
async def test_a_gateway_is_ready_until_it_drains_or_its_ledger_does_not_answer(
    tmp_path: Path,
) -> None:

    ledger, slots = open_ledger(tmp_path / "l.sqlite", inline=True), Slots()
    ready = Readiness(ledger, slots)
    assert await ready.is_ready()
    slots.close()
    assert not await ready.is_ready(), "what comes now would wait for the next start"
    ready = Readiness(ledger, Slots())
    assert await ready.is_ready()
    await ledger.close()
    assert await ready.is_ready(), "it looked a moment ago"
    await anyio.sleep(LOOK_S)
    assert not await ready.is_ready()
