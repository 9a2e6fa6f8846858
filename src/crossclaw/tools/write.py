"""`write`: writes a whole file in the session's workspace, put in place at once."""

from typing import ClassVar

import anyio.to_thread
import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.tools import built_in
from crossclaw.sandbox.files import replace_file
from crossclaw.sandbox.places import Places
from crossclaw.tools.contract import Tool, ToolContext

BYTES_MAX = 4 * 1024 * 1024  # far above what a model says in one message


class WriteParams(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    content: str


class Write(Tool[WriteParams]):
    declared = built_in("write")
    description = (
        "Write a whole file in your workspace: a new one, or in place of the old one, which is gone then. "
        "Missing folders are made. To change part of a file use edit."
    )
    about: ClassVar = {
        "path": "of the file, from the workspace's folder",
        "content": "all of the file's text",
    }
    params = WriteParams

    def __init__(self, places: Places) -> None:
        self._places = places

    async def call(self, context: ToolContext, params: WriteParams) -> str:
        data = params.content.encode("utf-8", "replace")
        if len(data) > BYTES_MAX:
            raise Invalid(f"at most {BYTES_MAX} bytes at once; write it in parts with exec")
        place = await self._places.of(context.key, context.authority)
        async with self._places.writing(place):
            new = await anyio.to_thread.run_sync(replace_file, place, params.path, data)
        return f"{'made' if new else 'replaced'} {params.path}, {len(data)} bytes"
