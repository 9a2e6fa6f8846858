"""Documents: the text of a PDF, made by another process, which is ended with the call however that ends."""

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import NamedTuple

import anyio

from crossclaw.domain.errors import Invalid, ToolFailed
from crossclaw.sandbox.environment import host_environment
from crossclaw.tools import page_reader, pdf_reader

READERS_MAX = 2  # documents that are read at once; the processor is there for others too
READING_S = 2 * page_reader.READING_S
SCANNED = "it has no text, only pictures of pages; send these as pictures"
NO_READER = "to read PDFs install crossclaw[pdf]"
_PYTHON = ("PYTHONPATH", "PYTHONHOME")  # where the reader's program is found


class PdfText(NamedTuple):
    pages: int
    text: str
    """Empty where it has only pictures of pages."""


class Documents:
    def __init__(self) -> None:
        self._readers = anyio.CapacityLimiter(READERS_MAX)

    @property
    def can_read(self) -> bool:
        return find_spec("pypdf") is not None

    async def words_of(self, data: bytes, name: str) -> str:
        """For a tool: the text, or an error that says why there is none."""
        read = await self.read(data, name)
        if not read.text:
            raise Invalid(f"{name} cannot be read: {SCANNED}")
        return read.text

    async def read(self, data: bytes, name: str) -> PdfText:
        if not self.can_read:
            raise Invalid(f"{name} is a PDF; {NO_READER}")
        try:
            async with self._readers:
                with anyio.fail_after(READING_S):
                    done = await anyio.run_process(
                        [sys.executable, "-P", "-m", pdf_reader.__name__],
                        input=data,
                        stderr=subprocess.DEVNULL,
                        check=False,
                        env=host_environment(os.environ, _PYTHON),
                    )
        except TimeoutError:
            raise ToolFailed(f"{name} takes too long to be read") from None
        if done.returncode == pdf_reader.REFUSED:
            raise Invalid(f"{name} cannot be read: {done.stdout.decode('utf-8', 'replace')}")
        if done.returncode not in (0, pdf_reader.NO_TEXT):
            raise ToolFailed(f"{name} takes too much time or memory to be read")
        count, _, text = done.stdout.partition(b"\n")
        return PdfText(int(count), text.decode("utf-8", "replace"))
