"""Base64 of pictures and files: the same bytes in slices, and not in the event loop."""

import base64

import anyio
import anyio.lowlevel
import pytest

from crossclaw.domain.errors import Invalid
from crossclaw.domain.media import SLICE_CHARS, decode_base64
from crossclaw.gateway.methods.chat import ClientAttachment, blocks_of

LARGE = b"\x89PNG\r\n\x1a\n" + bytes(range(251)) * 1_000


@pytest.mark.parametrize("less", [0, 1, 2])
def test_a_large_one_is_decoded_in_slices_to_the_same_bytes(less: int) -> None:
    data = LARGE[: len(LARGE) - less]
    text = base64.b64encode(data).decode()
    assert len(text) > SLICE_CHARS

    assert decode_base64(text) == data


@pytest.mark.parametrize("at", [2, SLICE_CHARS - 2, SLICE_CHARS + 2, -4])
def test_what_is_none_is_refused_wherever_it_goes_wrong(at: int) -> None:
    text = base64.b64encode(LARGE + b"ab").decode()
    for wrong in ("==", "é!", "\n "):
        end = at + 2 if at + 2 else None
        with pytest.raises(ValueError, match=r"\w"):
            decode_base64(f"{text[:at]}{wrong}{text[end:]}")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_others_go_on_while_a_large_attachment_is_decoded() -> None:
    others = 0

    async def go_on() -> None:
        nonlocal others
        while True:
            others += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        (block,) = await blocks_of([ClientAttachment(base64.b64encode(LARGE).decode())])
        counted = others
        tasks.cancel_scope.cancel()

    assert block.source.media_type == "image/png"
    assert counted
    with pytest.raises(Invalid, match="must be base64"):
        await blocks_of([ClientAttachment("é" * (SLICE_CHARS + 1))])
