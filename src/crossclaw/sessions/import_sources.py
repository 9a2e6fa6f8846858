"""Sources of imported transcripts: a file of OpenClaw 2026.2, or rows of a database of 2026.9."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from crossclaw.ledger.openclaw import AgentStore
from crossclaw.sandbox.contract import ReadFolder
from crossclaw.sandbox.files import open_file
from crossclaw.transcripts.foreign import LineRead, read_row, read_transcript


class TranscriptSource(Protocol):
    @property
    def name(self) -> str:
        """A name for people, by which the next import recognises it."""

    @property
    def size(self) -> int:
        """The size when it was found; a transcript that has grown has another one."""

    def read(self, begin: int = 0, lines: int = 0) -> Iterator[LineRead]:
        """The lines after so many bytes and lines."""


class TranscriptFile(NamedTuple):
    path: Path
    size: int

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self, begin: int = 0, lines: int = 0) -> Iterator[LineRead]:
        with open_file(ReadFolder(self.path.parent), self.path.name) as file:
            yield from read_transcript(file, begin=begin, lines=lines)


class TranscriptRows(NamedTuple):
    """A part of what a database has under one id: from one reset (`/new`) to the next."""

    store: AgentStore
    path: Path
    session_id: str
    first: int
    end: int | None
    size: int

    @property
    def name(self) -> str:
        return f"{self.path}, session {self.session_id}"

    def read(self, begin: int = 0, lines: int = 0) -> Iterator[LineRead]:
        at = begin
        for event in self.store.events(self.session_id, self.first + lines, self.end):
            number = event.seq - self.first + 1
            if number <= lines:
                continue
            at += len(event.line)
            yield read_row(event.line, number, at, left=event.left)
