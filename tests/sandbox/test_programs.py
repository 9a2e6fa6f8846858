"""Programs: their output, their limits, and that nothing of them stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from crossclaw.domain.errors import Forbidden, Invalid, NotFound, ToolFailed
from crossclaw.sandbox import programs
from tests.sandbox.rooms import Room

BOXED = {"mode": "all"}
HOLD = "exec 9>life; echo begun >&9; sleep 1000 9>&9 & "
"""Opens the pipe `life` and hands it to a child: it reaches its end when the last of them is gone."""


DAEMON = "sh -c 'echo begun >&9; echo ready > told; exec sleep 1000'"
"""Tells that it has begun by the pipe `told`."""


@pytest.fixture(params=[None, BOXED], ids=["host", "sandbox"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    room = Room(tmp_path, request.param)
    os.mkfifo(room.workspace / "life")
    os.mkfifo(room.workspace / "told")
    return room


def test_output_and_exit_code_come_back(room: Room) -> None:
    assert room("exec", command="echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    assert room("exec", command="true") == "(no output)\n[exit code 0]"
    assert room("exec", command="cat") == "(no output)\n[exit code 0]"  # there is no input
    assert room("exec", command="kill -9 $$").endswith("[exit code 137]")


def test_a_command_begins_in_the_workspace_or_a_folder_of_it(room: Room) -> None:
    (room.workspace / "sub").mkdir()
    (room.workspace / "out").symlink_to("/")

    assert room("exec", command="touch here; ls -d here") == "here\n[exit code 0]"
    assert room("exec", command="basename $PWD", workdir="sub") == "sub\n[exit code 0]"
    with pytest.raises(NotFound, match="that folder has"):
        room("exec", command="true", workdir="nowhere")
    for workdir in ("..", "/", "out"):
        with pytest.raises(Forbidden, match="outside"):
            room("exec", command="true", workdir=workdir)


def test_a_command_that_cannot_be_is_refused_in_words(room: Room) -> None:
    for arguments in (
        {"command": " "},
        {"command": "a\0b"},
        {"command": "x" * 200_000},
        {"command": "true", "timeout": 0},
    ):
        with pytest.raises(Invalid):
            room("exec", **arguments)


def test_long_output_keeps_its_beginning_and_its_end(room: Room) -> None:
    told = room("exec", command="echo first; seq 1 100000; echo last")

    assert told.startswith("first\n1\n2\n")
    assert told.endswith("99999\n100000\nlast\n[exit code 0]")
    assert "bytes left out]" in told
    assert len(told) < programs.KEPT_BYTES + 100


def test_endless_output_is_ended(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "OUTPUT_BYTES_MAX", 1_000_000)

    with pytest.raises(ToolFailed, match="ended after 1000000 bytes"):
        room("exec", command="yes")


def test_signs_of_life_come_while_it_runs(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waits for a word that is only said once its progress was heard."""
    monkeypatch.setattr(programs, "PROGRESS_S", 0.0)
    heard: list[str] = []

    def tell(text: str) -> None:
        if not heard:
            Path(room.workspace / "go").touch()
        heard.append(text)

    told = room(
        "exec", command="echo working; until [ -e go ]; do sleep 0.01; done; echo done", tell=tell
    )

    assert told == "working\ndone\n[exit code 0]"
    assert heard[0] == "working\n"


def still_alive(room: Room) -> Any:
    """Opened before anybody writes; its `read` ends when the last one that holds it is gone."""
    return open(os.open(room.workspace / "life", os.O_RDONLY | os.O_NONBLOCK), "rb")


def until_gone(life: Any) -> bytes:
    os.set_blocking(life.fileno(), True)
    said: bytes = life.read()
    return said


@pytest.mark.spec("V4")
def test_what_is_left_in_the_background_ends_with_the_call(room: Room) -> None:
    with still_alive(room) as life:
        assert room("exec", command=f"{HOLD} echo over") == "over\n[exit code 0]"
        assert until_gone(life) == b"begun\n"


@pytest.mark.spec("V4")
@pytest.mark.parametrize("leaving", ["setsid -f", "env -i setsid -f", "nohup setsid setsid -f"])
def test_a_daemon_does_not_outlive_its_call(room: Room, leaving: str) -> None:
    """It has left its group and its parent, and may have forgotten its variables."""
    with still_alive(room) as life:
        told = room(
            "exec", command=f"exec 9>life; {leaving} {DAEMON}; read -r line < told; echo over"
        )
        assert told == "over\n[exit code 0]"
        assert until_gone(life) == b"begun\n"


@pytest.mark.spec("V4")
def test_a_daemon_is_ended_with_a_call_that_ran_out_of_time(room: Room) -> None:
    with still_alive(room) as life:
        with pytest.raises(ToolFailed, match="ended after 1 s"):
            room(
                "exec",
                command=f"trap '' TERM; exec 9>life; setsid -f {DAEMON}; wait; sleep 1000",
                timeout=1,
            )
        assert until_gone(life) in (b"begun\n", b"")


def test_a_command_that_ends_its_group_does_not_end_its_keeper(room: Room) -> None:
    with still_alive(room) as life:
        told = room(
            "exec", command=f"exec 9>life; setsid -f {DAEMON}; read -r line < told; kill -9 0"
        )
        assert told.endswith("[exit code 137]")
        assert until_gone(life) == b"begun\n"


def test_a_command_that_kills_its_keeper_ends_with_it(tmp_path: Path) -> None:
    """Only where there is no bubblewrap: inside of one nobody sees it."""
    room = Room(tmp_path, environ={"PATH": str(tmp_path)})
    os.mkfifo(room.workspace / "life")
    with still_alive(room) as life:
        with pytest.raises(ToolFailed, match="it was ended from outside"):
            room("exec", command="exec 9>life; echo begun >&9; kill -9 $PPID; exec /bin/sleep 1000")
        assert until_gone(life) == b"begun\n"


def test_a_program_that_is_not_there_is_told(room: Room) -> None:
    told = room("exec", command="exec no-such-program")
    assert "no-such-program" in told
    assert told.endswith("[exit code 127]")


def test_a_command_over_its_time_is_ended_with_all_its_children(room: Room) -> None:
    with still_alive(room) as life:
        with pytest.raises(ToolFailed, match=r"\[no exit code: it was ended after 0\.3 s\]"):
            room("exec", command=f"{HOLD} wait", timeout=0.3)
        assert until_gone(life) in (b"begun\n", b"")


@pytest.mark.parametrize("spelled", ["timeoutSec", "timeoutSeconds"])
def test_the_setting_bounds_what_a_model_asks_for(tmp_path: Path, spelled: str) -> None:
    room = Room(tmp_path, exec_settings={spelled: 1})

    with pytest.raises(ToolFailed, match="after 1 s"):
        room("exec", command="sleep 1000", timeout=500)


@pytest.mark.spec("V4")
def test_an_aborted_call_leaves_nothing_running(room: Room) -> None:
    async def abort(life: Any) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: room.use("exec", command=f"{HOLD} wait"))
            os.set_blocking(life.fileno(), True)
            line = await anyio.to_thread.run_sync(life.readline)
            assert line == b"begun\n"
            tasks.cancel_scope.cancel()

    with still_alive(room) as life, open(room.workspace / "life", "wb") as held:
        threadless = anyio.run(abort, life)
        held.close()
        assert threadless is None
        assert until_gone(life) == b""


@pytest.mark.spec("V4")
@pytest.mark.parametrize(
    "command", [f"{HOLD} wait", f"exec 9>life; setsid -f {DAEMON}; sleep 1000"]
)
@pytest.mark.parametrize("sandbox", ["{}", '{"mode": "all"}'])
def test_a_killed_gateway_leaves_no_process(tmp_path: Path, sandbox: str, command: str) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.sandbox.rooms import Room\n"
        f"Room(Path(sys.argv[1]), {sandbox})('exec', command=sys.argv[2])"
    )
    room = Room(tmp_path)
    os.mkfifo(room.workspace / "life")
    with still_alive(room) as life, open(room.workspace / "life", "wb") as held:
        gateway = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), command], cwd=Path.cwd()
        )
        os.set_blocking(life.fileno(), True)
        assert life.readline() == b"begun\n"
        gateway.send_signal(signal.SIGKILL)
        gateway.wait()
        held.close()
        assert until_gone(life) == b""


@pytest.mark.spec("V4")
def test_a_command_gets_few_variables_and_none_that_is_secret(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "OPENCLAW_GATEWAY_TOKEN": "t0ken",
        "ANTHROPIC_API_KEY": "k3y",
        "EDITOR": "vi",
        "LC_ALL": "C",
    }
    for sandbox in (None, BOXED):
        room = Room(tmp_path, sandbox, {"passEnv": ["EDITOR", "MISSING"]}, environ)
        told = room("exec", command="env; cat /proc/self/environ /proc/1/environ | tr '\\0' '\\n'")
        assert "EDITOR=vi" in told
        if sandbox:  # without, process 1 is the machine's own
            assert "t0ken" not in told
            assert "k3y" not in told
        assert "TOKEN" not in room("exec", command="env")
        assert "KEY" not in room("exec", command="env")


def test_commands_can_be_kept_to_the_sandbox(tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match=r"tools\.exec\.host"):
        Room(tmp_path, exec_settings={"host": "sandbox"})("exec", command="true")
    boxed = Room(tmp_path, BOXED, {"host": "sandbox"})
    assert boxed("exec", command="true").endswith("[exit code 0]")
