"""One Discord bot: messages from its gateway go to the host, replies go to the REST API."""

import logging
import re
from typing import Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from crossclaw.channels.behind import ChatsBehind
from crossclaw.channels.contract import AccountFacts, ChannelAccount, ChannelHost, Piece
from crossclaw.channels.discord.client import DiscordClient, nonce_of
from crossclaw.channels.discord.gateway import DiscordGateway, GatewayEvents, ResumePoint
from crossclaw.channels.discord.payloads import (
    DM,
    THREADS,
    DiscordChannel,
    DiscordGuild,
    DiscordMessage,
    ReadyEvent,
)
from crossclaw.channels.discord.reading import (
    DiscordReader,
    NothingRead,
    read_message,
    snowflake_at,
)
from crossclaw.channels.discord.settings import API_URL, DiscordSettings
from crossclaw.channels.http import HttpClients
from crossclaw.channels.tokens import read_token_file
from crossclaw.channels.websocket import Dial
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import AccountBroken, ChannelDown, ChatRefused, DeliveryError
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

NONCE_KNOWN_S = 120.0  # "checked for uniqueness in the past few minutes": two are surely some
PLACES_MAX = 20_000  # channels whose names and parents are known; the oldest are asked for again
SEEN_MAX = 200  # chats in which missed messages are looked for; the longest silent are let go
MISSED_MAX = 200  # messages of one chat that are caught up with
PLACE_TRIES_MAX = (
    5  # then it is guessed what a chat is: one that Discord cannot show must not silence all others
)
MISSED_AGE_MS = 24 * 3_600_000  # what is older is not answered as if it were new

INVITE_URL = "https://discord.com/oauth2/authorize"
VIEW, SPEAK, IN_THREADS = 1 << 10, 1 << 11, 1 << 38
REACT, FILES, HISTORY = 1 << 6, 1 << 15, 1 << 16
RIGHTS = VIEW | SPEAK | IN_THREADS | REACT | FILES | HISTORY
"""The permissions that the bot's invitation asks for; none that changes a server."""

_T = TypeVar("_T")


class SeenChat(msgspec.Struct, frozen=True):
    """The last message of a chat that the host has accepted or refused."""

    last: str
    guild_id: str | None = None


class GatewayMemory(msgspec.Struct, frozen=True):
    """The durable cursor: where the session resumes, and where REST continues if it cannot."""

    point: ResumePoint | None = None
    seen: dict[str, SeenChat] = {}
    behind: list[str] = []
    """Chats whose missed messages are still to be fetched."""


async def open_account(settings: DiscordSettings, host: ChannelHost) -> "DiscordAccount":
    return DiscordAccount(settings, host, await _read_token(settings))


async def identify(settings: DiscordSettings, http: HttpClients) -> AccountFacts:
    """The account of a token, where the bot is invited, and whether it would get the words of messages."""
    token = await _read_token(settings)
    client = DiscordClient(http, settings.api_url or API_URL, token)
    me, application = await client.me(), await client.application()
    return AccountFacts(
        id=me.id,
        name=me.name,
        open_url=f"{INVITE_URL}?client_id={application.id}&scope=bot&permissions={RIGHTS}",
        is_deaf=not application.hears_words,
    )


async def _read_token(settings: DiscordSettings) -> Secret:
    text = settings.token.reveal() if settings.token else ""
    if settings.token_file:
        text = await anyio.to_thread.run_sync(read_token_file, settings.token_file)
    if not re.fullmatch(r"[\w.-]+", text.strip(), re.ASCII):
        raise AccountBroken("this is no bot token; Discord's developer portal shows it on the page Bot")  # fmt: skip
    return Secret(text.strip())


class DiscordAccount(ChannelAccount):
    def __init__(
        self, settings: DiscordSettings, host: ChannelHost, token: Secret, dial: Dial | None = None
    ) -> None:
        self._token = token
        self._host = host
        self._dial = dial or host.http.dial
        self._client = DiscordClient(host.http, settings.api_url or API_URL, token)
        self._me = DiscordReader("", host.account_id)
        self._places: dict[str, DiscordChannel] = {}
        self._seen: dict[str, SeenChat] = {}
        self._behind = ChatsBehind(self._catch_up, host.troubled)
        self._unplaced: dict[str, int] = {}
        """Chats of which Discord did not say what they are, and how often."""
        self._direct: dict[str, str] = {}
        """User → the channel of the direct chat."""
        self._started: anyio.abc.TaskStatus[None] | None = None

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        facts = await self.probe()
        memory = await self._load()
        self._seen = dict(memory.seen)
        self._behind = ChatsBehind(self._catch_up, host.troubled, memory.behind)
        self._started = task_status
        events = GatewayEvents(
            find=self._client.gateway,
            ready=self._ready,
            resumed=lambda: self._is_connected(facts),
            happened=self._happened,
            heard=host.heard,
            keep=self._keep,
        )
        gateway = DiscordGateway(self._token, events, self._dial, memory.point)
        await self._behind.serve_beside(gateway.serve)

    @property
    def _cursor(self) -> str:
        """The cursor's name for this bot: another token's session is not ours."""
        return f"gateway:{self._me.id}"

    async def _load(self) -> GatewayMemory:
        kept = await self._host.load_cursor(self._cursor)
        try:
            return msgspec.json.decode(kept, type=GatewayMemory) if kept else GatewayMemory()
        except msgspec.MsgspecError:
            return GatewayMemory()

    async def _keep(self, point: ResumePoint | None) -> None:
        memory = GatewayMemory(point, self._seen, list(self._behind))
        await self._host.save_cursor(self._cursor, msgspec.json.encode(memory).decode())

    async def _is_connected(self, facts: AccountFacts) -> None:
        await self._host.connected(facts)
        self._behind.connected()
        if self._started is not None:
            self._started.started()
            self._started = None

    async def _ready(self, ready: ReadyEvent) -> None:
        """Begins a new session: missed messages of direct chats are fetched now, those of servers when they
        are described."""
        await self._is_connected(AccountFacts(id=ready.user.id, name=ready.user.name))
        direct = [chat for chat, seen in self._seen.items() if seen.guild_id is None]
        await self._behind.catch_up(direct)

    async def _happened(self, name: str, data: msgspec.Raw) -> None:
        match name:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                if (message := _decoded(data, DiscordMessage)) is not None:
                    await self._take(message, is_edit=name == "MESSAGE_UPDATE")
            case "GUILD_CREATE":
                if (guild := _decoded(data, DiscordGuild)) is not None:
                    await self._meet(guild)
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                if (channel := _decoded(data, DiscordChannel)) is not None:
                    self._learn(channel)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                if (channel := _decoded(data, DiscordChannel)) is not None:
                    self._places.pop(channel.id, None)
                    self._seen.pop(channel.id, None)

    async def _meet(self, guild: DiscordGuild) -> None:
        behind = list[str]()
        for channel in (*guild.channels, *guild.threads):
            self._learn(msgspec.structs.replace(channel, guild_id=guild.id))
            seen = self._seen.get(channel.id)
            if seen is not None and int(channel.last_message_id or 0) > int(seen.last):
                behind.append(channel.id)
        await self._behind.catch_up(behind)

    async def _catch_up(self, chat: str) -> None:
        if (seen := self._seen.get(chat)) is None:  # others were heard of since, and it is let go
            return None
        oldest = snowflake_at(self._host.now_ms() - MISSED_AGE_MS)
        after, fetched = str(max(int(seen.last), oldest)), 0
        while fetched < MISSED_MAX:
            missed = await self._client.messages_after(chat, after)
            for message in missed:
                given = msgspec.structs.replace(message, guild_id=seen.guild_id)
                await self._take(given, is_missed=True)
                after = message.id
            fetched += len(missed)
            if len(missed) < 100:
                return None
        return self._host.troubled(f"more than {MISSED_MAX} messages of one chat were missed")

    async def _take(
        self, message: DiscordMessage, *, is_edit: bool = False, is_missed: bool = False
    ) -> None:
        place = await self._place_of(message)
        read = self._read(message, place, is_edit=is_edit)
        if isinstance(read, NothingRead):
            log.debug("a message of Discord is left out: %s", read.why)
        else:
            if place.type == DM:
                keep_newest(self._direct, read.sender, message.channel_id, PLACES_MAX)
            received = await self._host.receive(read)
            if not received.is_dropped and not self._hides_missed(message, is_missed):
                self._note_seen(message)
        known = message.channel_id in self._seen and not is_edit
        if known and not self._hides_missed(message, is_missed):
            self._note_seen(message)

    def _hides_missed(self, message: DiscordMessage, is_missed: bool) -> bool:
        """Whether messages before this one are still to be fetched, so that the chat's mark must stay."""
        return message.channel_id in self._behind and not is_missed

    def _read(
        self, message: DiscordMessage, place: DiscordChannel, *, is_edit: bool
    ) -> Inbound | NothingRead:
        try:
            return read_message(message, place, self._me, is_edit=is_edit)
        except (ValueError, TypeError, LookupError) as error:
            # One message that nobody foresaw must not keep all later ones back.
            log.warning("a message of Discord could not be read: %s", type(error).__name__)
            return NothingRead("it could not be read")

    def _note_seen(self, message: DiscordMessage) -> None:
        before = self._seen.get(message.channel_id)
        last = max(message.id, before.last, key=int) if before else message.id
        keep_newest(self._seen, message.channel_id, SeenChat(last, message.guild_id), SEEN_MAX)

    # ── where it is ────────────────────────────────────────────────────────────────────────────

    async def _place_of(self, message: DiscordMessage) -> DiscordChannel:
        known = self._places.get(message.channel_id)
        if known is not None:
            return known
        kind, channel_id = message.channel_type, message.channel_id
        if kind == DM or (kind is not None and message.guild_id and kind not in THREADS):
            return DiscordChannel(id=channel_id, type=kind, guild_id=message.guild_id)
        try:
            return self._learn(await self._client.channel(channel_id))
        except ChannelDown as error:
            tries = self._unplaced.get(channel_id, 0) + 1
            keep_newest(self._unplaced, channel_id, tries, PLACES_MAX)
            if not isinstance(error, ChatRefused) and tries < PLACE_TRIES_MAX:
                raise  # the account starts again, and this message comes once more
            # It may not be looked at: with a server it is one of its channels, without one a group chat.
            kind = 0 if message.guild_id else 3
            return DiscordChannel(id=channel_id, type=kind, guild_id=message.guild_id)

    def _learn(self, channel: DiscordChannel) -> DiscordChannel:
        keep_newest(self._places, channel.id, channel, PLACES_MAX)
        return channel

    async def _channel_of(self, where: Address) -> str:
        word, _, chat = where.to.rpartition(":")
        if not chat.isdigit():
            raise DeliveryError(
                f"{where.to!r} is no address on Discord: write user:<id> or channel:<id>, with the number"
            )
        if word != "user":
            return chat
        if chat not in self._direct:
            keep_newest(self._direct, chat, await self._client.open_direct(chat), PLACES_MAX)
        return self._direct[chat]

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        body: dict[str, Any] = {
            **_words(piece),
            "nonce": nonce_of(piece.delivery_key),
            "enforce_nonce": True,
        }
        if piece.reply_to is not None and piece.reply_to.isdigit():
            body["message_reference"] = {
                "message_id": piece.reply_to,
                "fail_if_not_exists": False,
            }
        return await self._client.create_message(
            await self._channel_of(piece.address), body, piece.media
        )

    def knows_key_for_s(self) -> float:
        return NONCE_KNOWN_S

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        channel_id = await self._channel_of(where)
        await self._client.edit_message(channel_id, platform_id, _words(piece))

    async def show_typing(self, where: Address) -> None:
        await self._client.type_in(await self._channel_of(where))

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        await self._client.react(await self._channel_of(where), message_id, emoji, on=on)

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._client.download(what.id, limit)

    async def probe(self) -> AccountFacts:
        me = await self._client.me()
        self._me = DiscordReader(me.id, self._host.account_id)
        return AccountFacts(id=me.id, name=me.name)


def _words(piece: Piece) -> dict[str, Any]:
    """The fields of a message's words. Mentions are switched off, whatever a model writes."""
    return {
        "content": piece.formatted or piece.text,
        "allowed_mentions": {"parse": [], "replied_user": False},
    }


def _decoded(data: msgspec.Raw, kind: type[_T]) -> _T | None:
    """Decodes an event; None if it does not have the documented shape: it is left out."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        log.warning("an event of Discord could not be read: %s", error)
        return None
