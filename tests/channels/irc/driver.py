"""IRC for the contract of channels: a person's hands and eyes on `FakeIrc`."""

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.abc

from crossclaw.channels.contract import ChannelAccount, ChannelHost, GivenChannel
from tests.channels.contract import ChannelDriver, Failure, HandedOver
from tests.channels.fake_socket import SocketPlatform
from tests.channels.irc.fake import FakeIrc, hostile

EXAMPLE = Path(__file__).parents[3] / "examples" / "irc-channel"
sys.path.insert(0, str(EXAMPLE / "src"))

from crossclaw_irc.account import IrcAccount  # noqa: E402  it is not installed here
from crossclaw_irc.manifest import MANIFEST  # noqa: E402
from crossclaw_irc.settings import IrcSettings  # noqa: E402


class IrcDriver(SocketPlatform, ChannelDriver):
    name = "irc"
    traits = MANIFEST.traits
    text_limit = 400
    brings_again = keeps_first = False
    session_names = ("irc:channel:#workshop",)
    answers_are_marked = False

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeIrc()
        self.settings = IrcSettings(
            server="irc.example",
            nick="claw",
            channels=("#workshop",),
            dm_policy="open",
            allow_from=("*",),
            group_policy="open",
            require_mention=False,
        )

    def is_connected(self) -> bool:
        return self.fake.is_connected

    def channel(self) -> GivenChannel:
        async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
            if not self._here.is_set() or self._tasks is None:
                raise OSError("the platform is not there yet")
            return await self.fake.accept(self._tasks)

        async def open_it(host: ChannelHost) -> ChannelAccount:
            return IrcAccount(self.settings, host, dial)

        return HandedOver(self, open_it)

    def person_id(self, person: str) -> str:
        nick = "ann" if person == "1001" else person
        return f"{nick}!~{nick}@host.example"

    async def say(self, text: str, *, person: str = "ann", group: str | None = None) -> str:
        nick = "ann" if person == "1001" else person
        self.fake.people.add(nick)
        await self.fake.say(nick, "#workshop" if group else "claw", text)
        return text

    async def say_again(self, message_id: str) -> None:
        """IRC brings nothing twice."""

    async def say_as_us(self, text: str) -> None:
        await self.fake.put(f":claw!~claw@host.example PRIVMSG #workshop :{text}")

    async def bring_hostile(self) -> None:
        for line in hostile():
            await self.fake.put(line)

    def seen(self) -> list[str]:
        return [text for _, text in self.fake.shown]

    def places(self) -> list[str]:
        return [target for target, _ in self.fake.shown]

    async def wait_seen(self, count: int) -> None:
        while len(self.fake.shown) < count:  # noqa: ASYNC110  time is virtual, and the fake has no event for it
            await anyio.sleep(0.05)

    def fail_next_send(self, how: Failure) -> None:
        self.fake.failures.append(how)

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self.fake.effects.append(act)

    def complaints(self) -> list[str]:
        return self.fake.complaints
