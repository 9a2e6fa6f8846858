"""A state folder on a disk of its own that can be filled. Needs the right to mount; skipped without."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.process.program import Folder

SIZE = "8m"


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self._fill = path / "fill"

    def fill(self) -> None:
        with self._fill.open("ab", buffering=0) as file, suppress(OSError):
            for size in (65_536, 4_096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
        assert os.statvfs(self._fill).f_bavail == 0

    def free(self) -> None:
        self._fill.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Folder) -> Generator[SmallDisk]:
    where = str(folder.state)
    config = folder.config.read_text()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", where]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        folder.config.write_text(config)
        yield SmallDisk(folder.state)
    finally:
        subprocess.run(["umount", "--lazy", where], check=False)
