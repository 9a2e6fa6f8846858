"""What a service sees of a picture: its real type by its first bytes, and how large it is."""

import base64
import binascii
import struct
from collections.abc import Iterator
from typing import Any

BASE64_MAX = 5 * 1024 * 1024
PIXELS_MAX, PIXELS_MAX_OF_MANY, MANY = 8_000, 2_000, 20
KNOWN = ("image/jpeg", "image/png", "image/gif", "image/webp")


def sniff(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height, if the first bytes tell; (0, 0) otherwise."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return int(width), int(height)
    return 0, 0


def is_animated(data: bytes) -> bool:
    """Whether it is a GIF of several pictures: each has its own control block."""
    return data[:4] == b"GIF8" and data.count(b"\x21\xf9\x04") > 1


def decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def claude_complaints(where: str, source: dict[str, Any], pictures: int) -> Iterator[str]:
    if source.get("type") == "url":
        return
    text, said = source.get("data") or "", source.get("media_type")
    if said not in KNOWN:
        yield f"{where}.source.media_type: Input should be {', '.join(map(repr, KNOWN))}"
        return
    if len(text) > BASE64_MAX:
        yield f"{where}.source: image exceeds 5 MB maximum: {len(text)} bytes > {BASE64_MAX} bytes"
    data = decoded(text)
    if data is None:
        yield f"{where}.source.data: invalid base64 data"
        return
    if (real := sniff(data)) != said:
        yield (
            f"{where}.source: The image was specified using the {said} media type, but the image"
            f" appears to be a {real or 'n unknown'} image"
        )
    most = PIXELS_MAX_OF_MANY if pictures > MANY else PIXELS_MAX
    if max(size_of(data)) > most:
        yield f"{where}.source: image dimensions exceed max allowed size: {most} pixels"


def openai_complaint(url: str) -> str | None:
    if not url.startswith("data:"):
        return None if url.startswith(("http://", "https://")) else "Invalid image_url"
    data = decoded(url.partition(";base64,")[2])
    if data is None or sniff(data) is None or is_animated(data):
        return (
            "You uploaded an unsupported image. Please make sure your image has of one the following"
            " formats: ['png', 'jpeg', 'gif', 'webp']."
        )
    return None
