"""The homeserver's calls that we need: sync, send by transaction id, rooms, media, keys.

A refusal is a MatrixRefusal with its status and code; what never got through is raised as in channels/http.
"""

import secrets
from typing import Any, TypeVar
from urllib.parse import quote

import anyio.to_thread
import msgspec

from crossclaw.channels.http import ChannelHttp, HttpAnswer, seconds_in
from crossclaw.channels.matrix.events import (
    EventContent,
    MatrixEvent,
    MessagesPage,
    SyncAnswer,
    read_events,
    text_in,
)
from crossclaw.domain.errors import CrossclawError

T = TypeVar("T")

POLL_S = 30.0  # how long the homeserver holds a sync when nothing happens
ANSWER_S = 60.0
UPLOAD_S = 300.0
SYNC_BYTES_MAX = 128 * 2**20  # the first sync has the state of every room
BESIDE_BYTES = 1 << 18  # a larger answer is decoded in a thread
SYNC_EVENTS = 100
PAGE_EVENTS = 100

_ROOMS = "/_matrix/client/v3/rooms/"
_ACCOUNT_DATA = {"types": ["m.direct"]}
FILTER = {
    "presence": {"types": []},
    "account_data": _ACCOUNT_DATA,
    "room": {
        "account_data": {"types": []},
        "ephemeral": {"types": []},
        "state": {"lazy_load_members": True},
        "timeline": {"limit": SYNC_EVENTS, "lazy_load_members": True},
    },
}
FIRST_FILTER = FILTER | {
    "room": {**FILTER["room"], "timeline": {"limit": 1, "types": []}},  # type: ignore[dict-item]
}


class MatrixRefusal(CrossclawError):
    """The homeserver answered with an error."""

    def __init__(
        self,
        status: int,
        errcode: str,
        text: str,
        retry_after_s: float | None = None,
        *,
        soft: bool = False,
    ) -> None:
        super().__init__(f"the homeserver refused: {errcode or status} {text}".strip()[:500])
        self.status = status
        self.errcode = errcode
        self.retry_after_s = retry_after_s
        self.soft = soft
        """Whether logging in again is enough."""


class MatrixClient:
    def __init__(self, http: ChannelHttp, token: str = "") -> None:
        self._http = http
        self.token = token

    # ── who we are ─────────────────────────────────────────────────────────────────────────────

    async def login(
        self, user_id: str, password: str, device_id: str | None, name: str | None
    ) -> str:
        """Answers the device. The same device again keeps its transaction ids and its keys."""
        body: EventContent = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user_id},
            "password": password,
        }
        body |= {"device_id": device_id} if device_id else {}
        body |= {"initial_device_display_name": name} if name else {}
        answer = await self._ask("POST", "/_matrix/client/v3/login", body)
        self.token = str(answer["access_token"])
        return str(answer["device_id"])

    async def whoami(self) -> EventContent:
        return await self._ask("GET", "/_matrix/client/v3/account/whoami")

    async def display_name(self, user_id: str) -> str | None:
        path = f"/_matrix/client/v3/profile/{quote(user_id, safe='')}/displayname"
        found = await self._find("GET", path)
        name = (found or {}).get("displayname")
        return name if isinstance(name, str) else None

    # ── what happens ───────────────────────────────────────────────────────────────────────────

    async def sync(self, since: str | None) -> SyncAnswer:
        chosen = FILTER if since else FIRST_FILTER
        query = {
            "filter": msgspec.json.encode(chosen).decode(),
            "timeout": str(int(POLL_S * 1000) if since else 0),
            "set_presence": "online",
        }
        query |= {"since": since} if since else {}
        answer = await self._http.ask(
            "GET",
            "/_matrix/client/v3/sync",
            params=query,
            headers=self._headers(),
            timeout_s=POLL_S + ANSWER_S,
            limit=SYNC_BYTES_MAX,
        )
        return await _decode(_accepted(answer), SyncAnswer)

    async def messages_before(self, room_id: str, token: str, until: str | None) -> MessagesPage:
        """Messages backwards from one token of a sync, to another if it is given."""
        query = {"dir": "b", "from": token, "limit": str(PAGE_EVENTS)}
        query |= {"to": until} if until else {}
        answer = await self._http.ask(
            "GET", _room(room_id, "messages"), params=query, headers=self._headers()
        )
        return await _decode(_accepted(answer), MessagesPage)

    async def find_event(self, room_id: str, event_id: str) -> MatrixEvent | None:
        found = await self._find("GET", _room(room_id, "event", event_id))
        return None if found is None else msgspec.convert(found, MatrixEvent)

    # ── rooms ──────────────────────────────────────────────────────────────────────────────────

    async def join(self, room_id: str) -> str:
        path = f"/_matrix/client/v3/join/{quote(room_id, safe='')}"
        return str((await self._ask("POST", path, {}))["room_id"])

    async def leave(self, room_id: str) -> None:
        await self._ask("POST", _room(room_id, "leave"), {})

    async def create_direct(self, user_id: str, *, encrypted: bool) -> str:
        body: EventContent = {
            "is_direct": True,
            "invite": [user_id],
            "preset": "trusted_private_chat",
        }
        if encrypted:
            content = {"algorithm": "m.megolm.v1.aes-sha2"}
            body["initial_state"] = [
                {"type": "m.room.encryption", "state_key": "", "content": content}
            ]
        answer = await self._ask("POST", "/_matrix/client/v3/createRoom", body)
        return str(answer["room_id"])

    async def find_alias(self, alias: str) -> str | None:
        path = f"/_matrix/client/v3/directory/room/{quote(alias, safe='')}"
        found = await self._find("GET", path)
        return None if found is None else str(found["room_id"])

    async def members(self, room_id: str) -> dict[str, str]:
        """The people in the room or invited to it, with their membership."""
        answer = await self._http.ask("GET", _room(room_id, "members"), headers=self._headers())
        found = await _decode(_accepted(answer), MessagesPage)
        return {
            event.state_key: event.membership
            for event in read_events(found.chunk)
            if event.state_key and event.membership in ("join", "invite")
        }

    async def find_state(self, room_id: str, kind: str) -> EventContent | None:
        return await self._find("GET", f"{_room(room_id, 'state', kind)}/")

    async def find_account_data(self, user_id: str, kind: str) -> EventContent | None:
        return await self._find("GET", _account_data(user_id, kind))

    async def put_account_data(self, user_id: str, kind: str, content: EventContent) -> None:
        await self._ask("PUT", _account_data(user_id, kind), content)

    # ── words ──────────────────────────────────────────────────────────────────────────────────

    async def send(self, room_id: str, kind: str, key: str, content: EventContent) -> str:
        """The same key again is the same event, whatever the content: the homeserver answers the first one's id."""
        path = _room(room_id, "send", kind, key)
        answer = await self._http.send("PUT", path, json=content, headers=self._headers())
        return str((await _decode(_accepted(answer), dict[str, Any]))["event_id"])

    async def redact(self, room_id: str, event_id: str) -> None:
        path = _room(room_id, "redact", event_id, secrets.token_urlsafe(12))
        await self._ask("PUT", path, {})

    async def show_typing(self, room_id: str, user_id: str, for_s: float) -> None:
        body = {"typing": True, "timeout": int(for_s * 1000)} if for_s else {"typing": False}
        await self._ask("PUT", _room(room_id, "typing", user_id), body)

    # ── files ──────────────────────────────────────────────────────────────────────────────────

    async def upload(self, data: bytes, mime: str, name: str) -> str:
        answer = await self._http.ask(
            "POST",
            "/_matrix/media/v3/upload",
            content=data,
            params={"filename": name},
            headers=self._headers() | {"content-type": mime},
            timeout_s=UPLOAD_S,
        )
        return str(msgspec.json.decode(_accepted(answer))["content_uri"])

    async def download(self, uri: str, limit: int) -> bytes:
        server, _, media_id = uri.removeprefix("mxc://").partition("/")
        where = f"{quote(server, safe='')}/{quote(media_id, safe='')}"
        path = f"/_matrix/client/v1/media/download/{where}"
        return await self._http.download(path, limit=limit, headers=self._headers())

    # ── keys ───────────────────────────────────────────────────────────────────────────────────

    async def post_keys(self, what: str, body: EventContent) -> EventContent:
        return await self._ask("POST", f"/_matrix/client/v3/keys/{what}", body)

    async def send_to_devices(self, kind: str, key: str, messages: EventContent) -> None:
        path = f"/_matrix/client/v3/sendToDevice/{quote(kind, safe='')}/{quote(key, safe='')}"
        await self._ask("PUT", path, messages)

    # ── one call ───────────────────────────────────────────────────────────────────────────────

    async def _ask(self, method: str, path: str, body: EventContent | None = None) -> EventContent:
        answer = await self._http.ask(method, path, json=body, headers=self._headers())
        return await _decode(_accepted(answer), dict[str, Any])

    async def _find(self, method: str, path: str) -> EventContent | None:
        try:
            return await self._ask(method, path)
        except MatrixRefusal as refusal:
            if refusal.status == 404:
                return None
            raise

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


async def _decode(raw: bytes, kind: type[T]) -> T:
    try:
        if len(raw) > BESIDE_BYTES:
            return await anyio.to_thread.run_sync(lambda: msgspec.json.decode(raw, type=kind))
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise MatrixRefusal(502, "", f"its answer is not valid: {error}") from None


def _room(room_id: str, *parts: str) -> str:
    return _ROOMS + "/".join(quote(part, safe="") for part in (room_id, *parts))


def _account_data(user_id: str, kind: str) -> str:
    return f"/_matrix/client/v3/user/{quote(user_id, safe='')}/account_data/{kind}"


def _accepted(answer: HttpAnswer) -> bytes:
    if answer.is_ok:
        return answer.body
    said = answer.json()
    body = said if isinstance(said, dict) else {}
    wait_ms = seconds_in(body.get("retry_after_ms"))
    raise MatrixRefusal(
        answer.status,
        text_in(body, "errcode") or "",
        text_in(body, "error") or "",
        answer.retry_after_s if wait_ms is None else wait_ms / 1000,
        soft=body.get("soft_logout") is True,
    )
