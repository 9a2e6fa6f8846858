"""A gateway that takes longer to open than its lease lasts: its place is kept meanwhile, and should it be lost, it opens anew."""

from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.client import connect_async
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.postgres.wire import PgWire
from tests.cluster.linked import LEASED_S, until
from tests.cluster.test_gateways import ask
from tests.cluster.test_links import served
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
# Once: whoever joins is taken for dead before it has opened.
TAKEN_AWAY = f"""
CREATE SEQUENCE {SCHEMA}.joins;
CREATE FUNCTION {SCHEMA}.take_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('{SCHEMA}.joins') = 1 THEN
    DELETE FROM {SCHEMA}.gateways WHERE incarnation = NEW.incarnation;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER taken_away AFTER INSERT ON {SCHEMA}.gateways
  FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.take_away();
"""
RENEWED_MS = int(LEASED_S * 1000) + 100  # more than by its joining alone
GIVEN_BACK = f"DROP FUNCTION {SCHEMA}.take_away CASCADE; DROP SEQUENCE {SCHEMA}.joins;"


async def names(at: str) -> list[str]:
    async with connect_async(at, token=TOKEN, environ={}) as client:
        listed: dict[str, Any] = await client.call("gateways.list")
    return [each["id"] for each in listed["gateways"]]


async def test_a_gateway_renews_its_lease_while_it_still_opens(tmp_path: Path, url: str) -> None:
    """It reads who may come in, which here takes until somebody else is done with that table."""
    opened, close = anyio.Event(), anyio.Event()

    async def open_other() -> None:
        async with served(tmp_path, url, "b"):
            opened.set()
            await close.wait()

    def is_renewed() -> bool:
        sql = "SELECT 1 FROM gateways WHERE gateway_id = 'b' AND until > joined_at + $1::bigint"
        return bool(ask(url, sql, RENEWED_MS))

    async with served(tmp_path, url, "a") as at_a, anyio.create_task_group() as tasks:
        with closing(PgWire(url)) as holding:
            holding.script(f"BEGIN; LOCK TABLE {SCHEMA}.credentials IN ACCESS EXCLUSIVE MODE")
            tasks.start_soon(open_other)
            await until(is_renewed)
            assert not opened.is_set()
        await opened.wait()
        assert await names(at_a) == ["a", "b"]
        close.set()


async def test_a_gateway_that_loses_its_place_before_it_has_opened_opens_anew(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, url, "a") as at_a:
        with closing(PgWire(url)) as wire:
            wire.script(TAKEN_AWAY)
            try:
                async with served(tmp_path, url, "b"):
                    assert await names(at_a) == ["a", "b"]
            finally:
                wire.script(GIVEN_BACK)
    assert "opens anew: this gateway" in caplog.text
