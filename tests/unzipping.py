"""Transcripts as people read them, compressed or not."""

from collections.abc import Iterator
from pathlib import Path

from crossclaw.disk.zstd import zstd


def transcript_lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".zst":
        with zstd().open(path, "rb") as file:
            yield from file
    else:
        with path.open("rb") as file:
            yield from file
