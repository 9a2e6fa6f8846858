"""Opening: the one place that knows which engines there are."""

from pathlib import Path

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.contract import Ledger


def open_ledger(path: Path, *, url: str | None = None, inline: bool = False) -> Ledger:
    """The ledger in this file, or with `url` the one in that PostgreSQL database; then the file's folder is only
    locked. To be opened inside an event loop. `inline` uses no threads, for virtual time."""
    if url is not None:
        return _open_database(url, path.parent, inline=inline)
    return _open_file(path, inline=inline)


def _open_file(path: Path, *, inline: bool) -> Ledger:
    from crossclaw.ledger.sqlite.ledger import SqliteLedger  # noqa: PLC0415  brings apsw

    return SqliteLedger(path, inline=inline)


def _open_database(url: str, folder: Path, *, inline: bool) -> Ledger:
    try:
        from crossclaw.ledger.postgres.ledger import PostgresLedger  # noqa: PLC0415  an extra
    except ImportError as missing:
        raise StoreError(
            f"a ledger in PostgreSQL needs more packages ({missing.name} is missing): "
            "pip install 'crossclaw[postgres]'"
        ) from missing
    return PostgresLedger(url, folder, inline=inline)
