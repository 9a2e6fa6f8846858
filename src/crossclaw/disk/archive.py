"""Archives: many files in one, compressed, checked when they are read back, encrypted if a
passphrase is given.

First comes a line that says what it is, then a tar file under Zstandard (and under the seal). Its
last member is the manifest: every name with its size and digest, so that an archive that was cut
off or changed is noticed. Only regular files with plain relative names go in or come out.
"""

import hashlib
import io
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from crossclaw.disk.private import new_binary_file
from crossclaw.disk.sealing import SealedReader, SealedWriter
from crossclaw.disk.zstd import zstd
from crossclaw.domain.errors import StoreError

MAGIC, SEALED = b"crossclaw archive 1\n", b"crossclaw archive 1 sealed\n"
MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 256 * 2**20  # a million files
READ_BYTES = 2**20


class Member(msgspec.Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    facts: dict[str, Any]
    """What the maker states about it: release, time, counts."""
    members: list[Member]


Put = Callable[[bytes], Any]
Take = Callable[[Member], AbstractContextManager[Put]]


class ArchiveDamaged(StoreError):
    """The file is not an archive of ours, or not as it was written."""


class ArchiveWriter:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.members: list[Member] = []

    def add(self, name: str, file: IO[bytes], size: int) -> bool:
        """Adds a file; False if it had fewer bytes than it said; the rest is zeros, as it is on
        disk after a crash. Bytes that were appended meanwhile are left out."""
        source = _BytesOfSize(file, size)
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        self._tar.addfile(info, source)
        self.members.append(Member(name, size, source.digest.hexdigest()))
        return source.missing == 0

    def finish(self, facts: dict[str, Any]) -> None:
        body = msgspec.json.encode(Manifest(facts, self.members))
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(body), 0o600
        self._tar.addfile(info, io.BytesIO(body))


class _BytesOfSize:
    """Reads exactly so many bytes of a file, whatever happens to it, and computes their digest."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size
        self.digest = hashlib.sha256()
        self.missing = 0

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        if len(data) < wanted:
            self.missing += wanted - len(data)
            data = data.ljust(wanted, b"\0")
        self._left -= len(data)
        self.digest.update(data)
        return data


@contextmanager
def write_archive(path: Path, passphrase: str | None) -> Generator[ArchiveWriter]:
    """Writes an archive. It appears when it is complete; a file of that name is not replaced."""
    with new_binary_file(path, replace=False) as file, ExitStack() as stack:
        file.write(SEALED if passphrase else MAGIC)
        inner: Any = file
        if passphrase:
            inner = stack.enter_context(SealedWriter(file, passphrase))
        packer = stack.enter_context(zstd().open(inner, "wb"))
        tar = stack.enter_context(tarfile.open(fileobj=packer, mode="w|"))
        yield ArchiveWriter(tar)


def is_sealed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(len(SEALED)) == SEALED


def read_archive(path: Path, passphrase: str | None) -> Iterator[tuple[Member | None, IO[bytes]]]:
    """Every file with its content, then None with the manifest. After the last one everything is
    known to be as it was written; `checked` compares the digests."""
    with path.open("rb") as file, ExitStack() as stack:
        inner: Any = file
        head = file.readline(len(SEALED))
        if head == SEALED:
            if not passphrase:
                raise StoreError(f"{path} is encrypted; give its passphrase")
            inner = io.BufferedReader(SealedReader(file, passphrase), READ_BYTES)
        elif head != MAGIC:
            raise ArchiveDamaged(f"{path} is no backup of Crossclaw")
        try:
            unpacked = stack.enter_context(zstd().open(inner, "rb"))
            tar = stack.enter_context(tarfile.open(fileobj=unpacked, mode="r|"))
            yield from _members(tar)
        except (tarfile.TarError, EOFError, zstd().ZstdError) as error:
            raise ArchiveDamaged(f"{path} is damaged or cut off: {error}") from error


def _members(tar: tarfile.TarFile) -> Iterator[tuple[Member | None, IO[bytes]]]:
    for info in tar:
        file = tar.extractfile(info) if info.isreg() else None
        if file is None or not is_plain(info.name):
            raise ArchiveDamaged(f"it holds something that is no plain file: {info.name!r}")
        last = info.name == MANIFEST
        yield (None if last else Member(info.name, info.size, "")), file
        if last:
            return
    raise ArchiveDamaged("its list of contents is missing: it was cut off")


def is_plain(name: str) -> bool:
    """Whether a name is relative, without `..` and without characters that a file system would
    misread."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name


def checked(path: Path, passphrase: str | None, take: Take) -> Manifest:
    """Reads all of it, passes each file's bytes to `take`, and compares names, sizes and digests
    with the manifest. `take` gets bytes before they are known to be good: put them aside until this
    returns."""
    seen: list[Member] = []
    for member, file in read_archive(path, passphrase):
        if member is None:
            manifest = _manifest(file)
            _compare(seen, manifest)
            return manifest
        seen.append(msgspec.structs.replace(member, sha256=_digest(member, file, take)))
    raise AssertionError  # read_archive ends with the manifest or an error


def _manifest(file: IO[bytes]) -> Manifest:
    try:
        return msgspec.json.decode(file.read(MANIFEST_BYTES_MAX), type=Manifest)
    except msgspec.MsgspecError as error:
        raise ArchiveDamaged(f"its list of contents cannot be read: {error}") from error


def _digest(member: Member, file: IO[bytes], take: Take) -> str:
    digest = hashlib.sha256()
    with take(member) as put:
        while data := file.read(READ_BYTES):
            digest.update(data)
            put(data)
    return digest.hexdigest()


def _compare(seen: list[Member], manifest: Manifest) -> None:
    if seen != manifest.members:
        wrong = sorted({m.name for m in seen} ^ {m.name for m in manifest.members}) or [
            one.name for one, other in zip(seen, manifest.members, strict=False) if one != other
        ]
        raise ArchiveDamaged(f"it is not as it was written: {', '.join(wrong[:5])}")
