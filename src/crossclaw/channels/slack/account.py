"""One Slack app: messages in its events go to the host, replies go to the Web API."""

import hmac
import logging
import re
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.behind import ChatsBehind
from crossclaw.channels.contract import (
    AccountFacts,
    ChannelAccount,
    ChannelHost,
    Piece,
    WebhookAnswer,
    WebhookRequest,
)
from crossclaw.channels.slack.client import PAGE, SlackClient
from crossclaw.channels.slack.payloads import EventCallback, SlackIdentity, SlackMessage
from crossclaw.channels.slack.reading import SlackReader, SlackSkipped, read_event
from crossclaw.channels.slack.settings import API_URL, SlackSettings
from crossclaw.channels.slack.sockets import SocketEvents, serve_socket_mode
from crossclaw.channels.websocket import Dial
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import AccountBroken, DeliveryError
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

SIGNED_S_MAX = 300  # an older signature may be one that somebody overheard
DIRECT_MAX = 10_000  # people whose direct chat is known; the oldest are asked for again
SEEN_MAX = (
    20  # chats in which missed messages are looked for: Slack allows few such questions a minute
)
MISSED_AGE_S = 24 * 3600.0  # what is older is not answered as if it were new


class SeenInSlack(msgspec.Struct, frozen=True):
    """The last message of a chat that the host has accepted or refused."""

    ts: str
    channel_type: str | None = None


def open_account(settings: SlackSettings, host: ChannelHost) -> "SlackAccount":
    return SlackAccount(settings, host)


class SlackAccount(ChannelAccount):
    def __init__(
        self, settings: SlackSettings, host: ChannelHost, dial: Dial | None = None
    ) -> None:
        if not settings.is_set_up or settings.bot_token is None:
            raise AccountBroken(settings.what_is_missing)
        self._settings = settings
        self._host = host
        self._dial = dial or host.http.dial
        self._client = SlackClient(
            host.http, settings.api_url or API_URL, settings.bot_token, settings.app_token
        )
        self._identity = SlackIdentity("")
        self._direct: dict[str, str] = {}
        """User → the channel of the direct chat."""
        self._seen: dict[str, SeenInSlack] = {}
        self._behind: ChatsBehind | None = None
        """The chats that are behind; None: not known yet."""
        self._started: anyio.abc.TaskStatus[None] | None = None

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await self.probe()
        self._seen = await self._load()
        self._behind = ChatsBehind(self._catch_up, host.troubled, self._seen)
        self._started = task_status
        if self._settings.mode == "http":
            await self._behind.serve_beside(self._serve_calls)
        events = SocketEvents(
            find=self._client.open_socket,
            connected=self._connected,
            happened=self._happened,
            heard=host.heard,
        )
        await self._behind.serve_beside(partial(serve_socket_mode, events, self._dial))

    async def _serve_calls(self) -> None:
        await self._connected(None, True)
        await anyio.sleep_forever()

    async def _connected(self, connections: int | None, gap: bool) -> None:
        await self._host.connected(self._facts())
        if self._started is not None:
            self._started.started()
            self._started = None
        if connections is not None and connections > 1:
            self._host.troubled(
                f"{connections} connections share this Slack app, and each gets only some of the messages:"
                " does another gateway run with the same tokens?"
            )
        if self._behind is not None:
            self._behind.connected()
            await self._behind.catch_up(self._seen if gap else ())

    async def _catch_up(self, channel: str) -> None:
        """Receives top-level messages that came while nobody was connected."""
        if (
            seen := self._seen.get(channel)
        ) is None:  # others were heard of since, and it is let go
            return
        oldest = self._host.now_ms() / 1000 - MISSED_AGE_S
        after = max(seen.ts, f"{oldest:.6f}", key=float)
        missed = await self._client.history(channel, after)
        if len(missed) >= PAGE:
            self._host.troubled(f"more than {PAGE} messages of one chat may have been missed")
        for message in missed:
            if message.ts != seen.ts:
                kind = seen.channel_type
                event = msgspec.structs.replace(message, channel=channel, channel_type=kind)
                await self._take(event, is_missed=True)

    async def _happened(self, payload: msgspec.Raw) -> None:
        try:
            callback = msgspec.json.decode(payload, type=EventCallback)
            event = msgspec.json.decode(callback.event, type=SlackMessage)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("an event of Slack could not be read: %s", error)
            return
        await self._take(event, callback.team_id)

    async def _take(
        self, event: SlackMessage, team_id: str | None = None, *, is_missed: bool = False
    ) -> None:
        me = SlackReader(self._identity.user_id, self._identity.bot_id, self._host.account_id)
        try:
            read = read_event(event, me, team_id or self._identity.team_id)
        except (ValueError, TypeError, LookupError) as error:
            # One message that nobody foresaw must not keep all later ones back.
            log.warning("a message of Slack could not be read: %s", type(error).__name__)
            return
        if isinstance(read, SlackSkipped):
            log.debug("a message of Slack is left out: %s", read.why)
            return
        if read.chat_type == "direct":
            keep_newest(self._direct, read.sender, event.channel, DIRECT_MAX)
        received = await self._host.receive(read)
        is_behind = self._behind is None or event.channel in self._behind
        if is_behind and not is_missed:
            return  # what was missed before it is still to be asked for, from where we were
        if not received.is_dropped or event.channel in self._seen:
            await self._note_seen(event)

    async def _load(self) -> dict[str, SeenInSlack]:
        kept = await self._host.load_cursor(self._cursor)
        try:
            return msgspec.json.decode(kept, type=dict[str, SeenInSlack]) if kept else {}
        except msgspec.MsgspecError:
            return {}

    @property
    def _cursor(self) -> str:
        """The cursor's name for this app in this workspace."""
        return f"seen:{self._identity.team_id}:{self._identity.user_id}"

    async def _note_seen(self, event: SlackMessage) -> None:
        before = self._seen.get(event.channel)
        ts = max(event.ts, before.ts, key=float) if before else event.ts
        kind = event.channel_type or (before.channel_type if before else None)
        keep_newest(self._seen, event.channel, SeenInSlack(ts, kind), SEEN_MAX)
        await self._host.save_cursor(self._cursor, msgspec.json.encode(self._seen).decode())

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        secret = self._settings.signing_secret
        if self._settings.mode != "http" or secret is None:
            return WebhookAnswer(status=404)
        if request.method != "POST":
            return WebhookAnswer(status=405)
        if not is_signed(request, secret, self._host.now_ms() // 1000):
            return WebhookAnswer(status=401)
        try:
            callback = msgspec.json.decode(request.body, type=EventCallback)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return WebhookAnswer(status=400)
        self._host.heard()
        if callback.type == "url_verification":
            return WebhookAnswer(body=(callback.challenge or "").encode())
        await self._happened(msgspec.Raw(request.body))
        return WebhookAnswer()

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        body: dict[str, Any] = {
            "channel": await self._channel_of(piece.address),
            "text": piece.formatted or piece.text,
        }
        if (thread := piece.address.thread_id or piece.reply_to) is not None:
            body["thread_ts"] = thread
        if piece.media is not None:
            return await self._client.upload(body, piece.media)
        return await self._client.post(body, piece.delivery_key)

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        channel = await self._channel_of(where)
        await self._client.update(channel, platform_id, piece.formatted or piece.text)

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        await self._client.react(await self._channel_of(where), message_id, emoji, on=on)

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._client.download(what.id, limit)

    async def probe(self) -> AccountFacts:
        self._identity = await self._client.who_am_i()
        return self._facts()

    def _facts(self) -> AccountFacts:
        who = self._identity
        return AccountFacts(id=who.user_id, name=who.user, detail=who.team)

    async def _channel_of(self, where: Address) -> str:
        word, _, chat = where.to.rpartition(":")
        if not chat.isalnum() or chat[0] not in "UWCGD":
            raise DeliveryError(
                f"{where.to!r} is no address on Slack: write user:<U…> or channel:<C…>, with the id"
            )
        if word != "user" and chat[0] not in "UW":
            return chat
        if chat not in self._direct:
            keep_newest(self._direct, chat, await self._client.open_direct(chat), DIRECT_MAX)
        return self._direct[chat]


def is_signed(request: WebhookRequest, secret: Secret, now_s: int) -> bool:
    """Whether Slack has signed a request
    (https://docs.slack.dev/authentication/verifying-requests-from-slack), over the bytes as they came."""
    stamp = request.headers.get("x-slack-request-timestamp", "")
    given = request.headers.get("x-slack-signature", "")
    if not re.fullmatch("[0-9]{1,12}", stamp) or abs(now_s - int(stamp)) > SIGNED_S_MAX:
        return False
    signed = b"v0:" + stamp.encode() + b":" + request.body
    wanted = "v0=" + hmac.new(secret.reveal().encode(), signed, sha256).hexdigest()
    return hmac.compare_digest(wanted.encode(), given.encode())
