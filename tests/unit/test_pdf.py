"""PDFs in a workspace are read as text, by a process of its own."""

import io
from pathlib import Path

import pytest

from crossclaw.domain.errors import Invalid
from crossclaw.tools import pdf_reader
from crossclaw.tools.pdf_reader import as_text
from tests.sandbox.rooms import Room

pytest.importorskip("pypdf", reason="comes with the extra `pdf`")


def document(*pages: str) -> bytes:
    """As small as a PDF can be: a page each, its words drawn in Helvetica."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, words in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET" if words else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    tail = (
        f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R >>\n"
    )
    return out + f"{tail}startxref\n{len(out)}\n%%EOF\n".encode()


def locked(data: bytes) -> bytes:
    from pypdf import PdfReader, PdfWriter  # noqa: PLC0415  with the extra `pdf`

    writer, out = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt("a secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def test_the_text_comes_page_by_page() -> None:
    assert as_text(document("Flour and water", "Salt")) == (
        2,
        "[page 1 of 2]\nFlour and water\n\n[page 2 of 2]\nSalt",
    )


def test_what_cannot_be_read_says_why() -> None:
    with pytest.raises(ValueError, match="damaged"):
        as_text(b"%PDF-1.4\nnothing")
    with pytest.raises(ValueError, match="locked with a password; send it unlocked"):
        as_text(locked(document("secret")))
    assert as_text(document("")) == (1, ""), "only pictures of pages"


def test_pages_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_reader, "PAGES_MAX", 2)

    assert as_text(document("a", "b", "c"))[1].endswith("[1 more pages are left out]")


def test_a_pdf_of_the_workspace_is_read_as_text_and_in_parts(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.workspace / "bread.pdf").write_bytes(document("Flour", "Salt"))
    (room.workspace / "empty.pdf").write_bytes(document(""))

    assert room("read", path="bread.pdf", limit=2) == (
        "[page 1 of 2]\nFlour\n[3 more lines; go on with offset=3]"
    )
    with pytest.raises(Invalid, match="only pictures"):
        room("read", path="empty.pdf")
