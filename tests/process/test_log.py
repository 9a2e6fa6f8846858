"""The gateway keeps a log of its own, which tells what happened and nobody's words."""

import stat
from pathlib import Path

import pytest

from tests.process.program import Folder


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
