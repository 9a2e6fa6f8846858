"""Makes the store of today's version for `test_upgrades.py`: run it at the last commit before a new migration.

python -m tests.ledger.make_store tests/ledger/stores/v19.sqlite.zst
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from crossclaw.app import Gateway
from crossclaw.disk.zstd import zstd
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import VirtualClock, open_gateway
from tests.flows.talking import call, say, two_agents

MADE_MS = 1_794_815_900_000  # before the time at which test_upgrades.py opens it
ASKS = (
    'say: I will ask.\ntool: sessions_send {"agentId": "librarian", "message": "say: Shelf nine.", '
    '"timeoutSeconds": 60}\nthen:\nsay: It is on shelf nine.'
)
SPAWNS = 'tool: sessions_spawn {"task": "say: The errand is done."}\nthen:\nsay: Begun.'
JOB: dict[str, Any] = {
    "name": "news",
    "schedule": {"kind": "cron", "expr": "0 7 * * *"},
    "payload": {"kind": "agentTurn", "message": "say: news"},
    "sessionTarget": "isolated",
}


async def talk(gateway: Gateway) -> None:
    await say(gateway, "main", "say: Hola, agente", "r1")
    await say(gateway, "main", ASKS, "r2")
    await say(gateway, "main", SPAWNS, "r3")
    await say(gateway, "agent:main:garden", "say: The lavender blooms.", "r4")
    await call(gateway, "cron.add", **JOB)
    await anyio.sleep(3)  # rounds, announces and the report of the sub-agent
    more: dict[str, Any] = {"message": "wait: 5\nsay: After all.", "idempotencyKey": "open-1"}
    await call(gateway, "chat.send", sessionKey="agent:main:garden", **more)


async def make(folder: Path, target: Path) -> None:
    clock = VirtualClock(MADE_MS - int(anyio.current_time() * 1000))
    config = two_agents()
    async with open_gateway(
        folder, RehearsalProvider(), config=config, clock=clock, inline=False
    ) as gateway:
        await talk(gateway)
        await anyio.sleep(0.5)  # the run has begun, and waits
        _copy(folder / "state" / "crossclaw.sqlite", target)
        shutil.rmtree(folder)
        os._exit(0)  # as a kill: nothing is ended


def _copy(store: Path, target: Path) -> None:
    """With what lies in the log beside it."""
    import sqlite3  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.sqlite"
        db = sqlite3.connect(store)
        db.execute("VACUUM INTO ?", (str(whole),))
        db.close()
        target.write_bytes(zstd().compress(whole.read_bytes(), 19))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="store-") as made:
        anyio.run(make, Path(made), Path(sys.argv[1]))
