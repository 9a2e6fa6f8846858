"""One Signal account of a signal-cli daemon.

signal-cli confirms a message to Signal before we have it, and keeps no copy: what it had written to a connection that died
is gone. So each message is accepted before the next is read, however long the store is full, and a lost connection is made again at once; but this one link
delivers at most once, and `channels status` says so.
"""

import base64
import binascii
import logging
from contextlib import aclosing

import anyio
import anyio.abc

from crossclaw.channels.contract import AccountFacts, ChannelAccount, ChannelHost, Piece
from crossclaw.channels.holding import receive_only_copy
from crossclaw.channels.signal.client import SignalRefusal, open_client
from crossclaw.channels.signal.daemon import run_daemon
from crossclaw.channels.signal.manifest import normalize_sender, read_target
from crossclaw.channels.signal.meaning import BAD_PARAMETER, of_refusal
from crossclaw.channels.signal.reading import SignalSelf, SkippedEnvelope, read_envelope
from crossclaw.channels.signal.settings import SignalSettings
from crossclaw.channels.signal.styles import read_styles
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import AccountBroken, ChannelDown, DeliveryError, MediaRefused
from crossclaw.domain.newest import keep_newest

log = logging.getLogger(__name__)

AT_MOST_ONCE = (
    "signal-cli keeps no copy of what it hands over: a message is lost if the connection to it dies"
)
WRITERS_MAX = 2_000  # whose message a reaction is for, and to whom a file belongs


def open_account(settings: SignalSettings, host: ChannelHost) -> "SignalAccount":
    return SignalAccount(settings, host)


class SignalAccount(ChannelAccount):
    def __init__(self, settings: SignalSettings, host: ChannelHost) -> None:
        number = normalize_sender(settings.account or "")
        if number is None or not number.startswith("+"):
            raise AccountBroken(
                f"channels.signal.account is {settings.account!r}; it must be a number such as +4915112345678"
            )
        self._settings, self._host = settings, host
        self._us = SignalSelf(number)
        self._client = open_client(settings.daemon_url, number, host.http)
        self._writers: dict[str, str] = {}
        self._files: dict[str, Address] = {}

    # ── what comes ─────────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async with anyio.create_task_group() as tasks:
            if self._settings.starts_daemon:
                await tasks.start(run_daemon, self._settings, self._us.number, self._client)
            facts = await self.probe()
            async with aclosing(self._client.events()) as events:
                async for params in events:
                    if params is None:
                        await host.connected(facts)
                        task_status.started()
                    else:
                        host.heard()
                        await self._take(params)

    async def _take(self, params: object) -> None:
        inbound = read_envelope(params, self._us, self._host.account_id)
        if isinstance(inbound, SkippedEnvelope):
            log.debug("an envelope is left out: %s", inbound.why)
            return
        self._remember(inbound)
        await receive_only_copy(self._host, inbound)

    def _remember(self, inbound: Inbound) -> None:
        said = f"{inbound.address.to} {inbound.message_id}"
        keep_newest(self._writers, said, inbound.sender, WRITERS_MAX)
        for file in inbound.attachments:
            keep_newest(self._files, file.id, inbound.address, WRITERS_MAX)

    async def probe(self) -> AccountFacts:
        version = await self._client.call("version", {})
        known = await self._client.call("listAccounts", {})
        numbers = [each.get("number") for each in known if isinstance(each, dict)]
        if self._us.number not in numbers:
            raise AccountBroken(
                f"signal-cli has no account {self._us.number}: register or link it there first "
                "(signal-cli link, or register and verify)"
            )
        self._us = SignalSelf(self._us.number, await self._find_uuid())
        name = version.get("version") if isinstance(version, dict) else None
        return AccountFacts(
            id=self._us.number, name=None, detail=f"signal-cli {name}; {AT_MOST_ONCE}"
        )

    async def _find_uuid(self) -> str | None:
        """The account's uuid: linked devices and groups name us by it."""
        params = {"account": self._us.number, "recipient": [self._us.number]}
        try:
            found = await self._client.call("getUserStatus", params)
        except SignalRefusal as refusal:
            self._host.troubled(f"our own id at Signal is not known: {refusal}")
            return None
        first = found[0] if isinstance(found, list) and found else None
        uuid = first.get("uuid") if isinstance(first, dict) else None
        return uuid if isinstance(uuid, str) else None

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        where = self._files.get(what.id)
        if where is None:
            raise MediaRefused("the file's message is not known any more")
        if what.size is not None and what.size > limit:
            raise MediaRefused(f"it has {what.size:,} bytes; {limit:,} are allowed")
        params = {"account": self._us.number, "id": what.id, **self._place(where, one=True)}
        try:
            found = await self._client.call("getAttachment", params)
        except (SignalRefusal, ChannelDown) as error:
            raise MediaRefused(f"the file could not be fetched: {error}") from error
        encoded = found.get("data") if isinstance(found, dict) else found
        try:
            data = base64.b64decode(encoded or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise MediaRefused("signal-cli gave something else than a file") from None
        if len(data) > limit:
            raise MediaRefused(f"it has {len(data):,} bytes; {limit:,} are allowed")
        return data

    # ── what goes ──────────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        return await self._send(piece, piece.address, {})

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        await self._send(piece, where, {"editTimestamp": int(platform_id)})

    async def _send(self, piece: Piece, where: Address, more: dict[str, object]) -> str | None:
        words = read_styles(piece.formatted)
        params = {"account": self._us.number, **self._place(where), "message": words.text, **more}
        if words.ranges:
            params["text-style"] = list(words.ranges)
        if piece.reply_to and (author := self._writers.get(f"{where.to} {piece.reply_to}")):
            params |= {"quoteTimestamp": int(piece.reply_to), "quoteAuthor": _written(author)}
            params["quoteMessage"] = ""
        if piece.media is not None:
            media, encoded = piece.media, base64.b64encode(piece.media.data).decode()
            name = media.name.replace(";", "_").replace(",", "_")
            params["attachment"] = [f"data:{media.mime};filename={name};base64,{encoded}"]
        try:
            result = await self._client.send("send", params)
        except SignalRefusal as refusal:
            raise self._meaning(refusal) from refusal
        timestamp = result.get("timestamp") if isinstance(result, dict) else None
        return str(timestamp) if timestamp else None

    def _meaning(self, refusal: SignalRefusal) -> DeliveryError:
        if refusal.number == BAD_PARAMETER and "account" in str(refusal).lower():
            self._host.troubled(str(refusal))
        return of_refusal(refusal)

    async def show_typing(self, where: Address) -> None:
        params = {"account": self._us.number, **self._place(where)}
        await self._client.call("sendTyping", params)

    async def stop_typing(self, where: Address) -> None:
        params = {"account": self._us.number, **self._place(where), "stop": True}
        await self._client.call("sendTyping", params)

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        author = self._writers.get(f"{where.to} {message_id}")
        if author is None or not message_id.isdigit():
            return
        params = {
            "account": self._us.number,
            **self._place(where),
            "emoji": emoji,
            "targetAuthor": _written(author),
            "targetTimestamp": int(message_id),
            "remove": not on,
        }
        await self._client.call("sendReaction", params)

    def _place(self, where: Address, *, one: bool = False) -> dict[str, object]:
        target = read_target(where.to)
        if target is None:
            raise DeliveryError(f"{where.to!r} is no Signal number, uuid or group")
        kind, _, rest = target.to.partition(":")
        if kind == "group":
            return {"groupId": rest}
        if kind == "username":
            return {"username": [rest]}
        person = _written(target.to)
        return {"recipient": person if one else [person]}


def _written(person: str) -> str:
    """The id in signal-cli's form: a uuid stands alone."""
    return person.removeprefix("uuid:")
