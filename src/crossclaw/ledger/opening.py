"""Opening: the one place that knows which engines there are."""

from pathlib import Path

from crossclaw.ledger.contract import Ledger


def open_ledger(path: Path, *, inline: bool = False) -> Ledger:
    """The ledger in this file, to be opened inside an event loop. `inline` uses no threads, for virtual time."""
    from crossclaw.ledger.sqlite.ledger import SqliteLedger  # noqa: PLC0415  brings apsw

    return SqliteLedger(path, inline=inline)
