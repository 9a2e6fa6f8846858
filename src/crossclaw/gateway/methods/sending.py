"""send: a message to a chat."""

import mimetypes
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio.to_thread

from crossclaw.channels.registry import channel_name, named_address
from crossclaw.delivery.files import FILE_BYTES_MAX, FILES_MAX, FileToSend, file_to_send
from crossclaw.domain.addresses import Address
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import Invalid, KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import decode_base64
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.chat import RequestKey
from crossclaw.ledger.operations import NewDelivery, PutDelivery
from crossclaw.policy.send import BLOCKED, decide_send
from crossclaw.runs.context import ServiceContext
from crossclaw.sandbox.files import read_file
from crossclaw.sessions.route import find_chats


class MessageSendParams(Params, frozen=True):
    to: Filled
    idempotency_key: RequestKey
    message: str = ""
    channel: str | None = None
    account_id: str | None = None
    thread_id: str | None = None
    session_key: str | None = None
    media_url: str | None = None
    media_urls: list[str] | None = None
    gif_playback: bool | None = None


def read_media_url(url: str, workspace: Path | None) -> FileToSend:
    """A file that travels in the call, or one of the workspace for whoever may read there. Nothing is fetched from
    elsewhere: an address would be asked from inside of the gateway's network."""
    if url.startswith("data:"):
        return _from_data(url)
    if "://" in url and not url.startswith("file://"):
        raise Invalid("files are not fetched from addresses; give a data: URL or a path")
    if workspace is None:
        raise Invalid("a path needs the scope operator.admin; give the file as a data: URL")
    path = url.removeprefix("file://")
    data = read_file(workspace, path, FILE_BYTES_MAX)
    if data is None:
        raise Invalid(f"there is no file {path} in the agent's workspace, {workspace}")
    return file_to_send(data, path)


def _from_data(url: str) -> FileToSend:
    head, comma, content = url.partition(",")
    words = head.removeprefix("data:").split(";")
    if not comma or words[-1] != "base64":
        raise Invalid("a data: URL must be data:<type>;base64,<content>")
    named = next((each[5:] for each in words if each.startswith("name=")), None)
    name = unquote(named) if named else f"file{mimetypes.guess_extension(words[0]) or ''}"
    try:
        return file_to_send(decode_base64(content), name)
    except ValueError:
        raise Invalid("the content of a data: URL is no base64") from None


class MessageSendResult(Result, frozen=True):
    run_id: str
    message_id: str
    channel: str


class Sending:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        channels: Collection[str],
        wake: Any,
        workspace_of: Callable[[str], Path],
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._channels = channels
        self._wake, self._workspace_of = wake, workspace_of
        self._clock = context.clock
        self._ids = context.ids

    @method(
        "send",
        "operator.write",
        "change",
        "Send a message to a chat of a channel, through the outbox.",
    )
    async def send(self, caller: Caller, params: MessageSendParams) -> MessageSendResult:
        """Into the outbox, durably; the worker does the rest. The same key twice is one message."""
        channel = (channel_name(params.channel) if params.channel else None) or (
            next(iter(self._channels)) if len(self._channels) == 1 else ""
        )
        if channel not in self._channels:
            known = ", ".join(self._channels) or "none"
            raise Invalid(f"unsupported channel: {channel or '(none given)'}; set up: {known}")
        files = await self._files(caller, params)
        if not params.message.strip() and not files:
            raise Invalid("there is nothing to send: give message, mediaUrl, or both")
        key = f"send:{params.idempotency_key}"
        where = named_address(channel, params.to, params.account_id, params.thread_id)
        if not await self._put(caller, key, where, params, files):
            await self._refuse_another(key, where, params.message, files)
        self._wake()
        return MessageSendResult(run_id=params.idempotency_key, message_id=key, channel=channel)

    async def _put(
        self,
        caller: Caller,
        key: str,
        where: Address,
        params: MessageSendParams,
        files: Sequence[FileToSend],
    ) -> bool:
        """In the name of the session that the caller says, else of the one whose chat it is."""
        at, mirror = self._clock.now_ms(), None
        chats = await find_chats(self._config, self._ledger, where)
        for key_there, there in chats:
            self._refuse_denied(key_there, there, where.channel)
        speaker, session = chats[0]
        if params.session_key:
            handle = await self._resolver.resolve(caller.principal, params.session_key, "create")
            speaker, session = handle.key, handle.session
        if params.session_key and session is not None:
            words = AssistantMessage([Text(params.message)], at, stop_reason="injected")
            mirror = NewEntry(entry_id=self._ids.short(), message=words)
        self._refuse_denied(speaker, session)
        new = NewDelivery(
            delivery_key=key,
            key=speaker,
            address=where,
            text=params.message,
            authority=caller.principal.authority,
            files=tuple(each.file for each in files),
        )
        put = PutDelivery(new=new, at=at, mirror=mirror)
        if not files or await self._ledger.find_delivery(key) is not None:
            return await self._ledger.do(put)
        kept = [each.keep(key, speaker.agent_id, at) for each in files]
        answers = await self._ledger.commit(*kept, put)
        return bool(answers[-1])

    async def _files(self, caller: Caller, params: MessageSendParams) -> list[FileToSend]:
        urls = [*([params.media_url] if params.media_url else []), *(params.media_urls or [])]
        if len(urls) > FILES_MAX:
            raise Invalid(f"{len(urls)} files are too many for one message; at most {FILES_MAX}")
        agent_id = self._config.agents.default_id
        if params.session_key and urls:
            handle = await self._resolver.resolve(caller.principal, params.session_key, "create")
            agent_id = handle.key.agent_id
        folder = self._workspace_of(agent_id)
        may_read = "operator.admin" in caller.principal.scopes
        return [
            await anyio.to_thread.run_sync(read_media_url, url, folder if may_read else None)
            for url in dict.fromkeys(urls)
        ]

    def _refuse_denied(
        self, key: SessionKey, session: Session | None, channel: str | None = None
    ) -> None:
        """Said at once, while somebody hears it; the outbox asks again when it delivers."""
        if not decide_send(self._config.session.send_policy, key, session, channel).allowed:
            raise Invalid(BLOCKED)

    async def _refuse_another(
        self, key: str, where: Address, text: str, files: Sequence[FileToSend]
    ) -> None:
        known = await self._ledger.find_delivery(key)
        asked = (where.chat, text, tuple(each.file for each in files))
        if known is not None and (known.address.chat, known.text, known.files) != asked:
            raise KeyReused("this idempotency key was used for another message; use a new key")
