"""Discord for the contract of channels: a person's hands and eyes on `FakeDiscord`."""

from collections.abc import Callable
from typing import Any

import anyio

from crossclaw.channels.contract import ChannelAccount, ChannelHost, GivenChannel
from crossclaw.channels.discord.account import DiscordAccount
from crossclaw.channels.discord.manifest import MANIFEST
from crossclaw.channels.discord.settings import DiscordSettings, GuildSettings
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.discord.fake import TOKEN, FakeDiscord
from tests.channels.discord.rig import HOSTS
from tests.channels.discord.world import PUBLIC_THREAD, FakeChannel, Person
from tests.channels.fake_http import FakeTransport, json_of
from tests.channels.fake_socket import SocketPlatform

SEND = "/messages"


class DiscordDriver(SocketPlatform, ChannelDriver):
    name = "discord"
    traits = MANIFEST.traits
    text_limit = 2_000
    keeps_first = False  # bots are not told of chats that began while they were away
    knows_key_s = 120.0
    has_threads = True
    session_names = (r"discord:channel:\d+", r"discord:channel:\d+")

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeDiscord(VirtualClock().now_ms)
        self._people: dict[str, Person] = {}
        self._said: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.settings = DiscordSettings(
            token=Secret(TOKEN),
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            guilds={"*": GuildSettings(require_mention=False)},
        )

    def is_connected(self) -> bool:
        return self.fake.gateway.connected

    def transport(self) -> FakeTransport:
        hosts = ("discord.com", "cdn.discordapp.com", "media.discordapp.net")
        return FakeTransport(dict.fromkeys(hosts, self.fake))

    def channel(self) -> GivenChannel:
        async def open_it(host: ChannelHost) -> ChannelAccount:
            dial = self.dial(dict.fromkeys(HOSTS, self.fake.gateway))
            return DiscordAccount(self.settings, host, Secret(TOKEN), dial)

        return HandedOver(self, open_it)

    def person_id(self, person: str) -> str:
        return str(self._person(person).id)

    def _person(self, name: str) -> Person:
        if name not in self._people:
            self._people[name] = self.fake.world.person(name)
        return self._people[name]

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        world = self.fake.world
        author = self._person(person)
        where = world.direct(author)
        if group is not None:
            where = self._room(group)
        number = self.fake.say(author, text, where)
        message = world.find_message(where, number)
        assert message is not None
        self._said[number] = (where, message)
        return number

    def _room(self, name: str) -> FakeChannel:
        world = self.fake.world
        found = (each for each in world.channels.values() if each.name == name)
        return next(found, None) or world.channel(name, guild_id=world.guild(name))

    async def say_in_thread(self, text: str, *, group: str, person: str = "1001") -> str:
        world, name = self.fake.world, f"{group} thread"
        found = next((each for each in world.channels.values() if each.name == name), None)
        if found is None:
            found = world.channel(name, type=PUBLIC_THREAD, parent=self._room(group))
        return self.fake.say(self._person(person), text, found)

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        file = self.fake.world.file("a.png", data, "image/png")
        self.fake.say(self._person(person), text, attachments=[file])
        return True

    async def change(self, message_id: str, text: str) -> bool:
        where, _ = self._said[message_id]
        self.fake.edit(where, message_id, text, "2026-01-01T12:00:09+00:00")
        return True

    async def say_again(self, message_id: str) -> None:
        self.fake.gateway.tell_message("MESSAGE_CREATE", *self._said[message_id])

    async def say_as_us(self, text: str) -> None:
        world = self.fake.world
        message = {**world.message(world.direct(self._person("1001")), world.bot, "")}
        world.direct(self._person("1001")).messages.pop()
        message["content"] = text
        self.fake.gateway.tell_message(
            "MESSAGE_CREATE", world.direct(self._person("1001")), message
        )

    async def say_as_bot(self, text: str) -> bool:
        robot = self.fake.world.person("robot", bot=True)
        self.fake.say(robot, text, self.fake.world.direct(robot))
        return True

    async def bring_hostile(self) -> None:
        deep: Any = "x"
        for _ in range(900):
            deep = [deep]
        author = {"id": self._person("1001").id, "username": "\u202e\x00"}
        whole = {"id": "1", "channel_id": "2", "author": author, "content": "x", "type": 0}
        for data in (
            None,
            7,
            {"id": 7},
            {**whole, "id": "not a number"},
            {**whole, "author": "ann"},
            {**whole, "content": {"a": 1}},
            {**whole, "attachments": [{"url": 5}]},
            {**whole, "mentions": deep},
            {**whole, "type": -1},
        ):
            for name in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "GUILD_CREATE", "THREAD_UPDATE"):
                self.fake.gateway.tell_all(name, data)
        self.fake.gateway.order(b'{"op": "what"}')

    def _ours(self) -> list[tuple[str, dict[str, Any]]]:
        bot = self.fake.world.bot.id
        channels = self.fake.world.channels.values()
        said = [(each.id, message) for each in channels for message in each.messages]
        return [(where, message) for where, message in said if message["author"]["id"] == bot]

    def seen(self) -> list[str]:
        return [str(message["content"]) for _, message in self._ours()]

    def places(self) -> list[str]:
        return [where for where, _ in self._ours()]

    def answered(self) -> list[str | None]:
        named = [message.get("message_reference") for _, message in self._ours()]
        return [each and str(each["message_id"]) for each in named]

    async def wait_seen(self, count: int) -> None:
        while len(self.seen()) < count:  # noqa: ASYNC110  time is virtual, and the fake has no event for it
            await anyio.sleep(0.05)

    def fail_next_send(self, how: Failure) -> None:
        match how:
            case "not sent":
                self.fake.cut(SEND, "before")
            case "lost before":
                self.fake.cut(SEND, "read")
            case "lost after":
                self.fake.cut(SEND, "after")
            case "later":
                body = {"message": "You are being rate limited.", "retry_after": 7, "global": False}
                self.fake.refuse(SEND, json_of(body, 429))
            case "never":
                self.fake.refuse(
                    SEND, json_of({"code": 50035, "message": "Invalid Form Body"}, 400)
                )
            case "gone":
                self.fake.refuse(SEND, json_of({"code": 50007, "message": "Cannot send"}, 403))

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append((SEND, act))

    def attempts(self) -> int:
        asked = self.fake.requests
        return sum(each.path.endswith(SEND) and each.method == "POST" for each in asked)

    def typing_seen(self) -> int:
        return len(self.fake.typing)

    def reactions_seen(self) -> int:
        return len(self.fake.reactions)

    def files_seen(self) -> list[bytes]:
        return list(self.fake.world.files.values())

    def complaints(self) -> list[str]:
        return self.fake.complaints
