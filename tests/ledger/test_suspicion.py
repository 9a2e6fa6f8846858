"""What is kept of a search for the run that ends the process."""

import pytest

from crossclaw.domain.suspects import WINDOW_MS
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import NoteUptime, Recover, Recovered
from tests.ledger.making import ANA, BEN, CHO, claim, submit

A_DAY_MS = 86_400_000


async def die(ledger: Ledger, number: int) -> Recovered:
    """A process has died with all runs at work; the next one starts, days later by a clock that was set."""
    for key in (ANA, BEN, CHO):
        await claim(ledger, key, f"process {number}")
    return await ledger.do(Recover(owner=f"process {number + 1}", at=number * A_DAY_MS))


async def outlive_the_windows(ledger: Ledger) -> None:
    """So that the next death comes after all parts of the likely group have lived through their windows."""
    for number, key in enumerate((ANA, BEN, CHO)):
        await submit(ledger, f"r{number}", key)
    assert (await die(ledger, 1)).groups == []
    assert (await die(ledger, 2)).groups == [[ANA], [BEN], [CHO]]
    found = await die(ledger, 3)
    assert (found.groups, found.window_ms) == ([[CHO], [BEN], [ANA]], WINDOW_MS)


@pytest.mark.spec("B1")
async def test_a_clock_that_was_set_does_not_make_suspects_wait_longer(ledger: Ledger) -> None:
    await outlive_the_windows(ledger)

    assert (await die(ledger, 4)).window_ms == WINDOW_MS


@pytest.mark.spec("B1")
async def test_windows_become_longer_than_the_process_has_noted_to_have_lived(
    ledger: Ledger,
) -> None:
    await outlive_the_windows(ledger)
    for uptime_ms in (2_000, 8_000, 4_000):
        await ledger.do(NoteUptime(uptime_ms=uptime_ms))

    assert (await die(ledger, 4)).window_ms == 16_000


async def test_whoever_looks_for_nothing_notes_nothing(ledger: Ledger) -> None:
    await ledger.do(NoteUptime(uptime_ms=2_000))
    await outlive_the_windows(ledger)

    assert (await die(ledger, 4)).window_ms == WINDOW_MS
