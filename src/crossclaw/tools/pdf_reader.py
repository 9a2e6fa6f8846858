"""The PDF reader: a document in, its text out, page by page, as a program of its own. It bounds itself, as the
page reader does: a document can be built so that reading it takes minutes or gigabytes.
"""

import io
import sys

from crossclaw.tools.page_reader import bound_self

PAGES_MAX = 500
TEXT_CHARS_MAX = 2_000_000
REFUSED = 4
"""The exit code for a document that cannot be read; the output is the reason."""
NO_TEXT = 5
"""The exit code for a document that has only pictures of pages; the output is how many."""


def as_text(data: bytes) -> tuple[int, str]:
    """The number of pages, and their text; empty if they have none. Raises ValueError with the reason if it
    cannot be read."""
    from pypdf import PdfReader  # noqa: PLC0415  with the extra `pdf`
    from pypdf.errors import PdfReadError, PyPdfError  # noqa: PLC0415

    try:
        document = PdfReader(io.BytesIO(data))
        if document.is_encrypted and not document.decrypt(""):
            raise ValueError("it is locked with a password; send it unlocked")
        count = len(document.pages)
        pages = [
            f"[page {number} of {count}]\n{page.extract_text().strip()}"
            for number, page in enumerate(document.pages[:PAGES_MAX], 1)
        ]
    except (PdfReadError, PyPdfError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it is damaged ({type(error).__name__}); save it anew and send that"
        raise ValueError(reason) from None
    if not any(page.partition("\n")[2] for page in pages):
        return count, ""
    left_out = count - len(pages)
    more = [f"[{left_out} more pages are left out]"] if left_out > 0 else []
    return count, "\n\n".join([*pages, *more])[:TEXT_CHARS_MAX]


def main() -> int:
    bound_self()
    try:
        count, text = as_text(sys.stdin.buffer.read())
    except (ValueError, MemoryError) as error:
        sys.stdout.buffer.write(str(error or "it takes too much memory").encode())
        return REFUSED
    sys.stdout.buffer.write(f"{count}\n{text}".encode("utf-8", "replace"))
    return 0 if text else NO_TEXT


if __name__ == "__main__":
    sys.exit(main())
