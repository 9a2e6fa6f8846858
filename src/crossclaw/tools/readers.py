"""Readers: pages, documents and pictures of others are read by a process of its own, which is ended with the
call however that ends.

The input can be built to be slow, and a thread cannot be stopped.
"""

import os
import subprocess
import sys
from types import ModuleType
from typing import NamedTuple

import anyio

from crossclaw.sandbox.environment import host_environment
from crossclaw.tools import page_reader

READERS_MAX = 2  # at once, of one kind; the processor is there for others too
READING_S = 4 * page_reader.READING_S  # by the clock; on a busy machine the reader is not alone
_PYTHON = ("PYTHONPATH", "PYTHONHOME")  # where the reader's program is found


class ReaderOutput(NamedTuple):
    code: int
    """The reader's exit code; its module says what each means."""
    output: bytes


class Readers:
    def __init__(self, reader: ModuleType) -> None:
        self._reader = reader.__name__
        self._places = anyio.CapacityLimiter(READERS_MAX)

    async def read(self, data: bytes, *arguments: str) -> ReaderOutput:
        """Reads data in another process. Raises TimeoutError if it takes too long."""
        async with self._places:
            with anyio.fail_after(READING_S):
                done = await anyio.run_process(
                    [sys.executable, "-P", "-m", self._reader, *arguments],
                    input=data,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    env=host_environment(os.environ, _PYTHON),
                )
        return ReaderOutput(done.returncode, done.stdout)
