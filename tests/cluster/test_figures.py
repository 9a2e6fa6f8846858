"""Figures on PostgreSQL: what the migration finds in the runs and messages is what was counted."""

from importlib.resources import files
from pathlib import Path

from crossclaw.domain.figures import Figures
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.databases import databases
from tests.flows.talking import two_agents
from tests.flows.test_figures import talk


async def test_an_older_database_gets_the_figures_that_it_would_have_counted(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await talk(gateway)
    sums = ", ".join(f"sum({name})::float" for name in Figures._fields)
    gather = (
        f"SELECT agent_id, model, channel, {sums} FROM figures GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    migrations = files("crossclaw.ledger.postgres") / "migrations"
    (sql,) = (each for each in migrations.iterdir() if each.name.endswith("_figures.sql"))
    wire = PgWire(databases().url(tmp_path / "state" / "crossclaw.sqlite"))
    try:
        wire.script("SET search_path TO crossclaw")
        counted = wire.ask(gather)
        insert = "INSERT INTO figures" + sql.read_text("utf-8").split("INSERT INTO figures")[1]
        wire.script(f"DELETE FROM figures; {insert}")
        found = wire.ask(gather)
    finally:
        wire.close()

    assert counted
    assert found == counted
