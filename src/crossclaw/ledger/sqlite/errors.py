"""Translates SQLite's errors into the ledger's: users of the ledger know its contract and not its
engine."""

import apsw
import msgspec

from crossclaw.domain.errors import StoreDamaged, StoreError

OF_ONE_STEP = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError)
"""Errors for which one step is at fault, and not the disk."""


READ_TROUBLE = (apsw.Error, msgspec.MsgspecError, UnicodeDecodeError)
"""The errors of a read: SQLite's own, or a row that is not what was written."""


def explain(error: Exception) -> StoreError:
    if isinstance(error, apsw.Error):
        return StoreError(f"the ledger could not be read: {error}")
    return StoreDamaged(
        "what the ledger has of this is damaged and cannot be read; crossclaw doctor names it"
    )
