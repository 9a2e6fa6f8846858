"""Discord's REST calls, one method each. Failures are raised by what they mean."""

from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from crossclaw import __version__
from crossclaw.channels.behind import readable
from crossclaw.channels.contract import OutgoingFile
from crossclaw.channels.discord.failures import (
    asking_error,
    delivery_error,
    error_in,
    is_token_refused,
)
from crossclaw.channels.discord.limits import RouteLimits
from crossclaw.channels.discord.payloads import (
    DiscordApplication,
    DiscordChannel,
    DiscordMessage,
    DiscordUser,
    GatewayPlace,
)
from crossclaw.channels.http import ChannelHttp, HttpAnswer, HttpClients, before_anything_is_seen
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
)
from crossclaw.domain.secret import Secret

CDN_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
USER_AGENT = f"DiscordBot (https://pypi.org/project/crossclaw, {__version__})"
"""The user agent in the form that Discord requires; others are rejected before its API."""
NONCE_CHARS = 25
PAGE = 100
"""Messages a request: the most that Discord gives."""

_T = TypeVar("_T")


def nonce_of(delivery_key: str) -> str:
    """The nonce by which Discord recognises a repeated attempt."""
    return blake2b(delivery_key.encode(), digest_size=16).hexdigest()[:NONCE_CHARS]


class DiscordClient:
    def __init__(self, http: HttpClients, api_url: str, token: Secret) -> None:
        headers = {"authorization": f"Bot {token.reveal()}", "user-agent": USER_AGENT}
        self._api: ChannelHttp = http.open(api_url, headers=headers)
        host = urlsplit(api_url).hostname or ""
        own = () if host == "discord.com" else (host,)
        self._files: ChannelHttp = http.open(f"https://{CDN_HOSTS[0]}", hosts=(*CDN_HOSTS, *own))
        """Files lie elsewhere and need no token: none is shown there."""
        self._limits = RouteLimits()

    # ── what may be asked again ────────────────────────────────────────────────────────────────

    async def me(self) -> DiscordUser:
        return await self._ask("GET", "users/@me", DiscordUser)

    async def application(self) -> DiscordApplication:
        return await self._ask("GET", "applications/@me", DiscordApplication)

    async def gateway(self) -> GatewayPlace:
        return await self._ask("GET", "gateway/bot", GatewayPlace)

    async def channel(self, channel_id: str) -> DiscordChannel:
        return await self._ask("GET", f"channels/{channel_id}", DiscordChannel)

    async def messages_after(self, channel_id: str, after: str) -> list[DiscordMessage]:
        """The messages after this id, at most a page, the oldest first."""
        path = f"channels/{channel_id}/messages"
        found = await self._ask(
            "GET", path, list[msgspec.Raw], params={"after": after, "limit": PAGE}
        )
        return sorted(readable(found, DiscordMessage), key=lambda message: int(message.id))

    async def type_in(self, channel_id: str) -> None:
        await self._best_effort("POST", f"channels/{channel_id}/typing")

    async def react(self, channel_id: str, message_id: str, emoji: str, *, on: bool) -> None:
        path = f"channels/{channel_id}/messages/{message_id}/reactions/{quote(emoji, safe='')}/@me"
        await self._best_effort("PUT" if on else "DELETE", path)

    async def download(self, url: str, limit: int) -> bytes:
        if urlsplit(url).scheme != "https":
            raise MediaRefused("the file is not at an https address")
        return await self._files.download(url, limit=limit)

    # ── what people see ────────────────────────────────────────────────────────────────────────

    async def open_direct(self, user_id: str) -> str:
        """The channel of a direct chat: the same one at every call."""
        with before_anything_is_seen():
            answer = await self._send("POST", "users/@me/channels", json={"recipient_id": user_id})
            return _decoded(answer, DiscordChannel).id

    async def create_message(
        self, channel_id: str, body: dict[str, Any], file: OutgoingFile | None
    ) -> str | None:
        path = f"channels/{channel_id}/messages"
        if file is None:
            answer = await self._send("POST", path, json=body)
        else:
            body = {**body, "attachments": [{"id": 0, "filename": file.name}]}
            parts = {"files[0]": (file.name, file.data, file.mime)}
            form = {"payload_json": msgspec.json.encode(body).decode()}
            answer = await self._send("POST", path, form=form, files=parts)
        found = answer.json()
        return str(found["id"]) if isinstance(found, dict) and "id" in found else None

    async def edit_message(self, channel_id: str, message_id: str, body: dict[str, Any]) -> None:
        await self._send("PATCH", f"channels/{channel_id}/messages/{message_id}", json=body)

    # ── one request ────────────────────────────────────────────────────────────────────────────

    async def _send(self, method: str, path: str, **request: Any) -> HttpAnswer:
        route, resource = route_of(method, path)
        await self._limits.wait(route, resource)
        answer = await self._api.send(method, path, **request)
        self._limits.learn(route, resource, answer.status, answer.headers)
        if not answer.is_ok:
            raise delivery_error(answer)
        return answer

    async def _best_effort(self, method: str, path: str) -> None:
        answer = await self._api.ask(method, path, content=b"")
        route, resource = route_of(method, path)
        self._limits.learn(route, resource, answer.status, answer.headers)
        if not answer.is_ok:
            raise ChannelDown(f"Discord refused: {error_in(answer).message}")

    async def _ask(self, method: str, path: str, kind: type[_T], **request: Any) -> _T:
        route, resource = route_of(method, path)
        try:
            await self._limits.wait(route, resource)
        except DeliveryError as limited:
            raise ChannelDown(str(limited), limited.retry_after_s) from None
        answer = await self._api.ask(method, path, **request)
        self._limits.learn(route, resource, answer.status, answer.headers)
        if is_token_refused(answer):
            raise AccountBroken(
                "Discord does not take the token: copy it anew from the Bot page of your application at"
                " https://discord.com/developers/applications"
            )
        if not answer.is_ok:
            raise asking_error(answer)
        return _decoded(answer, kind)


def route_of(method: str, path: str) -> tuple[str, str]:
    """The kind of request, and the channel whose limit counts: each channel has its own."""
    parts = path.split("/")
    resource = parts[1] if parts[0] == "channels" and len(parts) > 1 else ""
    kind = [":id" if part.isdigit() else part for part in parts]
    if "reactions" in kind:
        kind = kind[: kind.index("reactions") + 1]
    return f"{method} {'/'.join(kind)}", resource


def _decoded(answer: HttpAnswer, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise DeliveryUncertain("Discord's answer could not be read") from None
