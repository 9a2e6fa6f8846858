"""SQLite's errors end here: whoever uses the ledger knows its contract and not what is behind it."""

import apsw
import msgspec

from crossclaw.domain.errors import StoreDamaged, StoreError

OF_ONE_STEP = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError)
"""What is wrong with a step and not with the disk."""


READ_TROUBLE = (apsw.Error, msgspec.MsgspecError, UnicodeDecodeError)
"""What a read can end with: SQLite's trouble, or a row that is not what was written."""


def explain(error: Exception) -> StoreError:
    if isinstance(error, apsw.Error):
        return StoreError(f"the ledger could not be read: {error}")
    return StoreDamaged(
        "what the ledger has of this is damaged and cannot be read; crossclaw doctor names it"
    )
