"""Checks a database before a gateway uses it, for `crossclaw doctor`. Nothing is changed, nothing
locked."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.migrate import version_of
from crossclaw.ledger.postgres.store import DatabaseAddress, refuse_unfit
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.migrate import VERSION

_STANDBYS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'"


class DatabaseNote(NamedTuple):
    grade: Literal["ok", "warning", "error"]
    text: str
    todo: str | None = None


def look_at_database(url: str) -> Iterator[DatabaseNote]:
    try:
        address = DatabaseAddress(url)
        wire = address.connect_reader()
    except CrossclawError as error:
        yield DatabaseNote("error", str(error), "Correct ledger.url; see docs/postgres.md.")
        return
    except (ConnectionLost, ServerTrouble) as error:
        text = f"the database {address.shown} cannot be reached: {error}"
        yield DatabaseNote("error", text, "Start the server; try psql with the same address.")
        return
    try:
        yield from _look(wire, address.shown)
    except (ConnectionLost, ServerTrouble) as error:
        yield DatabaseNote("error", f"{address.shown}: {error}", "Try psql with the same address.")
    finally:
        wire.close()


def _look(wire: PgWire, name: str) -> Iterator[DatabaseNote]:
    wire.script("SET default_transaction_read_only TO DEFAULT")
    try:
        refuse_unfit(wire, name)
    except CrossclawError as error:
        yield DatabaseNote("error", str(error), "See docs/postgres.md, When it does not start.")
        return
    ((pid,),) = wire.ask("SELECT pg_backend_pid()")
    if pid != wire.backend_pid:
        yield DatabaseNote(
            "warning",
            f"between the gateway and {name} stands a pooler, as PgBouncer is one",
            "Name the server itself, or let the pooler work by session: by transaction it takes locks, "
            "prepared statements and notifications away.",
        )
    ((standbys,),) = wire.ask(_STANDBYS)
    if standbys:
        yield DatabaseNote(
            "warning",
            f"{standbys} standby servers of {name} are asynchronous: when one takes over, the last "
            "messages that were acknowledged are lost",
            "Name them in synchronous_standby_names.",
        )
    yield _version(wire, name)


def _version(wire: PgWire, name: str) -> DatabaseNote:
    found, server = version_of(wire), wire.server_version // 10_000
    if found > VERSION:
        text = f"{name} has version {found}, this Crossclaw knows {VERSION}"
        return DatabaseNote("error", text, "Upgrade Crossclaw.")
    return DatabaseNote("ok", f"{name} answers (PostgreSQL {server})")
