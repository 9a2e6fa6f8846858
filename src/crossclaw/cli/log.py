"""The log of a gateway: in its terminal and in a file, as the section `logging` says now."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from crossclaw.cli.say import cleaned, note
from crossclaw.config import Config, Paths
from crossclaw.config.doors import Logging
from crossclaw.display.cleaning import escaped_json

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
_NAMES = {
    logging.CRITICAL: "fatal",
    logging.ERROR: "error",
    logging.WARNING: "warn",
    logging.INFO: "info",
    logging.DEBUG: "debug",
}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Terminal(logging.StreamHandler[TextIO]):
    """A handler for the terminal. If that is gone, or is a file on a full disk, lines are dropped silently."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        pass


class _Cleaned(logging.Formatter):
    """A formatter that cleans names and errors of others: they steer neither the terminal nor a pager, and
    begin no line of the log: all but the first of an entry are indented."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(cleaned(super().format(record)).splitlines())


class _Json(logging.Formatter):
    """A formatter with one object a line, for programs. Everything that would steer a terminal stands in it
    as escapes."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at.replace("+00:00", "Z"),
            "level": _NAMES.get(record.levelno, record.levelname.lower()),
            "subsystem": record.name.removeprefix("crossclaw."),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(line, ensure_ascii=False))


def _formatter(*, as_json: bool) -> logging.Formatter:
    return _Json() if as_json else _Cleaned(_FORMAT)


class Log:
    """The log's settings, applied again with every config that is taken over. `--verbose` goes before the
    config; `quiet` is for the terminal only: the file has it all."""

    def __init__(
        self, paths: Paths, *, verbose: bool, quiet: bool = False, as_json: bool = False
    ) -> None:
        self._paths, self._verbose, self._quiet = paths, verbose, quiet
        self._as_json = as_json
        self._terminal = _Terminal(sys.stderr)
        self._file: logging.Handler | None = None
        self._kept_as: tuple[Path, int, int] | None = None
        self._terminal.setFormatter(_formatter(as_json=as_json))
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
        as_json = self._as_json or settings.console_style == "json"
        self._terminal.setFormatter(_formatter(as_json=as_json))
        self._keep(self._paths.log_path(settings), settings)
        if self._file is not None:
            self._file.setLevel(level)
            as_json = self._as_json or settings.file_style == "json"
            self._file.setFormatter(_formatter(as_json=as_json))
        logging.getLogger().setLevel(min(level, self._terminal.level))

    def _keep(self, path: Path, settings: Logging) -> None:
        """Writes the log to a file too, which `logs` and the page's log read. A few files of so many bytes
        are kept: months of ordinary days, and never the whole disk."""
        from crossclaw.cli.logfile import LogFile  # noqa: PLC0415  brings sockets and pickle

        wanted = (path, settings.max_file_bytes, settings.max_files)
        if wanted == self._kept_as:
            return
        try:
            handler = LogFile(*wanted)
        except OSError as error:
            note(f"no log is kept: {path}: {error.strerror}")
            handler = None
        self._kept_as = wanted
        self._change(handler)

    def _change(self, handler: logging.Handler | None) -> None:
        if self._file is not None:
            logging.getLogger().removeHandler(self._file)
            self._file.close()
        self._file = handler
        if handler is not None:
            logging.getLogger().addHandler(handler)
