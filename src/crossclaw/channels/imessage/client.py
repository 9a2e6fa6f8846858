"""BlueBubbles' REST interface, and what its refusals mean. Its password goes with every request, in the address, because
the server takes it nowhere else: addresses are never logged."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from crossclaw.channels.contract import OutgoingFile
from crossclaw.channels.http import ChannelHttp, HttpAnswer
from crossclaw.channels.imessage.reading import BlueMessage
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
)
from crossclaw.domain.secret import Secret

SEND_S = 120.0  # the server waits until the Mac has sent it
PAGE = 100


class BlueBubblesClient:
    def __init__(self, http: ChannelHttp, password: Secret) -> None:
        self._http = http
        self._password = password

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._http.ask(method, f"api/v1/{path}", json=body, params=self._params())
        return self._data(answer)

    def _data(self, answer: HttpAnswer) -> Any:
        found = answer.json()
        if answer.is_ok and isinstance(found, dict):
            return found.get("data")
        if answer.status in (401, 403):
            raise AccountBroken("the BlueBubbles server refuses the password")
        raise ChannelDown(f"the BlueBubbles server answered with status {answer.status}")

    async def newest_row(self) -> int:
        rows = await self._query({"limit": 1, "sort": "DESC"})
        return max((row.row or 0 for row in rows), default=0)

    async def rows_after(self, row: int) -> list[BlueMessage]:
        """The messages that the Mac's database got since, oldest first; at most a page, so ask again until
        there is none."""
        where = {"statement": "message.ROWID > :row", "args": {"row": row}}
        body = {"limit": PAGE, "sort": "ASC", "where": [where]}
        return sorted(await self._query(body), key=lambda each: each.row or 0)

    async def _query(self, body: dict[str, Any]) -> list[BlueMessage]:
        raw = await self.ask("POST", "message/query", {**body, "with": ["chat", "attachment"]})
        found: list[BlueMessage] = []
        for each in raw if isinstance(raw, list) else ():
            try:
                found.append(msgspec.convert(each, BlueMessage))
            except msgspec.ValidationError:
                row = each.get("originalROWID") if isinstance(each, dict) else None
                if isinstance(row, int):  # it is passed over, and must not come again for ever
                    found.append(BlueMessage(guid="", row=row, is_from_me=True))
        return found

    async def has_chat(self, guid: str) -> bool:
        answer = await self._http.ask(
            "GET", f"api/v1/chat/{path_step(guid)}", params=self._params()
        )
        if answer.status == 404:
            return False
        self._data(answer)
        return True

    async def is_from_me(self, guid: str) -> bool:
        answer = await self._http.ask(
            "GET", f"api/v1/message/{path_step(guid)}", params=self._params()
        )
        found = answer.json()
        data = found.get("data") if answer.is_ok and isinstance(found, dict) else None
        return isinstance(data, dict) and data.get("isFromMe") is True

    async def download(self, guid: str, limit: int) -> bytes:
        where = f"api/v1/attachment/{path_step(guid)}/download?password={quote(self._password.reveal(), safe='')}"
        return await self._http.download(where, limit=limit)

    # ── sending ────────────────────────────────────────────────────────────────────────────────

    async def send(self, path: str, body: Mapping[str, Any], method: str = "POST") -> str | None:
        answer = await self._http.send(
            method, f"api/v1/{path}", json=body, params=self._params(), timeout_s=SEND_S
        )
        return _guid_of(answer)

    async def send_file(self, media: OutgoingFile, fields: Mapping[str, str]) -> str | None:
        files = {"attachment": (media.name, media.data, media.mime)}
        answer = await self._http.send(
            "POST",
            "api/v1/message/attachment",
            form={**fields, "name": media.name},
            files=files,
            params=self._params(),
            timeout_s=SEND_S,
        )
        return _guid_of(answer)

    def _params(self) -> dict[str, str]:
        return {"password": self._password.reveal()}


def path_step(guid: str) -> str:
    return quote(guid, safe="")


def _guid_of(answer: HttpAnswer) -> str | None:
    body = answer.json()
    body = body if isinstance(body, dict) else {}
    if answer.is_ok:
        data = body.get("data")
        guid = data.get("guid") if isinstance(data, dict) else None
        return str(guid) if guid else None
    error = body.get("error")
    said = str(error.get("message") if isinstance(error, dict) else "") or str(
        body.get("message") or ""
    )
    text = f"{said or 'refused'} (BlueBubbles {answer.status})"
    match answer.status:
        case 401 | 403:
            raise DeliveryError(text, retryable=True, stops_account=True)
        case 404:
            raise DeliveryError(text, chat_gone=True)
        case 429:
            raise DeliveryError(text, retryable=True, retry_after_s=answer.retry_after_s)
        case status if status >= 500:
            raise DeliveryUncertain(text)
    raise DeliveryError(text)
