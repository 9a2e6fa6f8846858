"""`edit`: replaces one exact text in a file by another. What fits twice is refused."""

from typing import ClassVar

import anyio.to_thread
import msgspec

from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.tools import built_in
from crossclaw.sandbox.contract import WorkPlace
from crossclaw.sandbox.files import open_file, replace_file
from crossclaw.sandbox.places import Places
from crossclaw.tools.contract import Tool, ToolContext

BYTES_MAX = 4 * 1024 * 1024  # as for `write`


class EditParams(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    path: str
    old_text: str
    new_text: str
    replace_all: bool = False


class Edit(Tool[EditParams]):
    declared = built_in("edit")
    description = (
        "Replace a piece of text in a file of your workspace; the rest stays. oldText must be in the file "
        "letter by letter, and once: read the file first, and take more lines where it is not unique."
    )
    about: ClassVar = {
        "path": "of the file, from the workspace's folder",
        "oldText": "what stands there now, with its spaces and line breaks",
        "newText": "what shall stand there",
        "replaceAll": "replace it wherever it stands",
    }
    params = EditParams

    def __init__(self, places: Places) -> None:
        self._places = places

    async def call(self, context: ToolContext, params: EditParams) -> str:
        if not params.old_text:
            raise Invalid("oldText is empty; use write for a new file")
        place = await self._places.of(context.key, context.authority)
        async with self._places.writing(place):
            count = await anyio.to_thread.run_sync(_edit, place, params)
        return f"replaced {count} place{'' if count == 1 else 's'} in {params.path}"


def _edit(place: WorkPlace, params: EditParams) -> int:
    with open_file(place, params.path) as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise Invalid(f"{params.path} has more than {BYTES_MAX} bytes; use exec")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"{params.path} is not UTF-8 text") from None
    changed, count = _replaced(text, params)
    replace_file(place, params.path, changed.encode("utf-8", "replace"))
    return count


def _replaced(text: str, params: EditParams) -> tuple[str, int]:
    old, new = params.old_text, params.new_text
    if old not in text and "\r\n" in text:  # models write plain line ends
        old, new = _with_crlf(old), _with_crlf(new)
    count = text.count(old)
    if count == 0:
        raise NotFound(f"oldText is not in {params.path} as it is written; read the file again")
    if count > 1 and not params.replace_all:
        raise Invalid(
            f"oldText is in {params.path} {count} times; add lines around it until it is there once, "
            "or set replaceAll"
        )
    return text.replace(old, new), count


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
