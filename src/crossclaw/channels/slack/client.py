"""Slack's Web API, one method each. Failures are raised by what they mean."""

import unicodedata
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from crossclaw.channels.behind import readable
from crossclaw.channels.contract import OutgoingFile
from crossclaw.channels.http import ChannelHttp, HttpAnswer, HttpClients, before_anything_is_seen
from crossclaw.channels.slack.failures import answer_in, asking_error, delivery_error, error_in
from crossclaw.channels.slack.payloads import SlackIdentity, SlackMessage
from crossclaw.domain.errors import ChannelDown, DeliveryError, DeliveryUncertain, MediaRefused
from crossclaw.domain.secret import Secret

JSON_TYPE = "application/json; charset=utf-8"  # without the charset Slack warns in every answer
FILE_HOSTS = ("files.slack.com", "*.slack.com", "slack-files.com", "*.slack-files.com")
METADATA = "crossclaw_delivery"
LOOK_BACK = 20
"""Messages that are searched for one whose outcome is unknown."""
PAGE = 100

EMOJI = {
    "👀": "eyes",
    "✅": "white_check_mark",
    "❌": "x",
    "👍": "+1",
    "👎": "-1",
    "❤": "heart",
    "🎉": "tada",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⚠": "warning",
    "💯": "100",
    "😂": "joy",
    "🙏": "pray",
}
"""Slack's names of reactions; these differ from Unicode's."""

_T = TypeVar("_T")


def emoji_name(emoji: str) -> str:
    """`👀` → `eyes`. What is already a name stays one."""
    bare = emoji.strip().strip(":").rstrip("\ufe0f")
    if bare.isascii():
        return bare
    try:
        return EMOJI.get(bare) or unicodedata.name(bare[0]).lower().replace(" ", "_")
    except ValueError:
        return bare


class SlackClient:
    def __init__(
        self, http: HttpClients, api_url: str, bot_token: Secret, app_token: Secret | None
    ) -> None:
        self._bot = {"authorization": f"Bearer {bot_token.reveal()}"}
        self._app = {"authorization": f"Bearer {app_token.reveal()}"} if app_token else {}
        self._api: ChannelHttp = http.open(api_url)
        host = urlsplit(api_url).hostname or ""
        own = () if host == "slack.com" else (host,)
        self._files: ChannelHttp = http.open(
            f"https://{FILE_HOSTS[0]}", headers=self._bot, hosts=(*FILE_HOSTS, *own)
        )
        self._uploads: ChannelHttp = http.open(f"https://{FILE_HOSTS[0]}", hosts=FILE_HOSTS)

    # ── what may be asked again ────────────────────────────────────────────────────────────────

    async def who_am_i(self) -> SlackIdentity:
        return await self._ask("auth.test", {}, SlackIdentity)

    async def open_socket(self) -> str:
        """The address of one Socket Mode connection, with its ticket."""
        answer = await self._api.ask("POST", "apps.connections.open", headers=self._app, form={})
        if error := error_in(answer):
            raise asking_error(error, answer)
        url = answer_in(answer).get("url")
        if not isinstance(url, str):
            raise ChannelDown("Slack gave no address for a connection")
        return url

    async def history(self, channel: str, oldest: str) -> list[SlackMessage]:
        """The messages after this time, at most a page, the oldest first."""
        form = {"channel": channel, "oldest": oldest, "limit": str(PAGE)}
        found = await self._ask("conversations.history", form, _History)
        return sorted(readable(found.messages, SlackMessage), key=lambda message: message.ts)

    async def react(self, channel: str, ts: str, emoji: str, *, on: bool) -> None:
        body = {"channel": channel, "timestamp": ts, "name": emoji_name(emoji)}
        await self._ask(f"reactions.{'add' if on else 'remove'}", body, dict[str, Any])

    async def download(self, url: str, limit: int) -> bytes:
        """Downloads a file. Slack answers who may not see it with a login page and status 200."""
        if urlsplit(url).scheme != "https":
            raise MediaRefused("the file is not at an https address")
        data = await self._files.download(url, limit=limit)
        if data[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
            raise MediaRefused(
                "Slack showed its login page instead of the file: does the app have files:read?"
            )
        return data

    # ── what people see ────────────────────────────────────────────────────────────────────────

    async def open_direct(self, user_id: str) -> str:
        """The channel of a direct chat: the same one at every call."""
        form = {"users": user_id}
        channel = (await self._prepare("conversations.open", form)).get("channel")
        if not isinstance(channel, dict) or "id" not in channel:
            raise DeliveryError("Slack opened no direct chat")
        return str(channel["id"])

    async def post(self, body: dict[str, Any], delivery_key: str) -> str | None:
        """Posts a message. If the answer is lost, one look at the chat may still find it."""
        payload = {"event_type": METADATA, "event_payload": {"key": delivery_key}}
        try:
            answer = await self._send("chat.postMessage", {**body, "metadata": payload})
        except DeliveryUncertain:
            if ts := await self._find(body, delivery_key):
                return ts
            raise
        ts = answer_in(answer).get("ts")
        return ts if isinstance(ts, str) else None

    async def update(self, channel: str, ts: str, text: str) -> None:
        await self._send("chat.update", {"channel": channel, "ts": ts, "text": text})

    async def upload(self, body: dict[str, Any], file: OutgoingFile) -> str | None:
        """Uploads a file in three requests; nobody sees it before the last one."""
        form = {"filename": file.name, "length": str(len(file.data))}
        where = await self._prepare("files.getUploadURLExternal", form)
        with before_anything_is_seen():
            put = await self._uploads.send("POST", str(where.get("upload_url")), content=file.data)
        if not put.is_ok:
            raise DeliveryError(
                f"Slack did not take the file: status {put.status}", retryable=put.status >= 500
            )
        done = {
            "files": [{"id": where.get("file_id"), "title": file.name}],
            "channel_id": body["channel"],
            "initial_comment": body["text"],
        }
        thread = {"thread_ts": body["thread_ts"]} if body.get("thread_ts") else {}
        await self._send("files.completeUploadExternal", {**done, **thread})
        return None

    async def _find(self, body: dict[str, Any], delivery_key: str) -> str | None:
        form = {
            "channel": body["channel"],
            "limit": str(LOOK_BACK),
            "include_all_metadata": "true",
        }
        method = "conversations.history"
        if thread := body.get("thread_ts"):
            method, form = "conversations.replies", {**form, "ts": thread}
        try:
            found = await self._ask(method, form, _History)
        except (ChannelDown, DeliveryError):
            return None
        for message in readable(found.messages, SlackMessage):
            payload = (message.metadata or {}).get("event_payload")
            if isinstance(payload, dict) and payload.get("key") == delivery_key:
                return message.ts
        return None

    # ── one request ────────────────────────────────────────────────────────────────────────────

    async def _prepare(self, method: str, form: dict[str, str]) -> dict[str, Any]:
        with before_anything_is_seen():
            answer = await self._api.send("POST", method, headers=self._bot, form=form)
            if error := error_in(answer):
                raise delivery_error(error, answer)
            return answer_in(answer)

    async def _send(self, method: str, body: dict[str, Any]) -> HttpAnswer:
        headers = {**self._bot, "content-type": JSON_TYPE}
        answer = await self._api.send("POST", method, headers=headers, json=body)
        if error := error_in(answer):
            raise delivery_error(error, answer)
        return answer

    async def _ask(self, method: str, form: dict[str, str], kind: type[_T]) -> _T:
        answer = await self._api.ask("POST", method, headers=self._bot, form=form)
        if error := error_in(answer):
            raise asking_error(error, answer)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ChannelDown(f"Slack's answer to {method} could not be read") from None


class _History(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw] = []
