"""Migrations on PostgreSQL: those of SQLite, translated. One that cannot be translated has a file
of its own here, by the same name."""

import logging
from importlib.resources import files

from crossclaw.domain.errors import StoreTooNew
from crossclaw.ledger.postgres.dialect import schema
from crossclaw.ledger.postgres.shared_settings import SETTINGS_TABLES
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.migrate import MIGRATIONS, VERSION, Migration

log = logging.getLogger(__name__)

SCHEMA = "crossclaw"
_VERSION_TABLE = (
    # Asked for only where it is missing: whoever was given a schema need not have the right to make one.
    f"DO $$ BEGIN IF to_regnamespace('{SCHEMA}') IS NULL THEN CREATE SCHEMA {SCHEMA}; END IF; END $$; "
    f"SET search_path TO {SCHEMA}; "
    "CREATE TABLE IF NOT EXISTS store (version BIGINT NOT NULL); "
    # The last transaction of each writer: what became of a commit that was cut off is read here.
    "CREATE TABLE IF NOT EXISTS batches (writer TEXT PRIMARY KEY, number BIGINT NOT NULL, "
    "at TIMESTAMPTZ NOT NULL DEFAULT now())"
)
_AT = "ALTER TABLE batches ADD COLUMN IF NOT EXISTS at TIMESTAMPTZ NOT NULL DEFAULT now()"
SIDE_TABLES = ("store", "batches", "gateways", "roles", "configs", "model_keys")
"""Tables that only a server has, about the gateways that use the store. They are not moved."""

_MAKING = 0x63726F7373636C64  # for pg_advisory_lock
# Made when several gateways share the store for the first time.
_SHARED_TABLES = (
    "CREATE TABLE IF NOT EXISTS gateways (incarnation TEXT PRIMARY KEY, gateway_id TEXT NOT NULL UNIQUE, "
    "until BIGINT NOT NULL, joined_at BIGINT NOT NULL, address TEXT NOT NULL, version TEXT NOT NULL, "
    "config_hash TEXT NOT NULL, config_keys TEXT NOT NULL DEFAULT '{}', config_epoch BIGINT NOT NULL DEFAULT 0, "
    "draining BIGINT NOT NULL DEFAULT 0, why_no_runs TEXT, agents TEXT NOT NULL DEFAULT '[]'); "
    "CREATE TABLE IF NOT EXISTS roles (name TEXT PRIMARY KEY, owner TEXT NOT NULL); "
    f"{SETTINGS_TABLES}"
)
# Only where it is missing: to change a table waits for whoever uses it, and holds up all others meanwhile.
_LATER_COLUMNS = (
    "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = "
    f"'{SCHEMA}' AND table_name = 'gateways' AND column_name = 'agents') THEN "
    "ALTER TABLE gateways ADD COLUMN IF NOT EXISTS why_no_runs TEXT, "
    "ADD COLUMN IF NOT EXISTS agents TEXT NOT NULL DEFAULT '[]'; END IF; END $$"
)

# What waits for any gateway; a gateway that is alone knows it.
_QUEUED = "CREATE INDEX IF NOT EXISTS runs_queued ON runs (id) WHERE status = 'queued'"


def make_shared_tables(wire: PgWire) -> None:
    """Makes the tables for several gateways. Locked, since several may do so at once."""
    wire.ask("SELECT pg_advisory_lock($1::bigint)", _MAKING)
    wire.script(_SHARED_TABLES)
    wire.script(_LATER_COLUMNS)
    if wire.ask("SELECT to_regclass($1::text)::text", f"{SCHEMA}.runs_queued") == [(None,)]:
        wire.script(_QUEUED)  # else it would wait for whoever writes, each time
    wire.ask("SELECT pg_advisory_unlock($1::bigint)", _MAKING)


def sql_of(migration: Migration) -> str:
    name = f"{migration.number:04}_{migration.name}.sql"
    own = files("crossclaw.ledger.postgres") / "migrations" / name
    return own.read_text("utf-8") if own.is_file() else schema(migration.sql)


def version_of(wire: PgWire) -> int:
    """The version of the store; 0 if the database has none yet."""
    ((there,),) = wire.ask("SELECT to_regclass($1::text)::text", f"{SCHEMA}.store")
    if there is None:
        return 0
    rows = wire.ask(f"SELECT version FROM {SCHEMA}.store")
    return int(rows[0][0]) if rows else 0


def refuse_newer(found: int) -> None:
    if found > VERSION:
        raise StoreTooNew(
            f"the store has version {found}, this Crossclaw knows {VERSION}: it was written by a "
            "newer release. Upgrade Crossclaw, or name another database; nothing was changed"
        )


def migrate(wire: PgWire, upto: int = VERSION) -> None:
    found = version_of(wire)
    refuse_newer(found)
    if found == 0:
        wire.script(_VERSION_TABLE)
    else:
        wire.script(_AT)
    for migration in MIGRATIONS[found:upto]:
        if found:
            log.info("the store is brought to version %d (%s)", migration.number, migration.name)
        wire.script(
            f"BEGIN; {sql_of(migration)}; DELETE FROM store; "
            f"INSERT INTO store VALUES ({migration.number}); COMMIT"
        )
