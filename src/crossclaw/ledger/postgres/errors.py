"""Translates PostgreSQL's errors into the ledger's: users of the ledger know its contract and not
its engine."""

import msgspec

from crossclaw.domain.errors import StoreDamaged, StoreError, StoreFull

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_FULL = ("53100",)  # disk_full
_TRY_AGAIN = ("40001", "40P01")  # serialization_failure, deadlock_detected
_TOO_MUCH = (
    "53200",
)  # out_of_memory: mostly that of all locks together, max_locks_per_transaction
_OF_ONE_STEP = ("22", "23")  # a value that its column does not take, a constraint


class ServerTrouble(Exception):
    """The server refused a statement."""

    def __init__(self, state: str, message: str, statement: str = "") -> None:
        super().__init__(message)
        self.state = state
        self.statement = statement

    @property
    def of_one_step(self) -> bool:
        """Whether one step is at fault, and not the store."""
        return self.state[:2] in _OF_ONE_STEP

    @property
    def may_work_again(self) -> bool:
        return self.state in _TRY_AGAIN

    @property
    def is_too_much(self) -> bool:
        """Whether less at once may work, or the same when others are done."""
        return self.state in _TOO_MUCH

    @property
    def failure(self) -> StoreError:
        if self.state in _FULL:
            return StoreFull(
                "the disk of the database is full: nothing was stored; make room on it and try again"
            )
        return StoreError(f"the ledger could not write: {self}; nothing was stored")

    @property
    def refusal(self) -> StoreError:
        return StoreError(f"the ledger does not take this: {self}; nothing was stored")


class ConnectionLost(Exception):
    """The connection to the server is lost."""


READ_TROUBLE = (ServerTrouble, ConnectionLost, msgspec.MsgspecError, UnicodeDecodeError)


def explain(error: Exception) -> StoreError:
    if isinstance(error, ConnectionLost):
        return StoreError(f"the database cannot be reached: {error}")
    if isinstance(error, ServerTrouble):
        return StoreError(f"the ledger could not be read: {error}")
    return StoreDamaged(
        "what the ledger has of this is damaged and cannot be read; crossclaw doctor names it"
    )
