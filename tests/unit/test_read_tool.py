"""`read` shows text files of the workspace, and nothing else on the machine."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.tools.contract import ToolContext
from crossclaw.tools.read import BYTES_MAX, Read

CONTEXT = ToolContext(SessionKey.main("main"), Authority())


def read(workspace: Path, **arguments: object) -> str:
    tool = Read(lambda agent_id: workspace)

    async def call() -> str:
        return await tool.call(CONTEXT, tool.read(dict(arguments)))

    return anyio.run(call)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (tmp_path / "secret.txt").write_text("hidden", "utf-8")
    return folder


def test_a_file_is_shown_and_paged(workspace: Path) -> None:
    assert read(workspace, path="notes/a.txt") == "one\ntwo\nthree"
    assert read(workspace, path="notes/a.txt", offset=2, limit=1) == (
        "two\n[1 more lines; go on with offset=3]"
    )


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "notes/../../secret.txt", "/etc/passwd", "link.txt", "door/secret.txt"],
)
def test_no_road_leads_out_of_the_workspace(workspace: Path, path: str) -> None:
    (workspace / "link.txt").symlink_to(workspace.parent / "secret.txt")
    (workspace / "door").symlink_to(workspace.parent)

    with pytest.raises(Forbidden, match="outside of your workspace"):
        read(workspace, path=path)


def test_a_missing_file_is_answered_with_what_is_there(workspace: Path) -> None:
    with pytest.raises(NotFound, match=r"that folder has a\.txt"):
        read(workspace, path="notes/b.txt")
    with pytest.raises(NotFound, match=r"that folder has a\.txt"):
        read(workspace, path="notes")


def test_a_hint_never_tells_of_what_lies_outside(workspace: Path) -> None:
    with pytest.raises(NotFound) as refusal:
        read(workspace, path=".")
    assert "secret" not in str(refusal.value)
    with pytest.raises(Invalid, match="NUL"):
        read(workspace, path="a\0b")


def test_what_is_no_text_or_too_long_is_said(workspace: Path) -> None:
    (workspace / "picture.bin").write_bytes(b"\x89PNG\0\0")
    (workspace / "long.txt").write_text("x" * (BYTES_MAX + 5), "utf-8")

    with pytest.raises(Invalid, match="not a text file"):
        read(workspace, path="picture.bin")
    assert read(workspace, path="long.txt").endswith(f"[the file goes on after {BYTES_MAX} bytes]")
    with pytest.raises(Invalid, match="begin at 1"):
        read(workspace, path="long.txt", offset=0)
    with pytest.raises(Invalid, match="it takes path, offset, limit"):
        read(workspace, paht="x")
