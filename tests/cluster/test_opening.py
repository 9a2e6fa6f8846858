"""Opening a store on a server whose administrators, roles and releases have ideas of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.errors import StoreTooNew
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.postgres import store
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.sqlite.migrate import VERSION
from tests.cluster.test_server import ask
from tests.cluster.test_several_writers import (
    HeldWire,
    Pair,
    no_circle_of_waits,
    no_more_reserved_than_there_is,
    written_before_the_take_over_or_not_at_all,
)

KEEPALIVES = (
    "SELECT current_setting('tcp_keepalives_idle')::int + "
    "current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int, "
    "current_setting('tcp_user_timeout')"
)


@pytest.mark.parametrize(("shared", "found"), [(True, (3, "3000")), (False, (14, "15000"))])
def test_the_server_lets_go_of_a_gateway_whose_machine_is_gone(
    url: str, shared: bool, found: tuple[int, str]
) -> None:
    """It holds the lock for as long as the server believes in the connection: by itself for two hours."""
    wire = DatabaseAddress(url, shared=shared).connect_writer()

    assert wire.ask(KEEPALIVES) == [found]

    wire.close()


async def test_a_gateway_of_an_older_release_is_told_so_also_while_others_share_the_store(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_PATIENCE_S", 0.1)
    newer = open_ledger(tmp_path / "one" / "l.sqlite", url=url, shared=True)
    ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION + 1}")

    try:
        with pytest.raises(StoreTooNew, match=f"has version {VERSION + 1}, this Crossclaw knows"):
            open_ledger(tmp_path / "two" / "l.sqlite", url=url, shared=True)
    finally:
        ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION}")  # the database is used again
        await newer.close()


def with_settings(url: str, **settings: str) -> str:
    """As a role, a database or an administrator sets them for whoever connects."""
    given = [
        f"-c{name}={value}".replace("=", "%3D").replace(" ", "%5C%20")
        for name, value in settings.items()
    ]
    return f"{url}?options={'%20'.join(given)}"


STALE = [
    written_before_the_take_over_or_not_at_all,
    no_circle_of_waits,
    no_more_reserved_than_there_is,
]
"""Races that go wrong for whoever sees the store as it was before it waited."""


@pytest.mark.spec("B6")
@pytest.mark.parametrize("race", STALE, ids=lambda race: race.__name__)
async def test_what_two_writers_keep_does_not_depend_on_the_isolation_that_a_role_has(
    tmp_path: Path, url: str, race: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PgWire", HeldWire)
    pair = Pair(tmp_path, with_settings(url, default_transaction_isolation="repeatable read"))
    try:
        assert await race(pair)
    finally:
        await pair.close()


def test_neither_timeouts_nor_spellings_of_a_role_hold_for_a_gateway(url: str) -> None:
    """A gateway waits for locks, is silent for long, and reads bytes in one spelling."""
    theirs = {"lock_timeout": "9s", "idle_session_timeout": "9s", "bytea_output": "escape"}
    wire = DatabaseAddress(with_settings(url, **theirs)).connect()

    ours = [wire.ask("SELECT current_setting($1)", name) for name in theirs]

    assert ours == [[("0",)], [("0",)], [("hex",)]]
    wire.close()
