"""Files of a place: read, written and edited inside it, and nowhere else on the machine."""

import itertools
import os
import threading
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, NotFound
from crossclaw.domain.messages import Image
from crossclaw.sandbox.files import LINKS_MAX
from crossclaw.tools import read as reading
from tests.ending import beside
from tests.sandbox.rooms import SECRET, Room

BOXED = {"mode": "all"}


@pytest.fixture(params=[None, BOXED], ids=["host", "sandbox"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    room = Room(tmp_path, request.param)
    (room.workspace / "notes").mkdir()
    (room.workspace / "notes" / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    return room


def test_a_file_is_shown_and_paged(room: Room) -> None:
    assert room("read", path="notes/a.txt") == "one\ntwo\nthree"
    assert room("read", path="notes/a.txt", offset=2, limit=1) == (
        "two\n[1 more lines; go on with offset=3]"
    )
    with pytest.raises(Invalid, match="has 3 lines"):
        room("read", path="notes/a.txt", offset=4)


@pytest.mark.spec("V4")
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
@pytest.mark.parametrize(
    "path",
    [
        *("../secret.txt", "notes/../../secret.txt", "/etc/passwd", "link.txt", "door/secret.txt"),
        *("notes/up/secret.txt", "proc/self/environ", "/workspace/../secret.txt", "far.txt"),
    ],
)
def test_no_road_leads_out_of_the_workspace(room: Room, tool: str, path: str) -> None:
    (room.workspace / "link.txt").symlink_to(room.folder / "secret.txt")
    (room.workspace / "door").symlink_to(room.folder)
    (room.workspace / "notes" / "up").symlink_to("../..")
    (room.workspace / "far.txt").symlink_to("notes/../../secret.txt")
    (room.workspace / "proc").symlink_to("/proc")
    more = {"write": {"content": "x"}, "edit": {"oldText": SECRET, "newText": "x"}}.get(tool, {})

    with pytest.raises(Forbidden, match="outside of your workspace"):
        room(tool, path=path, **more)
    assert (room.folder / "secret.txt").read_text("utf-8") == SECRET


def test_a_link_that_stays_inside_is_followed(room: Room) -> None:
    (room.workspace / "short.txt").symlink_to("notes/a.txt")
    (room.workspace / "n").symlink_to("notes")
    (room.workspace / "round").symlink_to("notes/../n/./a.txt")

    assert {room("read", path=p) for p in ("short.txt", "n/a.txt", "round")} == {"one\ntwo\nthree"}
    room("write", path="short.txt", content="new\n")
    assert (room.workspace / "short.txt").is_symlink()
    assert (room.workspace / "notes" / "a.txt").read_text("utf-8") == "new\n"


def test_links_in_a_circle_end(room: Room) -> None:
    (room.workspace / "a").symlink_to("b")
    (room.workspace / "b").symlink_to("a")

    with pytest.raises(Invalid, match=f"more than {LINKS_MAX} links"):
        room("read", path="a")


@pytest.mark.spec("V4")
def test_a_link_swapped_at_the_wrong_moment_opens_nothing(room: Room) -> None:
    """Somebody else swaps as fast as they can while files are read and written."""
    (room.workspace / "real").mkdir()
    (room.workspace / "real" / "secret.txt").write_text("harmless", "utf-8")
    done = threading.Event()

    def swap() -> None:
        for target in itertools.cycle((str(room.folder), "real")):
            (room.workspace / "new").symlink_to(target)
            os.replace(room.workspace / "new", room.workspace / "swapped")
            if done.is_set():
                return

    async def look() -> set[str]:
        seen = set()
        for _ in range(300):
            try:
                seen.add(await room.use("read", path="swapped/secret.txt"))
                await room.use("write", path="swapped/secret.txt", content="harmless")
            except CrossclawError as error:
                seen.add("Forbidden" if isinstance(error, Forbidden) else type(error).__name__)
        return seen

    (room.workspace / "swapped").symlink_to("real")
    with beside(swap):
        try:
            seen = anyio.run(look)
        finally:
            done.set()
    assert seen <= {"harmless", "Forbidden"}
    assert (room.folder / "secret.txt").read_text("utf-8") == SECRET


def test_what_is_no_regular_file_is_not_opened(room: Room) -> None:
    os.mkfifo(room.workspace / "pipe")  # reading it would wait for ever

    with pytest.raises(Invalid, match="not a regular file"):
        room("read", path="pipe")
    with pytest.raises(Invalid, match="not a regular file"):
        room("write", path="pipe", content="x")


def test_a_missing_file_is_answered_with_what_is_there(room: Room) -> None:
    with pytest.raises(NotFound, match=r"that folder has a\.txt"):
        room("read", path="notes/b.txt")
    with pytest.raises(NotFound, match=r"notes is a folder; that folder has a\.txt"):
        room("read", path="notes")
    with pytest.raises(NotFound) as refusal:
        room("read", path=".")
    assert "secret" not in str(refusal.value)


def test_what_is_no_text_or_too_long_is_said(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (room.workspace / "program.bin").write_bytes(b"\x7fELF\0\0")
    (room.workspace / "long.txt").write_text("x" * (reading.BYTES_MAX + 5), "utf-8")
    (room.workspace / "many.txt").write_text("y" * 100_000 + "\n" + "z\n" * 200_000, "utf-8")

    with pytest.raises(Invalid, match="not a text file"):
        room("read", path="program.bin")
    assert f"goes on after {reading.BYTES_MAX} bytes" in room("read", path="long.txt")
    assert "[198001 more lines; go on with offset=2001]" in room("read", path="many.txt")
    assert room("read", path="many.txt", offset=200_001) == "z"
    with pytest.raises(Invalid, match="begin at 1"):
        room("read", path="long.txt", offset=0)
    with pytest.raises(Invalid, match="it takes path, offset, limit"):
        room("read", paht="x")
    with pytest.raises(Invalid, match="NUL"):
        room("read", path="a\0b")
    monkeypatch.setattr(reading, "SCAN_BYTES_MAX", 1_000)
    with pytest.raises(Invalid, match="use exec"):
        room("read", path="many.txt", offset=100_000)


@pytest.mark.spec("M1")
def test_an_image_comes_as_an_image(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (room.workspace / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)

    text, image = room("read", path="dot.png")

    assert text.text == "dot.png, image/png, 28 bytes"
    assert isinstance(image, Image)
    assert image.source.media_type == "image/png"
    monkeypatch.setattr(reading, "IMAGE_BYTES_MAX", 27)
    with pytest.raises(Invalid, match="smaller copy"):
        room("read", path="dot.png")


def test_a_file_is_written_with_the_folders_on_its_way(room: Room) -> None:
    assert room("write", path="x/y/z.txt", content="grüß\n") == "made x/y/z.txt, 7 bytes"
    assert room("write", path="x/y/z.txt", content="b") == "replaced x/y/z.txt, 1 bytes"
    assert (room.workspace / "x/y/z.txt").read_text("utf-8") == "b"
    assert sorted(p.name for p in (room.workspace / "x/y").iterdir()) == ["z.txt"]


def test_a_program_stays_executable_when_it_is_edited(room: Room) -> None:
    program = room.workspace / "run.sh"
    program.write_text("echo a\n", "utf-8")
    program.chmod(0o750)

    room("edit", path="run.sh", oldText="echo a", newText="echo b")

    assert program.read_text("utf-8") == "echo b\n"
    assert program.stat().st_mode & 0o777 == 0o750


def test_an_edit_needs_a_text_that_is_there_exactly_once(room: Room) -> None:
    (room.workspace / "t.txt").write_text("a b a\r\nc\r\n", "utf-8", newline="")

    with pytest.raises(Invalid, match=r"2 times.*replaceAll"):
        room("edit", path="t.txt", oldText="a", newText="x")
    with pytest.raises(NotFound, match=r"not in t\.txt"):
        room("edit", path="t.txt", oldText="q", newText="x")
    with pytest.raises(Invalid, match="use write"):
        room("edit", path="t.txt", oldText="", newText="x")
    assert room("edit", path="t.txt", oldText="a", newText="x", replaceAll=True) == (
        "replaced 2 places in t.txt"
    )
    room("edit", path="t.txt", oldText="x\nc", newText="x\nd")  # the file's own line ends stay
    assert (room.workspace / "t.txt").read_bytes() == b"x b x\r\nd\r\n"


def test_edits_side_by_side_lose_nothing(room: Room) -> None:
    (room.workspace / "t.txt").write_text("".join(f"<{n}>" for n in range(20)), "utf-8")

    async def edit(n: int) -> None:
        await room.use("edit", path="t.txt", oldText=f"<{n}>", newText=f"[{n}]")

    async def edit_all() -> None:
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(edit, n)

    anyio.run(edit_all)

    assert (room.workspace / "t.txt").read_text("utf-8") == "".join(f"[{n}]" for n in range(20))


@pytest.mark.spec("V4")
def test_a_read_only_workspace_is_read_and_not_written(tmp_path: Path) -> None:
    room = Room(tmp_path, {"mode": "all", "workspaceAccess": "ro"})
    (room.workspace / "a.txt").write_text("here", "utf-8")

    assert room("read", path="a.txt") == "here"
    for tool, more in (("write", {"content": "x"}), ("edit", {"oldText": "here", "newText": "x"})):
        with pytest.raises(Forbidden, match="workspaceAccess"):
            room(tool, path="a.txt", **more)
    assert "Read-only file system" in room("exec", command="echo x > a.txt")
    assert (room.workspace / "a.txt").read_text("utf-8") == "here"


@pytest.mark.spec("V4")
@pytest.mark.parametrize(
    ("scope", "shared"), [("session", False), ("agent", True), ("shared", True)]
)
def test_without_the_workspace_there_is_a_folder_of_its_own(
    tmp_path: Path, scope: str, shared: bool
) -> None:
    room = Room(tmp_path, {"mode": "all", "workspaceAccess": "none", "scope": scope})
    (room.workspace / "a.txt").write_text("private", "utf-8")

    with pytest.raises(NotFound):
        room("read", path="a.txt")
    room("write", path="own.txt", content="mine")
    assert room("exec", command="ls; cat own.txt") == "own.txt\nmine\n[exit code 0]"
    assert not (room.workspace / "own.txt").exists()
    seen = room("exec", key="agent:main:other", command="ls")
    assert ("own.txt" in seen) == shared
