"""The gateway keeps a log of its own, which tells what happened and nobody's words."""

import stat
from pathlib import Path

import pytest

from tests.process.program import Folder, until
from tests.process.small_disk import small_disk


@pytest.mark.spec("C2", "G2")
def test_the_log_is_there_to_be_read_and_holds_no_words_and_no_secret(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.serve() as program, program.client() as owner:
        owner.say("main", "the word is marmalade", "r1")
        owner.wait("r1")
        tail = owner.ask("logs.tail", {})
        with folder.start("logs", "-n", "5") as logs:
            assert logs.wait() == 0

    file = folder.state / "logs" / "gateway.log"
    assert tail["file"] == str(file)
    assert any("the gateway listens at" in line for line in tail["lines"])
    assert "the gateway listens at" in logs.said
    assert "marmalade" not in file.read_text()
    assert folder.token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_does_not_keep_the_gateway_from_its_work(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    (folder.state / "logs").write_text("in the way")
    with folder.serve() as program, program.client() as owner:
        assert owner.ask("logs.tail", {})["lines"] == []
        assert "no log is kept" in program.said


@pytest.mark.spec("C2")
def test_a_start_on_a_full_disk_says_what_to_do_and_works_when_there_is_room(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    with small_disk(folder) as disk:
        with folder.serve() as program, program.client() as owner:
            owner.say("main", "say: hello", "r1")
            assert owner.wait("r1") == "ok"
            program.kill()
        disk.fill()
        with folder.start("gateway", "--port", "0") as refused:
            assert refused.wait() == 1
        disk.free()
        with folder.serve() as again, again.client() as owner:
            assert owner.wait("r1") == "ok"

    assert f"the disk that holds {folder.state} is full" in refused.said
    assert "make room there, then start the gateway again" in refused.said
    assert "Traceback" not in refused.said


@pytest.mark.spec("B1")
def test_a_disk_that_fills_while_the_gateway_works_floods_no_terminal(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with small_disk(folder) as disk, folder.serve() as program, program.client() as owner:
        for number in range(8):
            owner.say(f"s{number}", "wait: 0.5\nsay: hello", f"r{number}")
        disk.fill()
        # Their ends cannot be stored, which is logged; the log cannot be written either.
        until(lambda: "log" in program.said.lower().split("ctrl-c")[-1] or None)
        disk.free()
        assert [owner.wait(f"r{number}") for number in range(8)] == ["ok"] * 8

    assert "Traceback" not in program.said
    assert "Logging error" not in program.said
    assert program.said.count("cannot be written") <= 2  # the log, and a transcript
    assert len(program.said) < 20_000
