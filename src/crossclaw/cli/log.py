"""The log of a gateway: in its terminal and in a file, as the section `logging` says now."""

import logging
import sys
from pathlib import Path
from typing import TextIO

from crossclaw.cli.say import cleaned, note
from crossclaw.config import Config, Paths

LOG_BYTES_MAX = 10 * 2**20
NOTHING = logging.CRITICAL + 1
_LEVELS = {
    "silent": NOTHING,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Terminal(logging.StreamHandler[TextIO]):
    """A terminal that is gone, or a file on a full disk in its place, gets no line; nobody else hears of it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        pass


class _Cleaned(logging.Formatter):
    """What others have written, a name or an error of a server, steers neither the terminal nor a pager."""

    def format(self, record: logging.LogRecord) -> str:
        return cleaned(super().format(record))


class Log:
    """Asked again with every config that is taken over. `--verbose` goes before the config; `quiet` is for
    the terminal only: the file has it all."""

    def __init__(self, paths: Paths, *, verbose: bool, quiet: bool = False) -> None:
        self._paths, self._verbose, self._quiet = paths, verbose, quiet
        self._terminal = _Terminal(sys.stderr)
        self._file: logging.Handler | None = None
        self._path: Path | None = None
        self._terminal.setFormatter(_Cleaned(_FORMAT))
        logging.getLogger().addHandler(self._terminal)
        for library in ("websockets", "httpx2", "mcp"):  # each would say a line at every request
            logging.getLogger(library).setLevel(logging.WARNING)

    def take(self, config: Config) -> None:
        settings = config.logging
        level = logging.DEBUG if self._verbose else _LEVELS[settings.level]
        shown = _LEVELS[settings.console_level or settings.level]
        self._terminal.setLevel(level if self._verbose else shown)
        if self._quiet:
            self._terminal.setLevel(max(shown, logging.WARNING))
        self._keep(self._paths.log_path(settings))
        if self._file is not None:
            self._file.setLevel(level)
        logging.getLogger().setLevel(min(level, self._terminal.level))

    def _keep(self, path: Path) -> None:
        """The log also goes to a file, which `logs` and the page's log read. Two files of so many bytes are
        kept: weeks of an ordinary day, and never the whole disk."""
        from crossclaw.cli.logfile import LogFile  # noqa: PLC0415  brings sockets and pickle

        if path == self._path:
            return
        try:
            handler = LogFile(path, LOG_BYTES_MAX)
        except OSError as error:
            note(f"no log is kept: {path}: {error.strerror}")
            handler = None
        self._path = path
        self._change(handler)

    def _change(self, handler: logging.Handler | None) -> None:
        if self._file is not None:
            logging.getLogger().removeHandler(self._file)
            self._file.close()
        self._file = handler
        if handler is not None:
            handler.setFormatter(_Cleaned(_FORMAT))
            logging.getLogger().addHandler(handler)
