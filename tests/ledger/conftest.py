"""A ledger in a fresh folder, writing in the caller's task: one for each engine there is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncGenerator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    yield opened
    await opened.close()
