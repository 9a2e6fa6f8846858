"""Outgoing: a message that a client has the gateway send to a chat, by its address and not by a run.

It goes into the outbox, durably; the outbox's worker does the rest.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread
import msgspec

from crossclaw.channels.registry import channel_name, named_address
from crossclaw.delivery.files import FILES_MAX, FileToSend, read_media_url
from crossclaw.domain.addresses import Address
from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import Invalid, KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.door.principal import Principal
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.operations import NewDelivery, PutDelivery
from crossclaw.policy.send import BLOCKED, decide_send
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.route import find_chats


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str
    """The same id twice is one message."""
    to: str
    text: str
    channel: str | None = None
    """The channel by its name; None: the only one that there is."""
    account_id: str | None = None
    thread_id: str | None = None
    session_key: str | None = None
    """The session in whose name it is sent; None: the one whose chat it is."""
    media_urls: Sequence[str] = ()


class SentMessage(NamedTuple):
    delivery_key: str
    channel: str


class OutgoingMessages:
    """Puts messages for chats into the outbox, after asking whether they may be sent."""

    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        channels: Collection[str],
        wake_outbox: Callback,
        workspace_of: Callable[[str], Path],
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._channels = channels
        self._wake_outbox, self._workspace_of = wake_outbox, workspace_of
        self._clock = context.clock
        self._ids = context.ids

    async def send(self, sender: Principal, message: OutgoingMessage) -> SentMessage:
        where = self._address(message)
        speaker = await self._speaker(sender, message.session_key)
        files = await self._files(sender, speaker, message.media_urls)
        if not message.text.strip() and not files:
            raise Invalid("there is nothing to send: give message, mediaUrl, or both")
        new = NewDelivery(
            delivery_key=f"send:{message.request_id}",
            key=await self._allowed_name(where, speaker),
            address=where,
            text=message.text,
            authority=sender.authority,
            files=tuple(each.file for each in files),
        )
        mirrored = speaker is not None and speaker.session is not None
        if not await self._put(new, files, mirrored=mirrored):
            await self._refuse_another(new)
        self._wake_outbox()
        return SentMessage(new.delivery_key, where.channel)

    def _address(self, message: OutgoingMessage) -> Address:
        only = next(iter(self._channels)) if len(self._channels) == 1 else ""
        channel = (channel_name(message.channel) if message.channel else None) or only
        if channel not in self._channels:
            known = ", ".join(self._channels) or "none"
            raise Invalid(f"unsupported channel: {channel or '(none given)'}; set up: {known}")
        return named_address(channel, message.to, message.account_id, message.thread_id)

    async def _speaker(self, sender: Principal, session_key: str | None) -> SessionHandle | None:
        if not session_key:
            return None
        return await self._resolver.resolve(sender, session_key, "create")

    async def _files(
        self, sender: Principal, speaker: SessionHandle | None, urls: Sequence[str]
    ) -> list[FileToSend]:
        if len(urls) > FILES_MAX:
            raise Invalid(f"{len(urls)} files are too many for one message; at most {FILES_MAX}")
        agent_id = speaker.key.agent_id if speaker else self._config.agents.default_id
        folder = self._workspace_of(agent_id) if "operator.admin" in sender.scopes else None
        return [
            await anyio.to_thread.run_sync(read_media_url, url, folder)
            for url in dict.fromkeys(urls)
        ]

    async def _allowed_name(self, where: Address, speaker: SessionHandle | None) -> SessionKey:
        """The session in whose name it is sent: the one that the sender names, else the one whose chat it is. The
        send policy is asked about both."""
        chats = await find_chats(self._config, self._ledger, where)
        for key_there, there in chats:
            self._refuse_denied(key_there, there, where.channel)
        key, session = (speaker.key, speaker.session) if speaker else chats[0]
        self._refuse_denied(key, session)
        return key

    def _refuse_denied(
        self, key: SessionKey, session: Session | None, channel: str | None = None
    ) -> None:
        """Said at once, while somebody hears it; the outbox asks again when it delivers."""
        if not decide_send(self._config.session.send_policy, key, session, channel).allowed:
            raise Invalid(BLOCKED)

    async def _put(self, new: NewDelivery, files: Sequence[FileToSend], *, mirrored: bool) -> bool:
        """Whether it is a new one. With its words in the transcript of the session that the sender named."""
        at, mirror = self._clock.now_ms(), None
        if mirrored:
            words = AssistantMessage([Text(new.text)], at, stop_reason="injected")
            mirror = NewEntry(entry_id=self._ids.short(), message=words)
        put = PutDelivery(new=new, at=at, mirror=mirror)
        if not files or await self._ledger.find_delivery(new.delivery_key) is not None:
            return await self._ledger.do(put)
        kept = [each.keep(new.delivery_key, new.key.agent_id, at) for each in files]
        answers = await self._ledger.commit(*kept, put)
        return bool(answers[-1])

    async def _refuse_another(self, new: NewDelivery) -> None:
        known = await self._ledger.find_delivery(new.delivery_key)
        asked = (new.address.chat, new.text, new.files)
        if known is not None and (known.address.chat, known.text, known.files) != asked:
            raise KeyReused("this idempotency key was used for another message; use a new key")
