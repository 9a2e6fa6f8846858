"""Every earlier store is opened, brought up to date and read by today's code, and goes on where it was.

`stores/vNN.sqlite.zst` were made by the code of their time, the last commit of each version of the store: two
agents, a few messages, one agent asking the other, a sub-agent with its report, a job (from version 4 on), and a run
that was killed in the middle. The first release's own is version 2. With a new migration the store of the version
before is added: check out its last commit and let `make_store.py` talk with it so, kill it, and compress the file.
"""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.disk.zstd import zstd
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.sqlite.migrate import VERSION
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import VirtualClock, VirtualLoop, open_gateway
from tests.flows.talking import call, say, two_agents

STORES = sorted((Path(__file__).parent / "stores").glob("v*.sqlite.zst"))
GARDEN, LIBRARIAN = "agent:main:garden", "agent:librarian:main"
SOON_AFTER_MS = 1_794_816_000_000  # after the newest store was made
WITH_SPAWNS = 3  # from this version on sub-agents, and a version later jobs, were there


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One of them: the stores are read in the same way on both."""
    return "asyncio", {"loop_factory": VirtualLoop}


def number_of(store: Path) -> int:
    return int(store.name[1:3])


def put(store: Path, folder: Path) -> None:
    state = folder / "state"
    state.mkdir(mode=0o700)
    ledger = state / "crossclaw.sqlite"
    ledger.write_bytes(zstd().decompress(store.read_bytes()))
    ledger.chmod(0o600)


def words(history: dict[str, Any]) -> list[str]:
    found = []
    for message in history["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if block["type"] == "text"]
    return found


def test_there_is_a_store_of_every_earlier_version() -> None:
    assert [number_of(store) for store in STORES] == list(range(2, len(STORES) + 2))
    assert number_of(STORES[-1]) >= VERSION - 1, "add the store of the version before the newest"


@pytest.mark.spec("B1")
@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name[:3])
async def test_a_store_of_then_is_read_today_and_its_open_run_goes_on(
    tmp_path: Path, store: Path
) -> None:
    put(store, tmp_path)
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=two_agents(), clock=VirtualClock(SOON_AFTER_MS)
    ) as gateway:
        listed = await call(gateway, "sessions.list", limit=100)
        main = words(await call(gateway, "chat.history", sessionKey="main", limit=200))
        found = await call(gateway, "sessions.entries.search", query="lavender")
        jobs = (await call(gateway, "cron.list"))["jobs"]
        (open_run,) = await gateway.ledger.list_open_runs(SessionKey.parse(GARDEN))
        ended = await gateway.run_store.wait(open_run.run_id, timeout_s=600)
        after = await say(gateway, GARDEN, "say: And now?", "new-1")
        asked = words(await call(gateway, "chat.history", sessionKey=LIBRARIAN))

    keys = {row["key"] for row in listed["sessions"]}
    assert {"agent:main:main", GARDEN, LIBRARIAN} <= keys
    assert "Hola, agente" in main
    assert "It is on shelf nine." in main
    assert "say: Shelf nine." in asked
    assert ended is not None
    assert (ended.status, ended.reply) == ("ok", "After all.")
    assert after.reply == "And now?"
    assert len(found["hits"]) >= 1
    if number_of(store) >= WITH_SPAWNS:
        assert any("The errand is done." in text for text in main)
    assert [job["name"] for job in jobs] == (["news"] if number_of(store) > WITH_SPAWNS else [])
