"""A server has room for so many locks at once: a batch that needs more is stored in pieces."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.opening import open_ledger
from tests.cluster.server import serving
from tests.ledger.making import submit

COUNT = 600  # more than two whole batches
FEW = {"max_connections": "12", "max_locks_per_transaction": "10"}


async def test_a_batch_that_needs_more_locks_than_there_are_is_stored_in_pieces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    keys = [SessionKey.named("main", f"s{number}") for number in range(COUNT)]
    with serving(FEW) as server:
        server.make_database("few")
        ledger = open_ledger(tmp_path / "l.sqlite", url=f"{server.url}/few", shared=True)

        async with anyio.create_task_group() as tasks:
            for number, key in enumerate(keys):
                tasks.start_soon(submit, ledger, f"r{number}", key)

        assert [len(await ledger.list_open_runs(key)) for key in keys] == [1] * COUNT
        await ledger.close()
    assert "stored in two transactions" in caplog.text
