"""Hints: what another gateway on the same ledger has done. Nothing depends on them but speed."""

from collections.abc import Callable, Mapping

Hints = frozenset[str]
HearHints = Callable[[Hints | None], None]
"""Called in the event loop with what was done; None: something may have been missed, so look yourself."""

ENTRIES = "entries"
"""Session ids that got entries."""
LANES = "lanes"
"""Keys of sessions in which a run may begin."""
ENDED = "ended"
"""Ids of runs that have ended."""
JOBS = "jobs"
"""Ids of jobs that were put, or whose tick has come to its end."""


class HintBoard:
    """Who wants to hear what."""

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
