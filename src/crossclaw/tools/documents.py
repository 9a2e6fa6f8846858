"""Documents: the text of a PDF, made by another process, which is ended with the call however that ends."""

from importlib.util import find_spec
from typing import NamedTuple

from crossclaw.domain.errors import Invalid, ToolFailed
from crossclaw.tools import pdf_reader
from crossclaw.tools.readers import Readers

SCANNED = "it has no text, only pictures of pages; send these as pictures"
NO_READER = "to read PDFs install crossclaw[pdf]"


class TookTooLong(ToolFailed):
    pass


class PdfText(NamedTuple):
    pages: int
    text: str
    """The document's text; empty if it has only pictures of pages."""


class Documents:
    def __init__(self) -> None:
        self._readers = Readers(pdf_reader)

    @property
    def can_read(self) -> bool:
        return find_spec("pypdf") is not None

    async def words_of(self, data: bytes, name: str) -> str:
        """The text for a tool; raises with the reason if there is none."""
        read = await self.read(data, name)
        if not read.text:
            raise Invalid(f"{name} cannot be read: {SCANNED}")
        return read.text

    async def read(self, data: bytes, name: str) -> PdfText:
        if not self.can_read:
            raise Invalid(f"{name} is a PDF; {NO_READER}")
        try:
            code, output = await self._readers.read(data)
        except TimeoutError:
            raise TookTooLong(f"{name} takes too long to be read; try again later") from None
        if code == pdf_reader.REFUSED:
            raise Invalid(f"{name} cannot be read: {output.decode('utf-8', 'replace')}")
        if code not in (0, pdf_reader.NO_TEXT):
            raise ToolFailed(f"{name} takes too much time or memory to be read")
        count, _, text = output.partition(b"\n")
        return PdfText(int(count), text.decode("utf-8", "replace"))
