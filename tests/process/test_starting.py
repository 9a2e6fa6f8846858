"""A command that the tests fork is the command that people start."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import starting
from tests.process.program import until
from tests.starting import Started, Starter, start


def both(words: tuple[str, ...], stdin: str, folder: Path) -> list[tuple[int | None, str, str]]:
    """How it ends and what it says: as a fork, and as the installed program."""
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder / "state"),
        "OPENCLAW_GATEWAY_PORT": "1", "LANG": "es_ES.UTF-8", "TZ": "Asia/Tokyo",
    }  # fmt: skip
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    forked = Started(words, cwd=folder, env=environ, **pipes)
    program = [str(starting.BIN / words[0]), *words[1:]]
    real = subprocess.Popen(program, cwd=folder, env=environ, text=True, **pipes)  # type: ignore[call-overload]
    return [
        (each.returncode, *said) for each in (forked, real) if (said := each.communicate(stdin))
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("crossclaw", "config", "get", "gateway.port"),
        ("openclaw", "no-such-command"),
        ("crossclaw", "message", "send"),
    ],
)
def test_a_fork_ends_and_speaks_as_the_program_does(words: tuple[str, ...], tmp_path: Path) -> None:
    forked, real = both(words, "say: ¡Hola!", tmp_path)

    assert forked == real


def test_a_fork_that_is_killed_is_known_to_be_dead(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path / "state")}
    gateway = start(("crossclaw", "gateway", "--port", "0"), cwd=tmp_path, env=environ)

    assert gateway.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        gateway.wait(0.001)
    gateway.kill()

    assert gateway.wait(20) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(gateway.pid, 0)


def test_no_fork_outlives_the_tests_that_started_it(tmp_path: Path) -> None:
    starter, standard = Starter(), [0, 1, 2]
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path / "state")}
    order = {"words": ("crossclaw", "gateway", "--port", "0"), "cwd": str(tmp_path), "env": environ}
    pid, end = starter.start(order, standard)
    starter.close()
    told = os.read(end, 16)  # nothing: the one that would tell has gone too
    os.close(end)

    assert told in (b"", b"-9")
    until(lambda: True if not Path(f"/proc/{pid}").exists() else None)
