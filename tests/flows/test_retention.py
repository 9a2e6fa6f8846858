"""Old sessions are archived and deleted only where `session.maintenance` says so, and nothing else goes."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.supported import refuse_unsupported
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.sessions import retention
from crossclaw.sessions.retention import DueSessions
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents

MINUTE_S = 60.0


def kept_for(**maintenance: Any) -> Config:
    return two_agents(maintenance=maintenance)


async def talk(gateway: Gateway, *names: str) -> None:
    for name in names:
        await say(gateway, name, "say: hi", f"r-{name}-{anyio.current_time()}")


async def listed(gateway: Gateway) -> list[str]:
    rows = (await call(gateway, "sessions.list", limit=50))["sessions"]
    return sorted(row["key"].removeprefix("agent:") for row in rows)


@pytest.mark.parametrize("mode", [None, "warn"])
async def test_nothing_goes_unless_the_mode_says_so(
    tmp_path: Path, mode: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"pruneAfter": "1m", "maxEntries": 1, "resetArchiveRetention": "1m"}
    config = kept_for(**settings, **({"mode": mode} if mode else {}))
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await talk(gateway, "main", "a", "b")
        await anyio.sleep(3 * MINUTE_S)  # the first look is after a minute
        await gateway.retention.once()
        there = await listed(gateway)

    assert there == ["main:a", "main:b", "main:main"]
    told = [each.message for each in caplog.records if "session.maintenance" in each.message]
    assert bool(told) is (mode == "warn")
    assert all("would archive 2 sessions" in text for text in told)


async def test_what_is_old_is_put_away_by_itself_and_stays_readable_and_main_sessions_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "JUMP_MS", 1_000)  # time that passes is no clock that jumps
    config = kept_for(mode="enforce", pruneAfter="50s")
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await talk(gateway, "main", "old", "librarian")
        await anyio.sleep(30)
        await talk(gateway, "young")
        await anyio.sleep(35)
        there = await listed(gateway)
        history = await call(gateway, "chat.history", sessionKey="agent:main:old")

    assert there == ["librarian:main", "main:main", "main:young"]
    assert len(history["messages"]) == 2


async def test_what_was_put_away_long_ago_is_deleted_where_an_age_is_given(tmp_path: Path) -> None:
    config = kept_for(mode="enforce", pruneAfter="10s", resetArchiveRetention="2m")
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await talk(gateway, "main", "old")
        await anyio.sleep(20)
        await gateway.retention.once()
        archived = await gateway.ledger.list_archived(before=2**60, limit=9)
        await anyio.sleep(3 * MINUTE_S)
        await gateway.retention.once()
        left = await gateway.ledger.list_archived(before=2**60, limit=9)

    assert [each.key.text for each in archived] == ["agent:main:old"]
    assert left == []


async def test_what_is_brought_back_while_others_are_deleted_stays_with_what_goes_on_in_it(
    tmp_path: Path,
) -> None:
    config = kept_for(mode="enforce", pruneAfter="10s", resetArchiveRetention="2m")
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await talk(gateway, "main", "wanted", "gone")
        await anyio.sleep(20)
        await gateway.retention.once()
        seen = await gateway.ledger.list_archived(before=2**60, limit=9)
        await call(gateway, "sessions.unarchive", key="wanted")
        await call(
            gateway,
            "chat.send",
            sessionKey="wanted",
            message="wait: 60\nsay: x",
            idempotencyKey="r",
        )
        await gateway.retention.carry_out(DueSessions([], seen))
        run = await gateway.run_store.wait("r", timeout_s=600)
        left = await listed(gateway)

    assert sorted(each.key.name for each in seen) == ["gone", "wanted"]  # in the same moment
    assert run is not None
    assert run.status == "ok", "and nobody has stopped it"
    assert left == ["main:main", "main:wanted"]


async def test_beyond_so_many_the_oldest_are_put_away_and_a_busy_one_is_not(tmp_path: Path) -> None:
    config = kept_for(mode="enforce", maxEntries=3)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await talk(gateway, "main")
        await call(
            gateway,
            "chat.send",
            sessionKey="busy",
            message="wait: 90\nsay: x",
            idempotencyKey="busy",
        )
        for name in ("b", "c", "d"):
            await anyio.sleep(1)
            await talk(gateway, name)
        await anyio.sleep(1)
        await gateway.retention.once()
        there = await listed(gateway)

    assert there == ["main:busy", "main:c", "main:d", "main:main"]


@pytest.mark.parametrize("odd", [{"pruneAfter": "soon"}, {"resetArchiveRetention": "1 moon"}])
def test_an_age_that_nobody_understands_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid, match=r"session\.maintenance: "):
        refuse_unsupported(msgspec.convert({"session": {"maintenance": odd}}, Config))
