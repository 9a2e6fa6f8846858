"""Programs outside of a sandbox have the machine, and not the gateway: its token, store, config and process."""

import os
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.sandbox.host import Host
from crossclaw.sandbox.masked import other_ways
from crossclaw.sandbox.places import Places
from tests.sandbox.rooms import SECRET, Room

pytestmark = pytest.mark.spec("V4", "B3")


class Home(Room):
    """A free agent beside the gateway's own folder, with a config outside of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.state = folder / "home" / ".openclaw"
        self.config_file = folder / "home" / "settings" / "openclaw.json"
        self.workspace = self.state / "workspace"
        for path in (self.state / "credentials", self.workspace, self.config_file.parent):
            path.mkdir(parents=True)
        (self.state / "credentials" / "gateway-token").write_text(SECRET, "utf-8")
        (self.state / "crossclaw.sqlite").write_text(SECRET, "utf-8")
        (self.state / "crossclaw.lock").touch()
        self.config_file.write_text(f"{{ secret: '{SECRET}' }}", "utf-8")
        self.places = Places(
            self.config,
            lambda agent_id: self.workspace,
            self.state,
            os.environ,
            (self.config_file,),
        )
        for tool in self.tools.values():
            tool._places = self.places  # type: ignore[attr-defined]

    def holds(self) -> bool:
        """Whether everything is still as it was."""
        token = (self.state / "credentials" / "gateway-token").read_text("utf-8")
        return token == SECRET and SECRET in self.config_file.read_text("utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "cat {state}/credentials/gateway-token",
        "cat ../credentials/gateway-token",
        "cat {state}/crossclaw.sqlite*",
        "cat {config}",
        "cp {config} x; cat x",
        "ln -s {state}/credentials d; cat d/gateway-token",
        "grep -rs sesame {home} --include=gateway-token --include=crossclaw.sqlite --include=openclaw.json",
        "find {home} -name gateway-token -exec cat {{}} +",
        "umount {state}; cat {state}/credentials/gateway-token",
        "unshare -Urm sh -c 'umount -l {state}; cat {state}/credentials/gateway-token'",
        "unshare -m sh -c 'mount --bind / /mnt; cat /mnt{state}/credentials/gateway-token'",
        "cat /proc/*/root{state}/credentials/gateway-token /proc/*/cwd/credentials/gateway-token",
        "nsenter -t 1 -m cat {state}/credentials/gateway-token",
    ],
)
def test_a_free_command_does_not_read_the_gateways_own_files(home: Home, command: str) -> None:
    folder = home.folder / "home"
    told = home(
        "exec", command=command.format(state=home.state, config=home.config_file, home=folder)
    )

    assert SECRET not in told


@pytest.mark.parametrize(
    "command",
    [
        "echo mine > {config}",
        "rm -f {config}; echo mine > {config}",
        "mv {home}/settings {home}/away; mkdir {home}/settings; echo mine > {config}",
        "mv {state} {home}/away; mkdir -p {state}/credentials; echo mine > {state}/credentials/gateway-token",
        "mv {home} {home}.away; mkdir -p {home}/settings; echo mine > {config}",
        "rm -rf {state}/credentials; mkdir {state}/credentials; echo mine > {state}/credentials/gateway-token",
        "echo x > y; mv -f y {config}",
        "ln -sf /etc/hostname {config}",
    ],
)
def test_a_free_command_does_not_change_them_either(home: Home, command: str) -> None:
    """Nor puts others in their place by renaming a folder above."""
    folder = home.folder / "home"
    home("exec", command=command.format(state=home.state, config=home.config_file, home=folder))

    assert home.holds()


def test_another_way_to_the_same_folder_is_covered_too() -> None:
    """A disk can be mounted twice, and a folder of it in a third place."""
    mounts = """
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 8:1 / /mnt/whole rw - ext4 /dev/sda1 rw
23 21 8:1 /home /srv/ho\\040me rw - ext4 /dev/sda1 rw
24 21 8:1 /var /var/again rw - ext4 /dev/sda1 rw
25 21 8:2 / /other rw - ext4 /dev/sdb1 rw
"""
    path = Path("/home/ana/.openclaw")

    assert list(other_ways(path, mounts.replace("\\\\", "\\"))) == [
        Path("/mnt/whole/home/ana/.openclaw"),
        Path("/srv/ho me/ana/.openclaw"),
    ]


def test_the_gateways_process_is_not_there(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_GATEWAY_TOKEN", SECRET)
    code = f"cat /proc/{os.getpid()}/environ; cat /proc/*/environ; ls -l /proc/*/fd"
    told = home("exec", command=f"{code}; kill -0 {os.getpid()} && echo alive")

    assert SECRET not in told
    assert "alive" not in told
    assert "crossclaw.sqlite" not in told


def test_a_config_that_is_not_there_cannot_be_made(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.config_file.unlink()

    home("exec", command=f"echo mine > {home.config_file}")

    assert home.config_file.read_text("utf-8") == "{}\n"


def test_the_gateways_own_program_cannot_be_changed(home: Home) -> None:
    """It would run at the next start, without a mask."""
    import crossclaw  # noqa: PLC0415  where it lies is what is asked for

    told = home("exec", command=f"touch {Path(crossclaw.__file__).parent} {sys.prefix}")

    assert told.count("Read-only file system") == 2


@pytest.mark.spec("V2")
def test_no_command_reads_what_was_said_in_sessions(home: Home) -> None:
    """An agent that sees only its own sessions would see everybody's in the transcripts for people."""
    others = home.state / "sessions" / "other" / "a.jsonl"
    others.parent.mkdir(parents=True)
    others.write_text("said in confidence", "utf-8")

    told = home("exec", command=f"cat {others}; cat ../sessions/*/*; ls -A ../sessions")

    assert "said in confidence" not in told
    assert "a.jsonl" not in told.replace(str(others), "")


def test_everything_else_is_as_it_was(home: Home) -> None:
    """Files of the person's own, other workspaces, the environment, exit codes, devices."""
    beside = home.folder / "home" / "notes.txt"
    beside.write_text("of the owner", "utf-8")

    told = home("exec", command=f"cat {beside}; echo x > made; echo y > {beside}; pwd; exit 7")  # fmt: skip

    assert told == f"of the owner{home.workspace}\n[exit code 7]"
    assert ((home.workspace / "made").read_text(), beside.read_text()) == ("x\n", "y\n")
    assert home("exec", command="head -c 3 /dev/urandom | wc -c; id -u").startswith(
        f"3\n{os.getuid()}"
    )


def test_where_bubblewrap_does_not_work_it_is_said_and_programs_run_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces >&2; exit 1\n", "utf-8")
    broken.chmod(0o755)
    room = Room(tmp_path, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert room("exec", command="echo ran").startswith("ran")
    anyio.run(room.places.tell_of_open_host)
    assert "no namespaces" in caplog.text
    assert "(operator.write) is as good as the owner" in caplog.text


@pytest.mark.parametrize(("mode", "told"), [("all", False), ("non-main", True), ("off", True)])
def test_it_is_not_said_where_everybody_is_sandboxed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str, told: bool
) -> None:
    config = msgspec.convert({"agents": {"defaults": {"sandbox": {"mode": mode}}}}, Config)
    places = Places(config, lambda agent_id: tmp_path / "w", tmp_path / "state", {"PATH": ""})

    anyio.run(places.tell_of_open_host)

    assert ("as good as the owner" in caplog.text) == told


def test_an_mcp_server_does_not_reach_them_either(home: Home) -> None:
    async def shielded() -> bytes:
        look = f"cat {home.state}/credentials/gateway-token {home.config_file}; cat /proc/*/environ"
        command = await home.places.shield(("/bin/sh", "-c", look))
        return (await anyio.run_process(command, check=False)).stdout

    assert SECRET.encode() not in anyio.run(shielded)


def test_a_server_that_begins_early_sees_a_workspace_that_is_used_later(tmp_path: Path) -> None:
    state = tmp_path / "state"
    places = Places(Room(tmp_path).config, lambda agent_id: state / "workspace", state, os.environ)

    async def seen() -> bytes:
        command = await places.shield(
            ("/bin/sh", "-c", f"echo x > {state}/workspace/made; ls {state}")
        )
        return (await anyio.run_process(command)).stdout

    assert anyio.run(seen) == b"workspace\n"
    assert (state / "workspace" / "made").exists()


def test_a_config_where_nobody_can_write_keeps_nothing_from_running(tmp_path: Path) -> None:
    room = Room(tmp_path)
    folder, config = tmp_path / "state", Path("/proc/openclaw.json")
    places = Places(room.config, lambda agent_id: room.workspace, folder, os.environ, (config,))

    assert anyio.run(places.why_unmasked) is None


def test_without_bubblewrap_a_command_of_the_config_is_started_as_it_is(tmp_path: Path) -> None:
    room = Room(tmp_path, environ={"PATH": str(tmp_path)})

    async def shielded() -> object:
        assert isinstance(await room.places._host(), Host)
        return await room.places.shield(("a", "b"))

    assert anyio.run(shielded) == ("a", "b")
