"""The log's file: readable by its owner alone, rotated so that it never fills the disk. Its own errors are not logged."""

import logging
import sys
import time
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from crossclaw.cli.say import note
from crossclaw.disk.private import make_file

TRY_AGAIN_S = 5.0  # while lines cannot be written: a full disk is not helped by trying at each


class LogFile(RotatingFileHandler):
    """The log's file. While the disk is full, lines are counted and not written; that is reported once on the
    terminal, and in the file when it can be written again. The caller never gets an error."""

    def __init__(self, path: Path, bytes_max: int, kept: int) -> None:
        """`kept` is the number of full files that stay."""
        self._lost = 0
        self._silent_until = 0.0
        super().__init__(path, maxBytes=bytes_max, backupCount=kept, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        """Opens a file, also the one that follows when this is full, for its owner alone."""
        make_file(Path(self.baseFilename))
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lost and time.monotonic() < self._silent_until:
            self._lost += 1
            return
        lost, self._lost = self._lost, 0
        if lost:
            super().emit(_line(f"{lost} lines are missing here: they could not be written"))
        if self._lost:  # not even that
            self._lost += lost
            return
        super().emit(record)
        if not self._lost:
            self._silent_until = 0.0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Handles a line that failed. The stream is dropped with its buffer: half a line would come out of it
        later."""
        stream, self.stream = self.stream, None
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
        if not self._silent_until:
            self._tell(
                f"the log {self.baseFilename} cannot be written: {sys.exc_info()[1]}; lines are left out"
            )
        self._lost += 1
        self._silent_until = time.monotonic() + TRY_AGAIN_S

    def _tell(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be a file on the same disk
            note(text)


def _line(text: str) -> logging.LogRecord:
    return logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
