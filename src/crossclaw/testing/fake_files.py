"""What services see of a PDF, and their limits for one request."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from crossclaw.domain.aliases import Json
from crossclaw.testing.fake_facts import claude
from crossclaw.testing.fake_pictures import decoded, sniff

REQUEST_CHARS_CLAUDE = 32 * 1024 * 1024
MANY_CLAUDE, FEWER_CLAUDE = 600, 100
FILES_BYTES_OPENAI = 50 * 1024 * 1024
REQUEST_CHARS_GEMINI = 20 * 1024 * 1024
PAGES_GEMINI = 1_000
PICTURES_GEMINI = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")


class SeenPdf(NamedTuple):
    is_one: bool
    locked: bool
    pages: int


def look_at(data: bytes) -> SeenPdf:
    """The facts of a PDF, as far as its plain bytes tell."""
    pages = len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", data))
    return SeenPdf(
        data.startswith(b"%PDF-") and b"%%EOF" in data[-1024:], b"/Encrypt" in data, pages
    )


def claude_file_complaints(body: Json, found: list[tuple[str, Json]]) -> Iterator[str]:
    pages = 0
    for where, source in found:
        if source.get("type") != "base64" or source.get("media_type") != "application/pdf":
            yield f"{where}.source.media_type: Input should be 'application/pdf'"
            continue
        seen = look_at(decoded(source.get("data") or "") or b"")
        if seen.locked:
            yield f"{where}.source: The PDF specified is password protected."
        elif not seen.is_one:
            yield f"{where}.source: The PDF specified was not valid."
        pages += seen.pages
    most = most_of(body)
    if pages > most:
        yield f"A maximum of {most} PDF pages may be provided."


def most_of(body: Json) -> int:
    """The most pictures, and pages of PDFs, of one request. Models that take an effort have the long windows."""
    knows = claude(str(body.get("model")))
    return MANY_CLAUDE if knows is not None and knows.efforts else FEWER_CLAUDE


def carried_chars(value: object) -> int:
    """The length of all texts of a request: nearly all of it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(carried_chars, value))
    if isinstance(value, dict):
        return sum(map(carried_chars, value.values()))
    return 0


def openai_file_complaint(file: Json) -> str | None:
    data, name = file.get("file_data"), file.get("filename")
    if not isinstance(data, str) or not data.startswith("data:application/pdf;base64,"):
        return "Invalid file data. Expected a base64-encoded data URL with an application/pdf MIME type."
    if not name:
        return "Missing required parameter: 'filename'."
    raw = decoded(data.partition(";base64,")[2]) or b""
    seen = look_at(raw)
    if not seen.is_one or seen.locked:
        return "The file could not be processed. It may be corrupted or encrypted."
    if len(raw) > FILES_BYTES_OPENAI:
        return "The file is too large. The limit is 50 MB."
    return None


def gemini_inline_complaint(inline: Json) -> str | None:
    kind, raw = inline.get("mimeType"), decoded(inline.get("data") or "")
    if raw is None:
        return "Base64 decoding failed"
    if kind == "application/pdf":
        seen = look_at(raw)
        if not seen.is_one or seen.locked or not seen.pages:
            return "The document has no pages."
        return "The document contains too many pages." if seen.pages > PAGES_GEMINI else None
    if kind not in PICTURES_GEMINI:
        return f"Unsupported MIME type: {kind}"
    return None if sniff(raw) is not None else "Unable to process input image. Please retry"
