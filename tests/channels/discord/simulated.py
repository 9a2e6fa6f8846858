"""Discord by somebody else: `simcord` 3.2.1 (SilentHacks, MIT; read 2026-11-16), a simulator for bots on discord.py that lives in one process.

Its REST routes answer our requests, with its own rules about forms, permissions and codes, and refuse every field that it does not know;
its event payloads come over our own fake of the gateway socket, since it has none. What it does not have is asked of our own fake
elsewhere: nonces (it takes them and forgets them), rate limits, sessions and resumes, files at Discord's own addresses, `gateway/bot`,
`applications/@me`.
"""

import io
import re
from typing import Any

import msgspec

from tests.channels.discord.fake import TOKEN
from tests.channels.discord.gateway import FakeGateway
from tests.channels.discord.world import DiscordWorld, Person
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of
from tests.channels.multipart import read_form


class SentFile(msgspec.Struct):
    """A file as discord.py hands it over."""

    filename: str
    fp: io.BytesIO
    description: str | None = None


class SimulatedDiscord(FakeHttpService):
    def __init__(self, now_ms: Any) -> None:
        super().__init__()
        from simcord.backend import Backend  # noqa: PLC0415  only make channels installs it
        from simcord.backend.errors import BackendError  # noqa: PLC0415  only make channels installs it
        from simcord.http import client, router  # noqa: PLC0415  only make channels installs it

        assert client, "importing it enters the routes"
        self.backend = Backend()
        self._dispatch, self._refusal = router.dispatch, BackendError
        self._gaps = (router.RouteNotImplemented, router.UnsupportedField)
        bot = self.backend.bot_user
        world = DiscordWorld(now_ms)
        world.bot = Person(str(bot.id), bot.name, bot=True)
        self.gateway = FakeGateway(world, lambda: TOKEN)
        self.backend.subscribers.append(self._happened)

    def _happened(self, name: str, payload: Any) -> None:
        self.gateway.tell_all(name, msgspec.json.decode(msgspec.json.encode(dict(payload))))

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        path = asked.path.removeprefix("/api/v10")
        if path == "/gateway/bot":
            limit = {"total": 1000, "remaining": 999, "reset_after": 1, "max_concurrency": 1}
            return json_of({"url": "wss://gateway.discord.gg", "shards": 1, "session_start_limit": limit})  # fmt: skip
        body, files = _form(asked)
        try:
            found = self._dispatch(
                self.backend, asked.method, path, json=body, params=dict(asked.query), files=files
            )
        except self._gaps as gap:
            self.complaints.append(str(gap))
            raise
        except self._refusal as refused:
            return json_of(refused.to_json(), refused.status)
        return FakeAnswer(204) if found is None else json_of(found)

    def texts(self, channel: Any) -> list[str]:
        said = self.backend.messages[channel.id].values()
        return [each.content for each in said if each.author_id == self.backend.bot_user.id]


def _form(asked: AskedOfFake) -> tuple[Any, list[SentFile]]:
    if not asked.headers.get("content-type", "").startswith("multipart/form-data"):
        return (asked.json() if asked.body else None), []
    fields, files = read_form(asked)
    body = msgspec.json.decode(fields["payload_json"])
    names = {f"files[{each['id']}]": each["filename"] for each in body["attachments"]}
    assert all(re.fullmatch(r"files\[\d\]", name) for name in files)
    return body, [SentFile(names[name], io.BytesIO(data)) for name, data in files.items()]
