"""What reaches a terminal is cleaned, whoever said it and whichever command prints it."""

import io
import json
import logging
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.cli import attention, gateways, say, tables, trace
from crossclaw.cli.log import Log
from crossclaw.cli.watch import WatchLine
from crossclaw.config import Config, find_paths
from crossclaw.display.cleaning import cleaned, escaped_json
from crossclaw.tools.mcp_process import LINE_CHARS_MAX, LINES_MAX, ServerLog

CLI = Path(__file__).parents[2] / "src" / "crossclaw" / "cli"

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = {
    f"a{CLIPBOARD}b": "ab",
    "a\x9d52;c;ZXZpbA==\x9cb": "ab",
    "a\x1b[2J\x1b[Hb": "ab",
    "a\x9b2Jb": "ab",
    "a\x1bcb": "ab",
    "a\x1bP+q544e\x1b\\b": "ab",
    "abc\x08\x08\x08xyz\r": "abcxyz",
    "invoice\u202egnp.exe": "invoicegnp.exe",
    "a\u2066b\u2069": "ab",
    "\ue000forged;31\ue000x": "forged;31x",
}
FAILED = {"name": "failed", "why": "no\n  3  owner agreed"}
PLAIN = ["línea\n\tzwei 三", "👩\u200d👩\u200d👧 ok", "na\u00a0ja", "می\u200cخواهم", "e\u0301"]


@pytest.mark.parametrize(("text", "shown"), HOSTILE.items())
def test_what_steers_a_terminal_is_left_out(text: str, shown: str) -> None:
    assert cleaned(text) == shown


@pytest.mark.parametrize("text", PLAIN)
def test_words_of_every_script_stay(text: str) -> None:
    assert cleaned(text) == text


@given(st.text(st.characters(codec=None), max_size=60))
def test_nothing_that_steers_is_ever_left(text: str) -> None:
    for character in cleaned(text):
        kind = unicodedata.category(character)
        assert kind not in ("Cc", "Cf", "Cs", "Co") or character in "\n\t\u200c\u200d"


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_json_carries_everything_and_shows_nothing_that_steers(text: str) -> None:
    shown = escaped_json(json.dumps({"t": text}, ensure_ascii=False))

    assert json.loads(shown) == {"t": text}
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_whatever_a_command_says_is_cleaned_and_its_own_colours_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stdout, stderr = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)

    say.out(f"{say.coloured('good' + CLIPBOARD, '32')} {CLIPBOARD}name")
    say.note(CLIPBOARD + "told")
    say.problem(CLIPBOARD + "failed", hint=CLIPBOARD + "do this")
    say.out_json({"a": "\x9b2J\u202e" + CLIPBOARD})
    say.console().print(CLIPBOARD + "drawn", markup=False)

    shown, told = stdout.getvalue(), stderr.getvalue()
    assert shown.startswith("\x1b[32mgood\x1b[0m name\n")
    assert "drawn" in shown
    assert told.startswith("\x1b[2mtold\x1b[0m\ncrossclaw: failed\ndo this\n")
    for text in (shown, told):
        assert set(re.findall(r"\x1b.?", text)) <= {"\x1b["}
        assert "52;c" not in text.replace("\\u001b]52;c", "")
        assert not re.search("[\x80-\x9f\u202e\x07]", text)


def test_a_line_of_watch_stays_one_line_and_steers_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sandboxed agent chooses the arguments of its tools."""
    say.out(WatchLine(0, "main", "tool", f"exec {CLIPBOARD}\n12:00:00  owner  said  yes").shown(0))

    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert "\x1b]" not in shown


FORGED = "phone\n  2  owner asks for nothing\r\n\u2028"


def test_a_name_of_somebody_else_begins_no_line_of_its_own() -> None:
    """Whoever names a device, a job or a folder could write a row that looks like ours."""
    row = {"id": "d1", "since": 0, "what": "asks to be paired", "subject": FORGED}
    shown = attention.shown_row(1, {**row, "why": FORGED, "helps": FORGED}, 0)
    assert [line[:5] for line in shown.splitlines()] == ["  1  ", "     ", "     "]

    span = {"kind": "tool", "name": FORGED, "start": 0, "end": 1, "standing": FAILED}
    tree = {"start": 0, "end": 1, "ts": 1, "asked": FORGED, "root": "r", "spans": [span]}
    assert all("\n" not in line for line in trace.lines(tree, only_failed=False, columns=80))
    assert "\n" not in tables.pairs([("name", FORGED)])


def test_nobody_else_in_the_command_line_writes_to_the_terminal() -> None:
    writes = re.compile(r"(?<![\w.])print\(|std(?:out|err)\.(?:write|buffer)|(?<![\w\"])Console\(")
    found = {path.name for path in CLI.glob("*.py") if writes.search(path.read_text("utf-8"))} - {
        "say.py"
    }

    assert found <= set()


def test_the_log_is_cleaned_on_the_terminal_and_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = find_paths({}, tmp_path)
    log = Log(paths, verbose=False)
    try:
        log._terminal.setStream(sys.stderr)
        log.take(Config())
        logging.getLogger("crossclaw.test").warning("name %s", CLIPBOARD + "x\u202e")
    finally:
        log._change(None)
        logging.getLogger().removeHandler(log._terminal)

    written = paths.log_path(Config().logging).read_text("utf-8")
    for text in (written, capsys.readouterr().err):
        assert "name x\n" in text
        assert "\x1b" not in text


def test_what_a_server_says_beside_the_protocol_is_logged_with_its_name_and_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    lines = ServerLog("files")

    lines.take(b"begin" + CLIPBOARD.encode() + b"ning\nhal", 0.0)
    lines.take(b"f\n" + b"x" * 5_000_000 + b"\n", 0.0)
    lines.take(b"again\n" * 1_000, 1.0)
    lines.take(b"later\n", 100.0)

    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == ["MCP server files: beginning", "MCP server files: half"]
    assert max(map(len, said)) < LINE_CHARS_MAX + 50
    assert len(said) == LINES_MAX + 2
    assert said[-2:] == [
        f"MCP server files: {1_003 - LINES_MAX} more lines left out",
        "MCP server files: later",
    ]


def test_no_name_of_a_gateway_or_setting_writes_a_line_of_its_own() -> None:
    row = {"id": "b\nall is well", "whyNoRuns": "tools\x1b[2J\r\nrun: rm -rf /"}
    (line,) = gateways.reasons_shown([row, {"id": "a"}])
    assert line == "b all is well takes no runs, because tools run: rm -rf /."
