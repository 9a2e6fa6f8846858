"""Files of transcripts: only our own names, only for their owner, and never through a link."""

import os
import resource
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from crossclaw.domain.errors import Invalid
from crossclaw.transcripts.files import (
    FILES_OPEN_MAX,
    FOLDERS_OPEN_MAX,
    CopyName,
    CopyPiece,
    Differs,
    Files,
)

NAME = CopyName("main", "s1")


@pytest.fixture
def files(tmp_path: Path) -> Generator[Files]:
    opened = Files(tmp_path / "sessions")
    yield opened
    opened.close()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def text_at(files: Files, name: CopyName = NAME) -> bytes:
    return files.path_of(name).read_bytes()


@pytest.mark.spec("M4")
def test_only_the_owner_may_read_whatever_the_umask(files: Files) -> None:
    before = os.umask(0)
    try:
        files.append(CopyPiece(NAME, 0, b"a\n"))
    finally:
        os.umask(before)

    path = files.path_of(NAME)
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert mode_of(path.parent.parent) == 0o700


def test_loosened_permissions_are_tightened_again(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"a\n"))
    path = files.path_of(NAME)

    path.chmod(0o644)
    assert files.sizes([NAME]) == [2]
    assert mode_of(path) == 0o600

    path.chmod(0o666)
    files.append(CopyPiece(NAME, 2, b"b\n"))
    assert mode_of(path) == 0o600

    files.close()
    path.parent.chmod(0o755)
    path.parent.parent.chmod(0o777)
    files.append(CopyPiece(NAME, 4, b"c\n"))
    assert (mode_of(path.parent), mode_of(path.parent.parent)) == (0o700, 0o700)


@pytest.mark.parametrize(
    "name",
    [
        CopyName("main", "../escape"),
        CopyName("main", ".."),
        CopyName("main", "a/b"),
        CopyName("main", ""),
        CopyName("main", ".hidden"),
        CopyName("main", "-rf"),
        CopyName("main", "a\x00b"),
        CopyName("main", "a\n"),
        CopyName("main", "x" * 65),
        CopyName("main", "ｓ1"),
        CopyName("..", "s1"),
        CopyName("/etc", "s1"),
        CopyName("Main", "s1"),
        CopyName("", "s1"),
    ],
)
def test_a_name_that_the_gateway_did_not_make_is_refused(name: CopyName, files: Files) -> None:
    with pytest.raises(Invalid):
        files.append(CopyPiece(name, 0, b"a\n"))
    with pytest.raises(Invalid):
        files.path_of(name)

    assert isinstance(files.append_all([CopyPiece(name, 0, b"a\n")])[0], Invalid)
    assert isinstance(files.sizes([name])[0], Invalid)


def test_a_link_in_place_of_the_file_is_not_followed(files: Files, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    files.append(CopyPiece(CopyName("main", "other"), 0, b"a\n"))
    files.path_of(NAME).symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        files.append(CopyPiece(NAME, 0, b"a\n"))

    assert isinstance(files.sizes([NAME])[0], OSError)
    assert victim.read_bytes() == b""


def test_a_link_planted_while_the_file_is_open_is_not_followed(
    files: Files, tmp_path: Path
) -> None:
    files.append(CopyPiece(NAME, 0, b"a\n"))
    victim = tmp_path / "victim"
    victim.write_bytes(b"x\n")
    files.path_of(NAME).unlink()
    files.path_of(NAME).symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        files.append(CopyPiece(NAME, 2, b"b\n"))

    assert victim.read_bytes() == b"x\n"


def test_a_link_in_place_of_the_folder_is_not_followed(files: Files, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "main").symlink_to(elsewhere)

    with pytest.raises(OSError, match="Not a directory"):
        files.append(CopyPiece(NAME, 0, b"a\n"))

    assert list(elsewhere.iterdir()) == []


def test_a_pipe_in_place_of_the_file_is_refused(files: Files) -> None:
    files.append(CopyPiece(CopyName("main", "other"), 0, b"a\n"))
    os.mkfifo(files.path_of(NAME), 0o600)

    with pytest.raises(FileExistsError):
        files.append(CopyPiece(NAME, 0, b"a\n"))

    assert isinstance(files.sizes([NAME])[0], FileExistsError)


def test_appending_needs_the_file_as_it_was_left(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"one\n"))

    with pytest.raises(Differs):
        files.append(CopyPiece(NAME, 3, b"two\n"))
    with pytest.raises(Differs):
        files.append(CopyPiece(NAME, 4, b"two\n", ending=b"other\n"[-4:]))

    files.append(CopyPiece(NAME, 4, b"two\n", ending=b"one\n"))
    assert text_at(files) == b"one\ntwo\n"


@pytest.mark.parametrize("what", ["file", "folder", "root"])
def test_what_was_removed_while_open_is_made_anew(what: str, files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"one\n"))
    path = files.path_of(NAME)
    path.unlink()
    if what != "file":
        path.parent.rmdir()
    if what == "root":
        path.parent.parent.rmdir()

    assert files.sizes([NAME]) == [None]
    with pytest.raises(Differs):
        files.append(CopyPiece(NAME, 4, b"two\n"))
    files.append(CopyPiece(NAME, 0, b"two\n"))

    assert text_at(files) == b"two\n"


def test_a_file_put_in_place_of_the_open_one_is_noticed(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"one\n"))
    path = files.path_of(NAME)
    path.rename(path.with_suffix(".moved"))
    path.write_bytes(b"strange\n")

    with pytest.raises(Differs):
        files.append(CopyPiece(NAME, 4, b"two\n"))

    assert path.with_suffix(".moved").read_bytes() == b"one\n"


def test_open_descriptors_are_bounded(files: Files) -> None:
    before = len(os.listdir("/dev/fd"))
    names = [CopyName(f"agent-{n % 50}", f"s{n}") for n in range(FILES_OPEN_MAX + 100)]

    for round_ in range(2):
        assert files.append_all([CopyPiece(name, round_ * 2, b"x\n") for name in names]) == [
            None
        ] * len(names)

    assert len(os.listdir("/dev/fd")) - before == FILES_OPEN_MAX + FOLDERS_OPEN_MAX + 1
    assert all(text_at(files, name) == b"x\nx\n" for name in names)
    files.close()
    assert len(os.listdir("/dev/fd")) == before


def test_what_the_disk_does_not_take_whole_is_taken_back(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"one\n"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            files.append(CopyPiece(NAME, 4, b"two and more\n"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert text_at(files) == b"one\n"


def test_one_that_fails_does_not_stop_the_others(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"a\n"))
    files.path_of(CopyName("main", "s2")).mkdir()
    names = [CopyName("main", each) for each in ("s2", "s3")]

    refused, done = files.append_all([CopyPiece(name, 0, b"x\n") for name in names])

    assert isinstance(refused, IsADirectoryError)
    assert done is None


def test_a_draft_takes_the_place_of_the_file_and_keeps_the_old_one(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"old\n"))
    for text in (b"new\n", b"newer\n"):
        draft = files.draft(NAME)
        draft.write(text)
        draft.put("20260101T120000Z")

    folder = files.path_of(NAME).parent
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert found == {
        "s1.jsonl": b"newer\n",
        "s1.jsonl.damaged-20260101T120000Z": b"old\n",
        "s1.jsonl.damaged-20260101T120000Z-2": b"new\n",
    }
    assert {mode_of(path) for path in folder.iterdir()} == {0o600}


def test_a_draft_given_up_or_left_by_a_crash_is_gone(files: Files) -> None:
    files.append(CopyPiece(NAME, 0, b"old\n"))
    files.draft(NAME).write(b"half")
    draft = files.draft(NAME)
    draft.write(b"new")
    draft.drop()

    assert [path.name for path in files.path_of(NAME).parent.iterdir()] == ["s1.jsonl"]
