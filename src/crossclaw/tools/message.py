"""`message`: sends words and files of the workspace to the chat that a run works for.

A reply is words alone, and no word of it is ever read as a path: what goes out as a file is named here.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import anyio.to_thread
import msgspec

from crossclaw.delivery.files import FILE_BYTES_MAX, FILES_MAX, FileToSend, file_to_send
from crossclaw.domain.addresses import Address
from crossclaw.domain.aliases import Callback
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.domain.exchanges import is_silent
from crossclaw.domain.media import shown_size
from crossclaw.domain.tools import built_in
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import DeliveryFile, NewDelivery, Op, PutDelivery
from crossclaw.sandbox.contract import WorkPlace
from crossclaw.sandbox.files import open_file
from crossclaw.sandbox.places import Places
from crossclaw.tools.contract import Tool, ToolContext

TEXT_CHARS_MAX = 100_000


class MessageToolParams(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    action: Literal["send"] = "send"
    message: str = ""
    media: str | list[str] | None = None
    path: str | None = None
    file_path: str | None = None

    @property
    def paths(self) -> list[str]:
        many = [self.media] if isinstance(self.media, str) else self.media or []
        return list(dict.fromkeys([*many, *filter(None, (self.path, self.file_path))]))


class MessageTool(Tool[MessageToolParams]):
    declared = built_in("message")
    description = (
        "Send files of your workspace, with or without words, to the chat that you are answering. Your reply goes there by "
        "itself: use this only for files, or for words that should arrive before your reply."
    )
    about: ClassVar = {
        "action": "always send",
        "message": "the words",
        "media": "a file's path from the workspace's folder, or a list of them",
        "path": "the same",
        "filePath": "the same",
    }
    params = MessageToolParams

    def __init__(
        self,
        places: Places,
        ledger: Ledger,
        clock: Clock,
        wake: Callback,
        has_chats: Callable[[], bool],
    ) -> None:
        self._places, self._ledger, self._clock = places, ledger, clock
        self._wake, self._has_chats = wake, has_chats

    @property
    def is_there(self) -> bool:
        return self._has_chats()

    def also_needs(self, params: MessageToolParams) -> Sequence[str]:
        """The tool `read`, for files: who may not read a file may not send it."""
        return ("read",) if params.paths else ()

    async def call(self, context: ToolContext, params: MessageToolParams) -> str:
        text, paths = params.message.strip(), params.paths
        if not text and not paths:
            raise Invalid("there is nothing to send: give message, media, or both")
        if len(text) > TEXT_CHARS_MAX or len(paths) > FILES_MAX:
            most = f"{TEXT_CHARS_MAX:,} letters and {FILES_MAX} files"
            raise Invalid(f"that is too much for one message; at most {most}")
        if is_silent(text) and not paths:
            return f"nothing was sent: {text} means silence"
        key = f"message:{context.run.run_id}:{context.tool_use_id}"
        if (known := await self._ledger.find_delivery(key)) is not None:
            return _receipt(known.address, known.files)  # the call is made again, after a crash
        where = await self._where(context)
        files = await self._files(context, paths)
        await self._put(context, key, where, text, files)
        self._wake()
        return _receipt(where, [each.file for each in files])

    async def _where(self, context: ToolContext) -> Address:
        where = context.run.plan.reply_to
        if where is None:
            session = await self._ledger.find_session(context.key)
            where = session.last_address if session else None
        if where is None:
            raise Invalid("this session has no chat; put the file's path into your reply instead")
        return where

    async def _files(self, context: ToolContext, paths: Sequence[str]) -> list[FileToSend]:
        if not paths:
            return []
        place = await self._places.of(context.key, context.authority)
        return [await anyio.to_thread.run_sync(_read, place, each) for each in paths]

    async def _put(
        self,
        context: ToolContext,
        key: str,
        where: Address,
        text: str,
        files: Sequence[FileToSend],
    ) -> None:
        """Stores the delivery, once: the key is the call's."""
        at, run = self._clock.now_ms(), context.run
        new = NewDelivery.of_run(run, key, context.key, where, text)
        new = msgspec.structs.replace(new, files=tuple(each.file for each in files))
        kept: list[Op[Any]] = [each.keep(key, context.key.agent_id, at) for each in files]
        await self._ledger.commit(*kept, PutDelivery(new=new, at=at))


def _receipt(where: Address, files: Sequence[DeliveryFile]) -> str:
    named = ", ".join(each.name for each in files)
    return f"on its way to {where.channel}: {named or 'your words'}"


def _read(place: WorkPlace, path: str) -> FileToSend:
    with open_file(place, path) as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise Invalid(f"{path} is larger than {shown_size(FILE_BYTES_MAX)}; make it smaller first")
    return file_to_send(data, path)
