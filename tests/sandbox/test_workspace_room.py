"""What a sandboxed workspace may hold: bytes and files, by the kernel's quota or by measuring it."""

import os
import sys
from pathlib import Path

import pytest

from crossclaw.domain.errors import Forbidden
from crossclaw.sandbox import keeper
from crossclaw.sandbox.folder_space import FolderSize, measured
from crossclaw.sandbox.quota import Quota, find_quota, hold_quota
from tests.sandbox.rooms import Room

FULL = "the workspace is full"


def bounded(folder: Path, **limits: int) -> Room:
    return Room(folder, {"mode": "all", "limits": limits})


# ── a command ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limits", "grows", "told"),
    [
        ({"workspaceMb": 4}, "while :; do head -c 1000000 /dev/zero > $i; i=x$i; done", "4 MB (sandbox.limits.workspaceMb)"),
        ({"workspaceFiles": 300}, "while :; do mkdir d$i; : > $i; i=x$i; [ ${#i} -lt 200 ] || { cd d; i=; }; done", "300 files (sandbox.limits.workspaceFiles)"),
    ],
    ids=["bytes", "files"],
)  # fmt: skip
def test_a_command_that_fills_the_workspace_is_ended_and_then_it_can_only_be_emptied(
    tmp_path: Path, limits: dict[str, int], grows: str, told: str
) -> None:
    room = bounded(tmp_path, **limits)

    ended = room("exec", command=f"i=a; mkdir d; {grows}", timeout=60)
    assert f"[ended: the workspace holds more than {told}]" in str(ended)
    refused = room("exec", command="echo more > more; cat AGENTS.md > /dev/null && echo read")
    assert FULL in str(refused)
    assert "read" in str(refused)
    assert (room.workspace / "more").read_bytes() == b""
    with pytest.raises(Forbidden, match=FULL):
        room("write", path="b", content="x" * 100)

    emptied = room("exec", command="rm -rf a* d* x* more; ls | wc -l")
    assert emptied.endswith("[exit code 0]")
    room("write", path="b", content="x" * 100)
    assert room("exec", command="echo fits > c && cat c") == "fits\n[exit code 0]"


def test_many_short_commands_fill_a_workspace_no_more_than_one_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ends before it is looked at, and what is free on the disk tells nothing: others write and remove, too."""
    monkeypatch.setattr(keeper, "free_room", lambda disk: (2**40, 10**7))
    room = bounded(tmp_path, workspaceMb=1)

    told = [room("exec", command=f"head -c 700000 /dev/zero > {n}") for n in range(4)]

    assert [FULL in each for each in told] == [False, False, True, True]
    sizes = [(room.workspace / str(n)).stat().st_size for n in range(4)]
    assert sizes == [700_000, 700_000, 0, 0]


def test_a_sandbox_without_limits_for_its_workspace_is_not_measured(tmp_path: Path) -> None:
    room = bounded(tmp_path, workspaceMb=0, workspaceFiles=0)

    told = room(
        "exec", command="head -c 3000000 /dev/zero > a; for i in $(seq 300); do : > f$i; done"
    )
    assert told == "(no output)\n[exit code 0]"
    room("write", path="b", content="x")


def test_the_end_of_a_disks_names_is_watched_as_closely_as_that_of_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Millions of empty files take no bytes, and leave the ledger none of its own."""
    limits = {"free": 2**29}
    for names, watched in ((10**7, keeper.WATCH_S), (70_000, keeper.CLOSE_WATCH_S)):
        monkeypatch.setattr(keeper, "free_room", lambda disk, names=names: (2**40, names))
        assert keeper._next_look_s(limits, "/") == watched
        assert keeper.free_bytes("/") == 2**40
    monkeypatch.setattr(keeper, "free_room", lambda disk: (2**40, 9_000))
    assert keeper.free_bytes("/") == 0


# ── what is counted ────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_measured_as_it_lies_on_its_disk_and_no_link_is_followed(
    tmp_path: Path,
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for each in (outside, folder / "deep" / "er"):
        each.mkdir(parents=True)
    (outside / "large").write_bytes(b"x" * 10**6)
    (folder / "away").symlink_to(outside)
    (folder / "deep" / "er" / "a").write_bytes(b"x" * 500_000)
    os.link(folder / "deep" / "er" / "a", folder / "again")  # the same bytes, once
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(folder / "pipe")

    size = measured(folder)
    assert size.files == 7
    assert 500_000 <= size.bytes < 600_000
    assert measured(tmp_path / "not there") == FolderSize(0, 0)


def test_a_tree_that_is_too_deep_to_be_measured_counts_as_too_large(tmp_path: Path) -> None:
    opened = os.open(tmp_path, os.O_RDONLY)
    for _level in range(keeper.DEPTH_MAX + 2):
        os.mkdir("d", dir_fd=opened)
        below = os.open("d", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = below
    os.close(opened)
    before = len(os.listdir("/proc/self/fd"))

    assert measured(tmp_path) == FolderSize(sys.maxsize, sys.maxsize)
    assert len(os.listdir("/proc/self/fd")) == before


# ── the kernel's quota ─────────────────────────────────────────────────────────────────────────


class Disk:
    """What the kernel says of a folder, for one that has no quotas itself."""

    def __init__(self, blocks: int, files: int) -> None:
        self.f_blocks, self.f_files, self.f_frsize = blocks, files, 4_096


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "of a project"
    folder.mkdir()
    real = os.statvfs

    def told(path: Path) -> object:
        return Disk(256, 100) if Path(path) == folder else real(path)

    monkeypatch.setattr(os, "statvfs", told)
    return folder


def test_a_quota_of_the_kernel_is_found_by_what_the_disk_says_of_the_folder(
    projects: Path, tmp_path: Path
) -> None:
    assert find_quota(projects) == Quota(2**20, 100)
    assert find_quota(tmp_path) is None


def test_where_the_disk_has_no_quotas_none_is_said_to_be_in_force(tmp_path: Path) -> None:
    """It is tried for real; where the disk of the tests has them, it must be in force."""
    held = hold_quota(tmp_path, 2**20, 50)
    assert held in (None, Quota(2**20, 50))
    if held is None:
        (tmp_path / "a").write_bytes(b"x" * 2 * 2**20)
