"""Programs in the sandbox try to get out: by paths, links, /proc, the network, the kernel."""

import ctypes
import os
import secrets
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import ConfigInvalid, CrossclawError, SandboxMissing
from crossclaw.sandbox.places import Places
from tests.sandbox.rooms import SECRET, Room

pytestmark = pytest.mark.spec("V4")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room(tmp_path, {"mode": "all"})
    (room.workspace / "door").symlink_to(room.folder)
    return room


def run(room: Room, command: str) -> str:
    told: str = room("exec", command=command)
    return told


@pytest.mark.parametrize(
    "path", ["../secret.txt", "door/secret.txt", "{folder}/secret.txt", "/proc/1/root{folder}/secret.txt",
             "/proc/1/cwd/../secret.txt"],
)  # fmt: skip
def test_a_file_beside_the_workspace_is_not_there(room: Room, path: str) -> None:
    told = run(room, f"cat {path.format(folder=room.folder)}")

    assert "No such file" in told
    assert SECRET not in told


def test_the_machines_own_users_keys_and_homes_are_not_there(room: Room) -> None:
    told = run(
        room,
        "cat /etc/shadow /etc/ssh/* /root/.bashrc; ls -A /root /home /var /run /sys /mnt /opt; cat /etc/passwd",
    )

    assert "root" not in [line.split(":")[0] for line in told.splitlines() if line.count(":") == 6]
    assert "agent:x:1000" in told
    assert told.count("No such file") >= 8


def test_other_processes_cannot_be_seen_or_ended(room: Room) -> None:
    seen = run(room, "ls /proc | grep -E '^[0-9]+$' | sort -n | tail -1")
    assert int(seen.splitlines()[0]) < 50  # numbers begin anew
    told = run(room, f"kill -9 {os.getpid()}; ls /proc/{os.getpid() + 100_000}")
    assert "No such process" in told


@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/sys/kernel/core_pattern > /tmp/p && cat /tmp/p > /proc/sys/kernel/core_pattern",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "echo h > /proc/sysrq-trigger",
        "mknod /tmp/disk b 8 0",
        "mount -t tmpfs none /workspace",
        "unshare --user --map-root-user true",
        "chroot / true",
        "hostname other",
        "touch /usr/bin/x",
        "touch /etc/x",
        "touch /x",
        "dmesg",
        "chown 0:0 /workspace",
    ],
)  # fmt: skip
def test_the_machine_cannot_be_changed(room: Room, command: str) -> None:
    assert run(room, f"{command} && echo DONE").splitlines()[-2] != "DONE"


def test_memory_files_have_a_limit_and_are_gone_afterwards(room: Room) -> None:
    assert "No space left" in run(room, "head -c 300000000 /dev/zero > /tmp/big")
    run(room, "echo x > /tmp/left; echo y > ~/left")
    assert run(room, "cat /tmp/left ~/left").count("No such file") == 2
    assert not Path("/tmp/left").exists()


BOMB = "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 1000; }; f 6"
"""Doubles itself six times: 127 processes, and as many programs."""
HOARD = "head -c 400000000 /dev/zero | tail -c 400000000 | wc -c"
MANY = (
    "for i in 1 2 3 4; do (head -c 60000000 /dev/zero; sleep 1000) | tail -c 60000000 & done; wait"
)


@pytest.mark.parametrize(
    ("limits", "command", "told"),
    [
        ({"processes": 40}, BOMB, "[ended: more than 40 processes at once]\n[exit code 137]"),
        ({"memoryMb": 100}, HOARD, "memory exhausted"),
        ({"memoryMb": 100}, MANY, "[ended: more than 100 MB of memory]\n[exit code 137]"),
        ({"fileMb": 1}, "head -c 3000000 /dev/zero > big; stat -c %s big", "\n1048576\n"),
    ],
    ids=["fork bomb", "memory", "memory of many", "file"],
)  # fmt: skip
def test_the_machine_cannot_be_used_up(
    tmp_path: Path, limits: dict[str, int], command: str, told: str
) -> None:
    room = Room(tmp_path, {"mode": "all", "limits": limits})

    assert told in f"\n{run(room, command)}"
    assert run(room, "echo as before") == "as before\n[exit code 0]"


def test_files_and_sockets_of_the_gateway_are_not_inherited(room: Room) -> None:
    with open(room.folder / "secret.txt", "rb") as kept:
        os.set_inheritable(kept.fileno(), True)
        told = run(room, "ls /proc/self/fd; cat <&9 2>/dev/null")
    assert [line for line in told.splitlines() if line.isdigit() and int(line) > 3] == []


def test_there_is_no_network_unless_it_is_allowed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        knock = f"exec 8<>/dev/tcp/127.0.0.1/{port} && echo connected"
        alone = Room(tmp_path, {"mode": "all"})
        assert "connected" not in run(alone, knock)
        assert run(alone, "tail -n +3 /proc/net/dev | cut -d: -f1").split()[0] == "lo"
        assert "connected" in run(Room(tmp_path, {"mode": "all", "network": "host"}), knock)
        abstract = f"\0crossclaw-test-{port}"
        with socket.socket(socket.AF_UNIX) as listener:  # these names belong to the network too
            listener.bind(abstract)
            listener.listen()
            code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0' + {abstract[1:]!r})"
            assert "Connection refused" in run(
                alone, f'python3 -c "{code}" || /usr/bin/python3 -c "{code}"'
            )


def test_a_link_made_inside_leads_nobody_outside_astray(room: Room) -> None:
    """What the sandbox leaves in the workspace is walked by the gateway's own file tools."""
    run(
        room,
        f"ln -s {room.folder} out; ln -s /proc/self/environ env; ln {room.folder}/secret.txt hard",
    )

    for path in ("out/secret.txt", "env", "hard"):
        with pytest.raises(CrossclawError):
            room("read", path=path)


@pytest.mark.parametrize(
    ("mode", "key", "boxed"),
    [
        *(("off", "main", False), ("off", "agent:main:x", False)),
        *(("non-main", "main", False), ("non-main", "agent:main:telegram:group:1", True)),
        *(("all", "main", True), ("all", "cron:job", True)),
    ],
)
def test_the_mode_says_which_sessions_are_boxed(
    tmp_path: Path, mode: str, key: str, boxed: bool
) -> None:
    told = Room(tmp_path, {"mode": mode})("exec", key=key, command="pwd")

    assert (told == "/workspace\n[exit code 0]") == boxed


@pytest.mark.spec("B3")
def test_what_acts_for_a_sandboxed_session_is_boxed_whatever_the_mode(tmp_path: Path) -> None:
    room = Room(tmp_path, {"mode": "off"})

    told = room("exec", authority=Authority(sandboxed=True), command="pwd")

    assert told == "/workspace\n[exit code 0]"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec", {"command": "echo ran"}),
        ("read", {"path": "a"}),
        ("write", {"path": "a", "content": "x"}),
        ("edit", {"path": "a", "oldText": "a", "newText": "b"}),
    ],
)
def test_without_bubblewrap_nothing_runs(
    tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    room = Room(tmp_path, {"mode": "all"}, environ={"PATH": str(tmp_path)})

    with pytest.raises(SandboxMissing, match="apt install bubblewrap"):
        room(tool, **arguments)
    assert list(room.workspace.iterdir()) == []


def test_a_bubblewrap_that_does_not_work_is_no_sandbox(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces >&2; exit 1\n", "utf-8")
    broken.chmod(0o755)

    with pytest.raises(SandboxMissing, match=r"does not work on this machine.*no namespaces"):
        Room(tmp_path, {"mode": "all"}, environ={"PATH": str(tmp_path)})("exec", command="true")


async def test_a_workspace_around_the_gateways_own_folder_is_refused(tmp_path: Path) -> None:
    room = Room(tmp_path, {"mode": "all"})
    places = Places(room.config, lambda agent_id: tmp_path, tmp_path / "state", {})

    with pytest.raises(ConfigInvalid, match="choose another workspace"):
        await places.prepare()


def landlock_version() -> int:
    return int(ctypes.CDLL(None).syscall(444, None, 0, 1))


CONNECT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(bytes([0]) + sys.argv[1].encode()); "
    "print('connected')"
)


def test_with_the_machines_network_its_desktop_is_still_out_of_reach(tmp_path: Path) -> None:
    """A desktop listens on sockets without a file (X11, D-Bus), for whoever is the same user: it types into terminals
    and starts programs."""
    if landlock_version() < 6:
        pytest.skip("this kernel cannot keep sockets without a file apart; Linux 6.12 can")
    room, name = Room(tmp_path, {"mode": "all", "network": "host"}), secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as desktop:
        desktop.bind(f"\0{name}")
        desktop.listen()
        outside = subprocess.run(
            [sys.executable, "-c", CONNECT, name], capture_output=True, text=True, check=True
        )
        told = run(room, f"{python(CONNECT)} {name}")
        own = run(room, python(OWN_SOCKET))

    assert outside.stdout == "connected\n"
    assert "connected" not in told
    assert own.startswith("heard")


def test_of_the_kernels_own_sockets_there_is_the_one_that_programs_need(tmp_path: Path) -> None:
    """The others list everybody's connections, and have been ways into the kernel."""
    code = "import socket, sys; socket.socket(16, 3, int(sys.argv[1])); print('connected')"
    for network in ("none", "host"):
        room = Room(tmp_path, {"mode": "all", "network": network})
        told = [run(room, f"{python(code)} {protocol}") for protocol in (0, 4, 12)]
        assert ["connected" in each for each in told] == [True, False, False]


OWN_SOCKET = (
    "import socket; s = socket.socket(socket.AF_UNIX); s.bind(bytes([0]) + b'own'); s.listen(); "
    "c = socket.socket(socket.AF_UNIX); c.connect(bytes([0]) + b'own'); print('heard')"
)


def python(code: str) -> str:
    return shlex.join(["/usr/bin/python3", "-c", code])


@pytest.mark.parametrize(
    "command",
    [
        "for name in a b; do head -c 20000000 /dev/zero > /dev/shm/$name; done; sleep 60",
        "cd /tmp; i=0; while :; do i=$((i+1)); : > $i; done",
    ],
    ids=["bytes", "names"],
)
def test_files_in_memory_count_as_memory_and_so_do_their_names(
    tmp_path: Path, command: str
) -> None:
    """Millions of empty files take gigabytes of the kernel's memory, which no process is seen to have."""
    room = Room(tmp_path, {"mode": "all", "limits": {"memoryMb": 32}})

    assert "more than 32 MB of memory" in run(room, command)
