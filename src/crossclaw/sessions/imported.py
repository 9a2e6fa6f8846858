"""The report of an import: what it has found and done."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from crossclaw.ledger.imports import ImportedSession
from crossclaw.sessions.import_sources import TranscriptSource

LISTED_MAX = 200  # problems told one by one; the rest are counted


class ImportReport(msgspec.Struct, kw_only=True, rename="camel"):
    """What an import has found and done."""

    sessions: int = 0
    transcripts_before: int = 0
    """Transcripts known from an earlier import and not changed since."""
    messages: int = 0
    notes: int = 0
    approvals: int = 0
    """Commands that were allowed for good, and rules for commands."""
    unreadable: int = 0
    bytes: int = 0
    problems: list[str] = []
    remarks: list[str] = []
    agents: list[str] = []
    """The agents whose sessions were found."""

    def problem(self, text: str) -> None:
        self.unreadable += 1
        if len(self.problems) < LISTED_MAX:
            self.problems.append(text)

    def remark(self, text: str) -> None:
        if len(self.remarks) < LISTED_MAX:
            self.remarks.append(text)


Progress = Callable[[int, int, ImportReport], None]
"""(bytes done, bytes in all, the report so far)"""


class FoundTranscript(NamedTuple):
    session: ImportedSession
    source: TranscriptSource | None
    """The source of the transcript; None: there is none, or it is empty."""
    size: int = 0
    """The transcript's size when it was found."""
