"""The log's own trouble: counted, said once, and nobody who logs hears of it."""

import errno
import logging
from collections.abc import Generator
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import pytest

from crossclaw.cli import logfile
from crossclaw.cli.log import _Terminal as Terminal
from crossclaw.cli.logfile import LogFile


class Fillable(LogFile):
    """On a disk that can be filled: `/dev/full` takes the place of the file."""

    full = False

    def _open(self) -> TextIOWrapper:
        return Path("/dev/full").open("a") if self.full else super()._open()

    def fill(self, *, full: bool) -> None:
        self.full = full
        if self.stream is not None:
            self.stream.close()
            self.stream = self._open()


@pytest.fixture
def file(tmp_path: Path) -> Generator[Fillable]:
    opened = Fillable(tmp_path / "gateway.log", 10_000)
    yield opened
    opened.close()


def say(file: LogFile, text: str) -> None:
    file.handle(logging.LogRecord("test", logging.INFO, "", 0, text, None, None))


def test_a_full_disk_is_said_once_and_the_missing_lines_are_counted(
    file: Fillable, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(file, "before")
    file.fill(full=True)
    for number in range(100):
        say(file, f"lost {number}")
    file.full = False
    monkeypatch.setattr("crossclaw.cli.logfile.time.monotonic", lambda: 1e9)
    say(file, "after")
    said = capfd.readouterr().err

    assert Path(file.baseFilename).read_text().splitlines() == [
        "before",
        "100 lines are missing here: they could not be written",
        "after",
    ]
    assert said.count("\n") == 1
    assert "No space left on device" in said
    assert "Traceback" not in said


def test_each_time_that_the_disk_fills_is_said_again(
    file: Fillable, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "TRY_AGAIN_S", 0.0)
    for _ in range(2):
        file.fill(full=True)
        say(file, "lost")
        say(file, "lost too")
        file.full = False
        say(file, "fine")

    assert capfd.readouterr().err.count("cannot be written") == 2
    assert Path(file.baseFilename).read_text().count("2 lines are missing here") == 2


def test_a_file_that_cannot_be_rotated_says_no_traceback(
    file: Fillable, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(source: str, target: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("os.rename", rename)
    for _ in range(300):
        say(file, "x" * 100)

    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "Read-only file system" in said


def test_a_terminal_that_is_full_too_hurts_nobody(
    file: Fillable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with suppress(OSError), Path("/dev/full").open("w") as stderr:  # closing it fails as well
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stderr)
            file.fill(full=True)
            say(file, "lost")
        said = True
    assert said


def test_a_terminal_on_a_full_disk_gets_no_traceback_for_each_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with suppress(OSError), Path("/dev/full").open("w") as full:  # closing it fails as well
        terminal = Terminal(full)
        for number in range(3):
            terminal.handle(logging.LogRecord("t", logging.INFO, "", 0, f"{number}", None, None))

    assert capsys.readouterr().err == ""
