"""Discord against somebody else's simulator, as far as it goes: forms, permissions, codes, and payloads that we did not write."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.channels.discord.account import DiscordAccount
from crossclaw.channels.discord.settings import DiscordSettings
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import DeliveryError, MediaRefused
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock, VirtualLoop
from tests.channels.discord.fake import TOKEN
from tests.channels.discord.rig import HOSTS
from tests.channels.discord.simulated import SimulatedDiscord
from tests.channels.fake_http import FakeTransport
from tests.channels.fake_socket import memory_dial
from tests.channels.recording import RecordingHost

pytestmark = [
    pytest.mark.real,
    pytest.mark.spec("N3"),
    pytest.mark.filterwarnings("ignore:.audioop. is deprecated"),  # by discord.py, which it imports
]

SEND_MESSAGES, VIEW_CHANNEL = 1 << 11, 1 << 10
TEXT_MAX = 2000


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """It lives in this process, so the clock may jump."""
    return "asyncio", {"loop_factory": VirtualLoop}


class Scene:
    """A server with a channel and a person, and an account that is served."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.discord = SimulatedDiscord(clock.now_ms)
        backend = self.discord.backend
        self.ana = backend.make_user("ana", global_name="Ana")
        self.guild = backend.create_guild("Workshop")
        for user in (self.ana, backend.bot_user):
            backend.add_member(self.guild.id, user.id)
        self.room = backend.create_channel(self.guild.id, "general", announce=False)
        hosts = {"discord.com": self.discord}
        self.host = RecordingHost("discord", FakeTransport(hosts), clock)

    def say(self, text: str, where: Any = None, **more: Any) -> Any:
        backend = self.discord.backend
        channel = where or backend.get_dm_channel(self.ana.id)
        return backend.create_message(channel.id, self.ana.id, text, **more)

    async def heard(self, count: int) -> None:
        with anyio.fail_after(60):
            while len(self.host.received) < count:  # noqa: ASYNC110  time is virtual
                await anyio.sleep(0.05)


@pytest.fixture
async def scene() -> AsyncGenerator[Scene]:
    scene = Scene()
    yield scene
    assert scene.discord.complaints == []


@pytest.fixture
async def account(scene: Scene) -> AsyncGenerator[DiscordAccount]:
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as serving:
        dial = memory_dial(tasks, dict.fromkeys(HOSTS, scene.discord.gateway))
        account = DiscordAccount(DiscordSettings(), scene.host, Secret(TOKEN), dial)
        await serving.start(lambda task_status: account.serve(scene.host, task_status=task_status))
        yield account
        serving.cancel_scope.cancel()


def piece(to: str, text: str, key: str = "k", **more: Any) -> Piece:
    where = Address("discord", to, "default")
    return Piece(address=where, text=text, formatted=text, delivery_key=key, **more)


async def test_its_messages_are_read_with_their_sender_place_reply_mention_and_file(
    scene: Scene, account: DiscordAccount
) -> None:
    backend, room = scene.discord.backend, scene.room
    bot = backend.bot_user.id
    thread = backend.create_thread(room.id, "about cats", scene.ana.id)
    files = backend.store_attachments(room.id, [("cat.png", b"\x89PNG\r\n\x1a\n")])
    scene.say("directly")
    asked = scene.say(f"<@{bot}> in the channel", room, attachments=files)
    scene.say("in the thread", thread)
    ours = await account.send(piece(f"channel:{room.id}", "yes?"))
    scene.say("to you", room, reference={"channel_id": str(room.id), "message_id": ours})
    backend.edit_message(room.id, asked.id, {"content": f"<@{bot}> changed"})
    await scene.heard(5)
    direct, named, inside, reply, edit = scene.host.received

    assert {each.sender for each in scene.host.received} == {str(scene.ana.id)}
    assert (direct.is_direct, direct.text, direct.sender_name) == (True, "directly", "Ana")
    assert (named.mentioned, named.guild_id, named.text) == (True, str(scene.guild.id), "in the channel")  # fmt: skip
    assert (inside.address.to, inside.parent_chat_id) == (f"channel:{thread.id}", str(room.id))
    assert reply.reply_to is not None
    assert reply.reply_to.ours
    assert (edit.edit_of, edit.text) == (str(asked.id), "changed")
    (file,) = named.attachments
    assert (file.kind, file.name, file.size) == ("image", "cat.png", 8)
    with pytest.raises(MediaRefused, match="does not belong to the platform"):
        await account.fetch(file, 100)  # its files lie at a name of its own


async def test_it_takes_what_we_send_and_nobody_is_called(
    scene: Scene, account: DiscordAccount
) -> None:
    backend, room = scene.discord.backend, scene.room
    where = Address("discord", f"channel:{room.id}", "default")
    question = scene.say("hi", room)
    media = OutgoingFile(kind="image", data=b"\x89PNG", mime="image/png", name="cat.png")
    first = await account.send(piece(where.to, "look @everyone", media=media, reply_to=str(question.id)))  # fmt: skip
    assert first is not None
    await account.edit(where, first, piece(where.to, f"done <@{scene.ana.id}>"))
    await account.react(where, str(question.id), "👀")
    await account.show_typing(where)
    await account.send(piece(f"user:{scene.ana.id}", "to you", "k2"))
    await account.send(piece(where.to, "x" * TEXT_MAX, "k3"))
    sent = backend.get_message(room.id, int(first))

    assert scene.discord.texts(room) == [f"done <@{scene.ana.id}>", "x" * TEXT_MAX]
    assert scene.discord.texts(backend.get_dm_channel(scene.ana.id)) == ["to you"]
    assert (sent.ping_user_ids, sent.mention_everyone) == ([], False)
    assert sent.reference is not None
    assert [each["filename"] for each in sent.attachments] == ["cat.png"]
    assert str(question.id) == str(sent.reference["message_id"])


async def test_its_refusals_mean_what_we_take_them_for(
    scene: Scene, account: DiscordAccount
) -> None:
    from simcord.backend.models import Overwrite  # noqa: PLC0415  only make channels installs it
    from simcord.enums import OverwriteType  # noqa: PLC0415  only make channels installs it

    backend = scene.discord.backend
    bot = backend.bot_user.id
    robot = backend.make_user("robot", bot=True)

    def closed(deny: int) -> str:
        rule = Overwrite(target_id=bot, type=OverwriteType.MEMBER, deny=deny)
        made = backend.create_channel(scene.guild.id, "closed", announce=False, overwrites=[rule])
        return f"channel:{made.id}"

    refused = {
        "too long": (f"channel:{scene.room.id}", "x" * (TEXT_MAX + 1)),
        "not there": ("channel:999999999999999999", "hello"),
        "not seen": (closed(VIEW_CHANNEL), "hello"),
        "read only": (closed(SEND_MESSAGES), "hello"),
        "a bot": (f"user:{robot.id}", "hello"),
    }
    gone: dict[str, bool] = {}
    for name, (to, text) in refused.items():
        with pytest.raises(DeliveryError) as raised:
            await account.send(piece(to, text, name))
        assert not raised.value.retryable, name
        assert not raised.value.stops_account, name
        gone[name] = raised.value.chat_gone

    assert gone == {"too long": False, "not there": True, "not seen": True, "read only": True, "a bot": True}  # fmt: skip
