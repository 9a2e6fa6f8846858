"""The log's own trouble: counted, said once, and nobody who logs hears of it."""

import errno
import json
import logging
from collections.abc import Generator
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import msgspec
import pytest

from crossclaw.cli import logfile
from crossclaw.cli.log import Log
from crossclaw.cli.log import _Terminal as Terminal
from crossclaw.cli.logfile import LogFile
from crossclaw.config import Config, Paths


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
    opened = Fillable(tmp_path / "gateway.log", 10_000, 1)
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


def config(**logging: object) -> Config:
    return msgspec.convert({"logging": logging}, Config)


@pytest.fixture
def paths(tmp_path: Path) -> Generator[Paths]:
    before = logging.getLogger().handlers[:]
    yield Paths(tmp_path, tmp_path, tmp_path / "openclaw.json")
    for handler in logging.getLogger().handlers[:]:
        if handler not in before:
            logging.getLogger().removeHandler(handler)
            handler.close()


def test_on_request_each_line_is_a_json_object(
    paths: Paths, capfd: pytest.CaptureFixture[str]
) -> None:
    log = Log(paths, verbose=False)
    log.take(config(consoleStyle="json", fileStyle="json"))
    logging.getLogger("crossclaw.runs.lanes").warning("lane %s\x1b[2J\nis blocked", "a")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("other").exception("failed")
    log.take(config())
    logging.getLogger("other").warning("plain again")

    shown = [json.loads(line) for line in capfd.readouterr().err.splitlines()[:2]]
    kept = (paths.state_dir / "logs" / "gateway.log").read_text().splitlines()
    assert [json.loads(line) for line in kept[:2]] == shown
    assert shown[0] | {"time": ""} == {
        "time": "", "level": "warn", "subsystem": "runs.lanes",
        "message": "lane a\x1b[2J\nis blocked",
    }  # fmt: skip
    assert shown[0]["time"].endswith("Z")
    assert "ValueError: why" in shown[1]["error"]
    assert "\x1b" not in "".join(kept)
    assert kept[-1].endswith("WARNING other: plain again")


def test_words_of_others_begin_no_line_of_the_log(paths: Paths) -> None:
    Log(paths, verbose=False).take(config())
    forged = "\n2026-01-01 00:00:00,000 WARNING crossclaw.gateway.auth: the owner has agreed"
    logging.getLogger("crossclaw.providers").warning(
        "the service says: %s", f"no{forged}\u2028{forged}"
    )

    kept = (paths.state_dir / "logs" / "gateway.log").read_text().splitlines()
    assert [line for line in kept if not line.startswith("    ")] == kept[:1]
    assert kept[0].endswith("WARNING crossclaw.providers: the service says: no")


def test_the_flag_goes_before_the_config(paths: Paths) -> None:
    Log(paths, verbose=False, quiet=True, as_json=True).take(config(fileStyle="text"))
    logging.getLogger("crossclaw.app").info("up")

    (line,) = (paths.state_dir / "logs" / "gateway.log").read_text().splitlines()
    assert json.loads(line)["message"] == "up"


def test_full_files_are_put_aside_and_so_many_are_kept(paths: Paths) -> None:
    Log(paths, verbose=False, quiet=True).take(config(maxFileBytes=1_000, maxFiles=3))
    for number in range(100):
        logging.getLogger("crossclaw.app").info("line %d %s", number, "x" * 100)

    files = sorted(file.name for file in (paths.state_dir / "logs").iterdir())
    assert files == ["gateway.log", "gateway.log.1", "gateway.log.2", "gateway.log.3"]
    sizes = [(paths.state_dir / "logs" / name).stat() for name in files]
    assert all(each.st_size <= 1_000 and each.st_mode & 0o777 == 0o600 for each in sizes)
