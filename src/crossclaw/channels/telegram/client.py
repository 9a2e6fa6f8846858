"""The Bot API over HTTP: a handful of methods, and what its refusals mean.

A client of our own, because two things decide whether messages are lost or doubled, and the libraries hide both: the
offset is confirmed by the next call, so that call may only be made after the update is stored; and a send that failed
may be repeated only if the request had not left (decision 20). Refusals are told apart by their numbers; a
description is looked at only inside of a 400, which has no number of its own for each case.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from crossclaw.channels.contract import OutgoingFile
from crossclaw.channels.http import ChannelHttp, HttpAnswer, seconds_in
from crossclaw.channels.telegram.updates import KINDS, TelegramUser
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
)
from crossclaw.domain.secret import Secret
from crossclaw.domain.texts import text_or_json

POLL_S = 30
"""How long Telegram keeps a question for updates open. Its own limit is 50; a shorter one notices a dead
connection sooner."""
POLL_MARGIN_S = 10.0  # until its answer must be there
AFTER_CONFLICT_S = POLL_S + 5.0
"""Two programs that ask for the updates of one bot end each other's question: whoever asks again sooner than the other's
question ends keeps that up for ever."""
UPDATES_MAX = 100
DOWNLOAD_BYTES_MAX = 20 * 2**20  # the Bot API gives bots no larger files


class BotRefusal(msgspec.Struct, frozen=True):
    """The Bot API's answer `ok: false`."""

    status: int
    description: str = ""
    retry_after_s: float | None = None
    moved_to: str | None = None

    @property
    def is_not_modified(self) -> bool:
        return self.status == 400 and "message is not modified" in self.description

    @property
    def is_chat_gone(self) -> bool:
        return self.status == 403 or (
            self.status == 400 and "chat not found" in self.description.lower()
        )


class BotCallRefused(CrossclawError):
    """A call was refused; `refusal` says how."""

    def __init__(self, method: str, refusal: BotRefusal) -> None:
        said = refusal.description or f"status {refusal.status}"
        super().__init__(f"Telegram refused {method}: {said}")
        self.refusal = refusal


class TelegramClient:
    def __init__(self, http: ChannelHttp, token: Secret) -> None:
        self._http = http
        self._token = token

    # ── reading: may be repeated ───────────────────────────────────────────────────────────────

    async def get_me(self) -> TelegramUser:
        try:
            return msgspec.convert(await self._ask("getMe", {}), TelegramUser)
        except msgspec.ValidationError as error:
            raise ChannelDown(f"Telegram's answer to getMe is not understood: {error}") from None

    async def delete_webhook(self) -> None:
        """Removes the webhook; waiting updates are kept."""
        await self._ask("deleteWebhook", {"drop_pending_updates": False})

    async def set_webhook(self, url: str, secret: Secret) -> None:
        """Sets the webhook with one call at a time: with more, two messages of one chat can overtake each other."""
        params = {
            "url": url,
            "secret_token": secret.reveal(),
            "allowed_updates": KINDS,
            "max_connections": 1,
        }
        await self._ask("setWebhook", params)

    async def get_updates(self, offset: int | None, wait_s: int = POLL_S) -> list[msgspec.Raw]:
        """Confirms everything before `offset`, then waits for what comes."""
        params = {"timeout": wait_s, "limit": UPDATES_MAX, "allowed_updates": KINDS}
        if offset is not None:
            params["offset"] = offset
        raw = await self._ask("getUpdates", params, timeout_s=wait_s + POLL_MARGIN_S)
        return [msgspec.Raw(msgspec.json.encode(update)) for update in raw]

    async def download(self, file_id: str, limit: int) -> bytes:
        try:
            found = await self._ask("getFile", {"file_id": file_id})
        except (BotCallRefused, ChannelDown) as error:
            raise MediaRefused(str(error)) from error
        path = found.get("file_path") if isinstance(found, dict) else None
        if not path:
            raise MediaRefused("Telegram does not give this file to bots")
        where = f"file/bot{self._token.reveal()}/{path}"
        return await self._http.download(where, limit=min(limit, DOWNLOAD_BYTES_MAX))

    async def _ask(
        self, method: str, params: Mapping[str, Any], timeout_s: float | None = None
    ) -> Any:
        answer = await self._http.ask("POST", self._path(method), json=params, timeout_s=timeout_s)
        result, refusal = _read(answer)
        if refusal is None:
            return result
        match refusal.status:
            case 401 | 404:
                raise AccountBroken(
                    "Telegram does not know this bot token; ask @BotFather for the right one"
                )
            case 409:
                raise ChannelDown(
                    f"another program receives this bot's messages ({refusal.description})",
                    AFTER_CONFLICT_S,
                )
            case 429:
                raise ChannelDown(refusal.description, refusal.retry_after_s)
            case status if status >= 500:
                raise ChannelDown(f"Telegram is in trouble (status {status})")
        raise BotCallRefused(method, refusal)

    # ── sending: with an effect ────────────────────────────────────────────────────────────────

    async def send(self, method: str, params: Mapping[str, Any]) -> Any:
        """Makes a call with an effect that people see. BotCallRefused for a 400, so that the caller can
        choose; other errors are the outbox's."""
        answer = await self._http.send("POST", self._path(method), json=params)
        return self._result(method, answer)

    async def upload(
        self, method: str, field: str, media: OutgoingFile, params: Mapping[str, Any]
    ) -> Any:
        form = {name: text_or_json(value) for name, value in params.items()}
        files = {field: (media.name, media.data, media.mime)}
        answer = await self._http.send("POST", self._path(method), form=form, files=files)
        return self._result(method, answer)

    def _result(self, method: str, answer: HttpAnswer) -> Any:
        result, refusal = _read(answer)
        if refusal is None:
            return result
        if refusal.status == 400 and not refusal.moved_to and not refusal.is_chat_gone:
            raise BotCallRefused(method, refusal)
        raise delivery_error(refusal)

    def _path(self, method: str) -> str:
        return f"bot{self._token.reveal()}/{method}"


def delivery_error(refusal: BotRefusal) -> DeliveryError:
    said = refusal.description or f"status {refusal.status}"
    if refusal.moved_to:
        return DeliveryError(said, retryable=True, moved_to=refusal.moved_to)
    if refusal.is_chat_gone:
        return DeliveryError(said, chat_gone=True)
    match refusal.status:
        case 401 | 404:
            return DeliveryError(said, retryable=True, stops_account=True)
        case 429:
            return DeliveryError(said, retryable=True, retry_after_s=refusal.retry_after_s)
        case status if status >= 500:
            return DeliveryUncertain(f"Telegram answered with status {status}")
    return DeliveryError(said)


def _read(answer: HttpAnswer) -> tuple[Any, BotRefusal | None]:
    body = answer.json()
    if not isinstance(body, dict):
        # Not the Bot API but something before it: a proxy's page. A 2xx of it says nothing about the effect.
        return None, BotRefusal(answer.status if answer.status >= 300 else 502)
    if body.get("ok") is True:
        return body.get("result"), None
    code = body.get("error_code")
    more = body.get("parameters")
    more = more if isinstance(more, dict) else {}
    moved = more.get("migrate_to_chat_id")
    return None, BotRefusal(
        code if isinstance(code, int) else answer.status,
        str(body.get("description") or ""),
        seconds_in(more.get("retry_after")) or answer.retry_after_s,
        str(moved) if isinstance(moved, int) else None,
    )
