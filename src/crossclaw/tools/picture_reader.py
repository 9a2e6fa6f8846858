"""The picture reader: a picture in, one that every model takes out, as a program of its own. A picture can be
built so that opening it takes minutes or gigabytes; it bounds itself, as the page reader does.

In: a line with the type that it is said to have, then its bytes. Out: a line with the type, then the bytes.
"""

import io
import sys

from crossclaw.tools.page_reader import bound_self

PIXELS_MAX = 100_000_000  # a phone's largest picture; opened it takes 400 MB
SIDE_MAX = 1_568  # pixels: services scale larger ones down themselves, and charge for sending them
BYTES_MAX = 3_500_000  # of what is sent; in base64 it stays below the 5 MB that services take
REFUSED = 4
"""The exit code for what is no readable picture; the output is the reason."""


def for_model(data: bytes) -> tuple[str, bytes]:
    """The picture upright, small enough, and of a type that all services take. Raises ValueError with the reason."""
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415  with the extra `pictures`

    Image.MAX_IMAGE_PIXELS = PIXELS_MAX
    try:
        with Image.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > PIXELS_MAX:
                raise ValueError(
                    f"it has {opened.width} × {opened.height} pixels, which is too many"
                )
            kind = str(opened.format)
            upright = ImageOps.exif_transpose(opened)
            upright.load()
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"it cannot be read as a picture ({type(error).__name__})") from None
    except (OSError, SyntaxError, EOFError) as error:
        raise ValueError(f"it is damaged ({error})") from None
    upright.thumbnail((SIDE_MAX, SIDE_MAX))
    return _encoded(upright, lossless=kind in ("PNG", "GIF"))


def _encoded(picture: "object", *, lossless: bool) -> tuple[str, bytes]:
    from PIL import Image  # noqa: PLC0415  loaded by now

    assert isinstance(picture, Image.Image)
    if lossless:
        out = io.BytesIO()
        transparent = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
        picture.convert("RGBA" if transparent else "RGB").save(out, "PNG")
        if out.tell() <= BYTES_MAX:
            return "image/png", out.getvalue()
    flat = Image.new("RGB", picture.size, "white")
    flat.paste(picture.convert("RGBA"), mask=picture.convert("RGBA").getchannel("A"))
    for quality in (85, 60, 30):
        out = io.BytesIO()
        flat.save(out, "JPEG", quality=quality)
        if out.tell() <= BYTES_MAX:
            break
    return "image/jpeg", out.getvalue()


def main() -> int:
    bound_self()
    data = sys.stdin.buffer.read()
    try:
        media_type, made = for_model(data)
    except (ValueError, MemoryError) as error:
        sys.stdout.buffer.write(str(error or "it takes too much memory").encode())
        return REFUSED
    sys.stdout.buffer.write(media_type.encode() + b"\n" + made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
