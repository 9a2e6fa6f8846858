"""Hints: what another gateway on the same ledger has done. Only speed depends on them."""

from collections.abc import Callable, Mapping

from crossclaw.domain.aliases import Hints

HearHints = Callable[[Hints | None], None]
"""Called in the event loop with what was done; None: something may have been missed, so look
yourself."""

ENTRIES = "entries"
"""The kind of hint with ids of sessions that got entries."""
LANES = "lanes"
"""The kind of hint with keys of sessions in which a run may begin."""
ENDED = "ended"
"""The kind of hint with ids of runs that have ended."""
JOBS = "jobs"
"""The kind of hint with ids of jobs that were stored, or whose tick has ended."""


class HintBoard:
    """Calls those who have subscribed to a kind of hint."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[str, HearHints]] = []

    def add(self, kind: str, callback: HearHints) -> None:
        self._callbacks.append((kind, callback))

    def tell(self, hints: Mapping[str, Hints] | None) -> None:
        for kind, callback in self._callbacks:
            if hints is None:
                callback(None)
            elif kind in hints:
                callback(hints[kind])
