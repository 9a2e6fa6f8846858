"""Opening a ledger: the one place that chooses an engine and opens it."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from crossclaw.disk.extras import POSTGRES, how_to_install
from crossclaw.domain.errors import StoreError
from crossclaw.ledger.contract import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crossclaw.ledger.moving import MovableStore
    from crossclaw.ledger.postgres.inspecting import DatabaseNote


def open_ledger(
    path: Path, *, url: str | None = None, inline: bool = False, shared: bool = False
) -> Ledger:
    """The ledger in this file, or with `url` the one in that PostgreSQL database; then only the
    file's folder is locked.

    Open it inside an event loop. `inline` uses no threads, for virtual time. `shared`: other
    gateways may use the same database; whoever opens it so joins them (`Ledger.gateways`) before
    anything else.
    """
    if url is not None:
        return _open_database(url, path.parent, inline=inline, shared=shared)
    if shared:
        raise StoreError(
            "ledger.shared needs a PostgreSQL database: name it by ledger.url (a file has one gateway)"
        )
    return _open_file(path, inline=inline)


def _open_file(path: Path, *, inline: bool) -> Ledger:
    from crossclaw.ledger.sqlite.ledger import SqliteLedger  # noqa: PLC0415  brings apsw

    return SqliteLedger(path, inline=inline)


def _open_database(url: str, folder: Path, *, inline: bool, shared: bool = False) -> Ledger:
    with _extra():
        from crossclaw.ledger.postgres.ledger import PostgresLedger  # noqa: PLC0415  an extra

    return PostgresLedger(url, folder, inline=inline, shared=shared)


def open_movable(place: str, *, is_source: bool = False) -> "MovableStore":
    """A store as one end of a move: the path of a file, or the address of a database."""
    if is_url(place):
        with _extra():
            from crossclaw.ledger.postgres.movable import PostgresMovable  # noqa: PLC0415  an extra

        return PostgresMovable(place)
    from crossclaw.ledger.sqlite.movable import SqliteMovable  # noqa: PLC0415  brings apsw

    path = Path(place).expanduser().absolute()
    if is_source and not path.is_file():
        raise StoreError(f"there is no store {path}")
    return SqliteMovable(path)


def inspect_database(url: str) -> "Iterator[DatabaseNote]":
    """Notes about a database before it is used."""
    with _extra():
        from crossclaw.ledger.postgres.inspecting import look_at_database  # noqa: PLC0415  an extra

    return look_at_database(url)


def is_url(place: str) -> bool:
    return "://" in place


@contextmanager
def _extra() -> Generator[None]:
    try:
        yield
    except ImportError as missing:
        raise StoreError(
            f"a ledger in PostgreSQL needs more packages ({missing.name} is missing): "
            + how_to_install(POSTGRES)
        ) from missing
