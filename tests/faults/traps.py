"""Traps: a gateway's writer stands still at a certain point of a transaction, tells the rig, and goes on when it is told to."""

import socket
import threading
from collections.abc import Sequence

from crossclaw.ledger.postgres import store
from crossclaw.ledger.postgres.wire import Fate, PgWire, StatementGroup
from tests.crash.furnishing import tell

PATIENCE_S = 30.0  # of a writer whose rig has forgotten it
BLOCKED_S = 0.5  # a flight that is still not sent after this is blocked
BIG_BYTES = 100_000  # more than both ends of a connection take that nobody reads from


class TrapWire(PgWire):
    """`inside`: after the first flight of a transaction. `commit`: before the flight with its end is sent. `send`:
    before one is sent that is larger than a connection takes."""

    at = ""
    go_on = threading.Event()

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        ends = groups[0][-1].statement.sql == b"COMMIT"
        begins = groups[0][0].statement.sql == b"BEGIN"
        writes = any(each.statement.writes for each in groups[0])
        if ends and writes and TrapWire.at == "commit":
            self._stand_still()
        big = TrapWire.at == "send" and _size(groups) > BIG_BYTES
        if big:
            self._stand_still()
        blocked = threading.Timer(BLOCKED_S, lambda: tell(told="blocked"))
        if big:
            blocked.start()
        try:
            fates = super().run_pipelined(groups)
        finally:
            blocked.cancel()
        if begins and not ends and TrapWire.at == "inside":
            self._stand_still()
        return fates

    def _stand_still(self) -> None:
        TrapWire.at = ""
        TrapWire.go_on.clear()
        with socket.socket(fileno=socket.dup(self.descriptor)) as same:
            port: int = same.getsockname()[1]
        tell(told="trapped", port=port, backend=self.backend_pid)
        TrapWire.go_on.wait(PATIENCE_S)


def _size(groups: Sequence[StatementGroup]) -> int:
    return sum(
        len(value) for group in groups for each in group for value in each.data or () if value
    )


def set_traps() -> None:
    store.PgWire = TrapWire  # type: ignore[attr-defined]
