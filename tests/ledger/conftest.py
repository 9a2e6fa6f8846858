"""A ledger in a fresh folder, writing in the caller's task."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from crossclaw.ledger.sqlite.ledger import SqliteLedger


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncGenerator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.sqlite", inline=True)
    yield opened
    await opened.close()
