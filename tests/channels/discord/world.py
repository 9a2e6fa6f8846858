"""What is on the fake Discord: people, channels, messages, files. An independent log: nothing here is ours to change."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

EPOCH_MS = 1_420_070_400_000
TEXT, DM, GROUP_DM, PUBLIC_THREAD, FORUM = 0, 1, 3, 11, 15


class Person(msgspec.Struct):
    id: str
    username: str
    bot: bool = False
    blocks_us: bool = False

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "username": self.username,
            "discriminator": "0",
            "global_name": self.username.title(),
            "avatar": None,
            **({"bot": True} if self.bot else {}),
        }


class FakeChannel(msgspec.Struct):
    id: str
    type: int
    name: str | None = None
    guild_id: str | None = None
    parent_id: str | None = None
    recipients: list[Person] = []
    hidden: bool = False
    """Not to be seen by the bot."""
    read_only: bool = False
    archived: bool = False
    locked: bool = False
    messages: list[dict[str, Any]] = []

    @property
    def last_message_id(self) -> str | None:
        return str(self.messages[-1]["id"]) if self.messages else None

    def shown(self) -> dict[str, Any]:
        shown = {"id": self.id, "type": self.type, "last_message_id": self.last_message_id}
        if self.type == DM:
            return {**shown, "recipients": [person.shown() for person in self.recipients]}
        shown |= {"name": self.name, "guild_id": self.guild_id, "parent_id": self.parent_id}
        return {key: value for key, value in shown.items() if value is not None}


class DiscordWorld:
    """`now_ms` makes the ids of messages, as at Discord."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._count = itertools.count(1)
        self.people: dict[str, Person] = {}
        self.channels: dict[str, FakeChannel] = {}
        self.guilds: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.bot = self.person("clawbot", bot=True)

    def new_id(self) -> str:
        return str(((self.now_ms() - EPOCH_MS) << 22) | (next(self._count) & 0x3FFFFF))

    def person(self, username: str, *, bot: bool = False) -> Person:
        person = Person(self.new_id(), username, bot)
        self.people[person.id] = person
        return person

    def guild(self, name: str) -> str:
        guild_id = self.new_id()
        self.guilds[guild_id] = name
        return guild_id

    def channel(
        self,
        name: str | None = None,
        *,
        guild_id: str | None = None,
        type: int = TEXT,
        parent: "FakeChannel | None" = None,
        recipients: list[Person] | None = None,
    ) -> FakeChannel:
        channel = FakeChannel(
            self.new_id(),
            type,
            name,
            parent.guild_id if parent else guild_id,
            parent.id if parent else None,
            recipients or [],
        )
        self.channels[channel.id] = channel
        return channel

    def direct(self, person: Person) -> FakeChannel:
        for channel in self.channels.values():
            if channel.type == DM and channel.recipients == [person]:
                return channel
        return self.channel(type=DM, recipients=[person])

    def file(self, name: str, data: bytes, mime: str) -> dict[str, Any]:
        number = self.new_id()
        path = f"/attachments/1/{number}/{name}"
        self.files[path] = data
        return {
            "id": number,
            "filename": name,
            "size": len(data),
            "url": f"https://cdn.discordapp.com{path}?ex=66&is=65&hm=abc",
            "proxy_url": f"https://media.discordapp.net{path}",
            "content_type": mime,
        }

    def message(
        self, channel: FakeChannel, author: Person, content: str, **extra: Any
    ) -> dict[str, Any]:
        """Written and kept; nobody is told of it yet."""
        number = self.new_id()
        message = {
            "id": number,
            "channel_id": channel.id,
            "author": author.shown(),
            "content": content,
            "timestamp": "2026-01-01T12:00:00.000000+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [
                person.shown()
                for person in self.people.values()
                if f"<@{person.id}>" in content or f"<@!{person.id}>" in content
            ],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            **extra,
        }
        channel.messages.append(message)
        return message

    def find_message(self, channel: FakeChannel, message_id: str) -> dict[str, Any] | None:
        return next((each for each in channel.messages if each["id"] == message_id), None)

    def texts(self, channel: FakeChannel) -> list[str]:
        """What people see that the bot said there, in order."""
        return [
            str(message["content"])
            for message in channel.messages
            if message["author"]["id"] == self.bot.id
        ]
