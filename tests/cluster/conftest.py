"""These need the server that `make cluster` starts, and are no part of `make test`."""

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from crossclaw.app import links, sharing
from crossclaw.gateway import linking
from crossclaw.ledger.postgres.membership import PostgresMembership
from crossclaw.runs.lease import GatewayLease
from crossclaw.testing import ScriptedProvider
from tests.cluster.linked import LEASED_S, Linked, linked, see_each_other
from tests.databases import databases
from tests.ending import SOON_S

collect_ignore_glob = [] if "CROSSCLAW_CLUSTER" in os.environ else ["test_*.py"]
PAIR = {
    "gateway": {"trustedProxies": ["127.0.0.1"], "guests": {"sessions": {"*": ["*"]}}},
    "session": {"agentToAgent": {"maxPingPongTurns": 0}},
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Real time: the leases are the server's, and threads do the work."""
    return "asyncio", {}


@pytest.fixture(autouse=True)
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway within this process keeps its lease also while the machine is busy with something else. Tests that need
    its end set it in the database; processes have real ones."""
    monkeypatch.setattr(PostgresMembership, "lease_s", LEASED_S)
    monkeypatch.setattr(GatewayLease, "lease_s", LEASED_S)
    monkeypatch.setattr(
        sharing, "LEAVE_S", SOON_S
    )  # who opens the same name again waits for no lease


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a database of this test's own."""
    return databases().url(tmp_path / "ledger")


@pytest.fixture
def quick_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways look for each other, and tell who is connected, without much waiting."""
    monkeypatch.setattr(links, "BEAT_S", 0.05)
    monkeypatch.setattr(linking, "CLIENTS_EVERY_S", 0.02)


@pytest.fixture
async def pair(
    tmp_path: Path, url: str, quick_links: None
) -> AsyncGenerator[tuple[Linked, Linked]]:
    """Two that know each other; either may take a run."""
    async with AsyncExitStack() as closing:
        a, b = [
            await closing.enter_async_context(
                linked(tmp_path, url, name, ScriptedProvider(lambda _: "heard"), PAIR)
            )
            for name in "ab"
        ]
        await see_each_other(a, b)
        yield a, b
