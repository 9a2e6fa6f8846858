"""The Cloud API over HTTP: sending, files, read receipts, and what its refusals mean.

Codes from https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes (2026-05-15):
Meta asks to go by `code`, not by texts.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

from crossclaw.channels.contract import OutgoingFile
from crossclaw.channels.http import ChannelHttp, HttpAnswer, before_anything_is_seen
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
)

PAIR_RATE_S = 6.0
"""The time between two messages to one person, once the allowed burst is used up."""
OUTSIDE_WINDOW = 131047
_LATER = frozenset({4, 80007, 130429, 131016, 131000, 133004, 2})
_PAIR_RATE = 131056
_GONE = frozenset({131026, 131030})
_BROKEN = frozenset({0, 3, 10, 190, 368, 131005, 131031, 131042, 131045, 133010})
WINDOW_CLOSED = (
    "WhatsApp lets a business answer within 24 hours of a person's last message, and this person has not written since; "
    "they have to write first, or set channels.whatsapp.cloud.template to a template that Meta has approved"
)


class CloudClient:
    def __init__(self, http: ChannelHttp, phone_number_id: str, version: str) -> None:
        self._http = http
        self._number = f"{version}/{phone_number_id}"
        self._version = version
        self._phone_number_id = phone_number_id

    async def about(self) -> dict[str, Any]:
        fields = {"fields": "display_phone_number,verified_name"}
        answer = await self._http.ask("GET", self._number, params=fields)
        found = answer.json()
        if answer.is_ok and isinstance(found, dict):
            return found
        error = failure_of(answer)
        if error.stops_account or answer.status in (400, 404):
            raise AccountBroken(f"WhatsApp refuses this number or token: {error}")
        raise ChannelDown(f"WhatsApp: {error}", error.retry_after_s)

    async def send(self, message: Mapping[str, Any]) -> str | None:
        body = {"messaging_product": "whatsapp", **message}
        answer = await self._http.send("POST", f"{self._number}/messages", json=body)
        found = answer.json()
        if not answer.is_ok:
            raise failure_of(answer)
        try:
            return str(found["messages"][0]["id"])
        except (KeyError, IndexError, TypeError):
            return None

    async def upload(self, media: OutgoingFile) -> str:
        """Uploads a file. Nobody sees it, so it may be repeated."""
        form = {"messaging_product": "whatsapp", "type": media.mime}
        files = {"file": (media.name, media.data, media.mime)}
        with before_anything_is_seen():
            answer = await self._http.send(
                "POST", f"{self._number}/media", form=form, files=files, timeout_s=120.0
            )
            if not answer.is_ok:
                raise failure_of(answer)
        found = answer.json()
        if not isinstance(found, dict) or not found.get("id"):
            raise DeliveryError("WhatsApp did not say where the file is", retryable=True)
        return str(found["id"])

    async def download(self, file_id: str, limit: int) -> bytes:
        """Downloads a file, whose address is valid for five minutes. It must have the checksum that the
        webhook gave."""
        media_id, _, checksum = file_id.partition("#")
        params = {"phone_number_id": self._phone_number_id}
        try:
            answer = await self._http.ask("GET", f"{self._version}/{media_id}", params=params)
        except ChannelDown as down:
            raise MediaRefused(str(down)) from down
        found = answer.json()
        if not answer.is_ok or not isinstance(found, dict) or not found.get("url"):
            raise MediaRefused(f"WhatsApp does not give the file: {failure_of(answer)}")
        size = found.get("file_size")
        if isinstance(size, int) and size > limit:
            raise MediaRefused(f"it has {size:,} bytes; {limit:,} are allowed")
        data = await self._http.download(str(found["url"]), limit=limit)
        if checksum and not _is_checksum_of(checksum, data):
            raise MediaRefused("the file is not the one that was announced: its checksum differs")
        return data


def _is_checksum_of(checksum: str, data: bytes) -> bool:
    """Whether the checksum fits; Meta writes it in base64 in webhooks and in hexadecimal elsewhere."""
    made = hashlib.sha256(data).digest()
    if checksum.lower() == made.hex():
        return True
    try:
        return base64.b64decode(checksum, validate=True) == made
    except (binascii.Error, ValueError):
        return False


def failure_of(answer: HttpAnswer) -> DeliveryError:
    body = answer.json()
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        if answer.status >= 500:
            return DeliveryUncertain(f"WhatsApp answered with status {answer.status}")
        if answer.status == 429:
            return DeliveryError(
                "too many requests", retryable=True, retry_after_s=answer.retry_after_s
            )
        return DeliveryError(f"WhatsApp answered with status {answer.status}")
    details = error.get("error_data")
    more = details.get("details") if isinstance(details, dict) else None
    code = error.get("code")
    return meaning_of(
        code if isinstance(code, int) else -1,
        str(more or error.get("message") or ""),
        status=answer.status,
        retry_after_s=answer.retry_after_s,
    )


def meaning_of(
    code: int, said: str, *, status: int = 200, retry_after_s: float | None = None
) -> DeliveryError:
    """The delivery error for a code. The same codes come as an answer and, later, in a status."""
    text = f"{said or 'refused'} (WhatsApp {code})"
    if code == OUTSIDE_WINDOW:
        return DeliveryError(f"{WINDOW_CLOSED} (WhatsApp {code})")
    if code == _PAIR_RATE:
        return DeliveryError(
            text, retryable=True, retry_after_s=max(retry_after_s or 0, PAIR_RATE_S)
        )
    if code in _LATER or status == 429:
        return DeliveryError(text, retryable=True, retry_after_s=retry_after_s)
    if code in _GONE:
        return DeliveryError(text, chat_gone=True)
    if code in _BROKEN or 200 <= code <= 299 or status == 401:
        return DeliveryError(text, retryable=True, stops_account=True)
    if status >= 500:
        return DeliveryUncertain(text)
    return DeliveryError(text)
