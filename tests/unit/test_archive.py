"""Archives: what was written is what is read, and any change, cut or swap is noticed."""

import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossclaw.disk.archive import (
    MAGIC,
    ArchiveDamaged,
    Member,
    Put,
    checked,
    is_plain,
    write_archive,
)
from crossclaw.disk.sealing import PIECE_BYTES, SealedReader, SealedWriter, WrongPassphrase
from crossclaw.domain.errors import StoreError

SECRET = "correct horse battery"


def sealed(body: bytes) -> bytes:
    file = io.BytesIO()
    with SealedWriter(file, SECRET) as writer:
        writer.write(body)
    return file.getvalue()


def opened(data: bytes, passphrase: str = SECRET) -> bytes:
    return io.BufferedReader(SealedReader(io.BytesIO(data), passphrase)).read()


@pytest.mark.parametrize(
    "size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES]
)
def test_what_was_sealed_is_what_is_opened_at_every_edge_of_a_piece(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)

    assert opened(sealed(body[:size])) == body[:size]


def test_a_seal_shows_a_wrong_passphrase_a_cut_and_swapped_pieces() -> None:
    data = sealed(b"a" * PIECE_BYTES + b"b" * PIECE_BYTES + b"c")
    piece = PIECE_BYTES + 16
    first, second = data[16 : 16 + piece], data[16 + piece : 16 + 2 * piece]

    for wrong in (
        data[: 16 + 2 * piece],  # the last piece is missing
        data[:16] + second + first + data[16 + 2 * piece :],
        data[:100] + bytes([data[100] ^ 1]) + data[101:],
        data[:20],
        data[:16],
    ):
        with pytest.raises(WrongPassphrase):
            opened(wrong)
    with pytest.raises(WrongPassphrase):
        opened(data, "another one")


def written(path: Path, passphrase: str | None = None, **files: bytes) -> Path:
    with write_archive(path, passphrase) as archive:
        for name, body in files.items():
            archive.add(name, io.BytesIO(body), len(body))
        archive.finish({"made": "today"})
    return path


def read(path: Path, passphrase: str | None = None) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    @contextmanager
    def take(member: Member) -> Generator[Put]:
        found[member.name] = b""
        yield lambda data: found.__setitem__(member.name, found[member.name] + data)

    assert checked(path, passphrase, take).facts == {"made": "today"}
    return found


@pytest.mark.parametrize("passphrase", [None, SECRET])
def test_an_archive_gives_back_what_was_put_in(tmp_path: Path, passphrase: str | None) -> None:
    files = {"one": b"1" * 3_000_000, "two": b""}
    path = written(tmp_path / "a", passphrase, **files)

    assert read(path, passphrase) == files
    assert path.stat().st_mode & 0o777 == 0o600
    assert (b"1" * 100 not in path.read_bytes()) or passphrase is None


@pytest.mark.parametrize("passphrase", [None, SECRET])
def test_an_archive_that_was_cut_anywhere_is_noticed(
    tmp_path: Path, passphrase: str | None
) -> None:
    whole = written(tmp_path / "a", passphrase, one=bytes(range(256)) * 40).read_bytes()

    # Each try with a passphrase makes its key anew, which is slow on purpose.
    for end in range(0, len(whole), max(1, len(whole) // (12 if passphrase else 40))):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:end])
        with pytest.raises(StoreError):
            read(cut, passphrase)


def test_a_file_that_shrinks_while_it_is_read_keeps_its_size_and_is_told(tmp_path: Path) -> None:
    with write_archive(tmp_path / "a", None) as archive:
        assert not archive.add("log", io.BytesIO(b"abc"), 5)
        assert archive.add("next", io.BytesIO(b"abcdef"), 3)
        archive.finish({"made": "today"})

    assert read(tmp_path / "a") == {"log": b"abc\0\0", "next": b"abc"}


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ""])
def test_names_that_lead_out_are_no_names(name: str) -> None:
    assert not is_plain(name)


def test_something_else_is_not_read_as_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(MAGIC.replace(b"1", b"2") + b"?" * 100)

    with pytest.raises(ArchiveDamaged, match="no backup of Crossclaw"):
        read(path)


def test_a_failed_writing_leaves_nothing_and_an_old_file_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "a", one=b"1")
    before = path.read_bytes()

    with pytest.raises(FileExistsError):
        written(path, one=b"2")
    with pytest.raises(RuntimeError), write_archive(tmp_path / "b", None):
        raise RuntimeError
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
