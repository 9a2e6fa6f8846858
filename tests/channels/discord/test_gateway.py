"""Discord's gateway in virtual time, against a fake that is as strict as its documents: nothing is lost, nothing comes
twice, and a socket that is alive and deaf is noticed."""

import anyio
import pytest

from crossclaw.channels.behind import TRIES_MAX
from crossclaw.channels.discord.account import PLACE_TRIES_MAX
from crossclaw.channels.discord.gateway import is_same_side
from crossclaw.domain.errors import AccountBroken, ChannelDown, StoreError
from tests.channels.discord.rig import DiscordRig
from tests.channels.discord.world import GROUP_DM, PUBLIC_THREAD
from tests.channels.fake_http import FakeAnswer

pytestmark = pytest.mark.spec("N3")


async def test_a_direct_message_and_one_of_a_server_arrive_and_heartbeats_say_what_was_accepted(
    rig: DiscordRig,
) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "hello")
        rig.fake.say(rig.ana, f"<@{rig.fake.world.bot.id}> and here", rig.room)
        await rig.until(lambda: len(rig.host.received) == 2)
        await anyio.sleep(200)

    direct, spoken = rig.host.received
    assert (direct.address.to, direct.chat_type, direct.text) == (
        f"user:{rig.ana.id}",
        "direct",
        "hello",
    )
    assert (spoken.address.to, spoken.chat_type, spoken.chat_id, spoken.guild_id) == (
        f"channel:{rig.room.id}",
        "channel",
        rig.room.id,
        rig.guild,
    )
    assert (spoken.mentioned, spoken.text, spoken.chat_name) == (True, "and here", "general")
    assert len(rig.gateway.heartbeats) >= 4
    assert rig.gateway.heartbeats[-1] == 4  # READY, GUILD_CREATE and the two messages
    assert rig.gateway.connections == 1
    assert rig.host.facts is not None
    assert rig.host.facts.id == rig.fake.world.bot.id


async def test_after_a_cut_it_resumes_from_what_was_accepted_and_nothing_comes_twice(
    rig: DiscordRig,
) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "one")
        await rig.until(lambda: rig.host.texts == ["one"])
        rig.gateway.drop()
        rig.fake.say(rig.ana, "two")
        await rig.until(lambda: rig.host.texts == ["one", "two"])
        rig.gateway.order({"op": 7, "d": None})
        rig.fake.say(rig.ana, "three")
        await rig.until(lambda: len(rig.host.received) == 3 and rig.gateway.connections == 3)

    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6, 6]
    assert len(rig.host.arrived) == 3


async def test_a_restart_within_the_life_of_the_session_resumes_it(rig: DiscordRig) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    rig.fake.say(rig.ana, "while it was away")
    async with rig.served():
        await rig.until(lambda: rig.host.texts == ["before", "while it was away"])

    assert rig.gateway.left == [4000, 4000]  # 1000 would have ended the session
    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6]


async def test_what_could_not_be_stored_comes_again(rig: DiscordRig) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "kept")
        await rig.until(lambda: rig.host.texts == ["kept"])
    rig.host.failures = 1
    rig.fake.say(rig.ana, "not at first")
    rig.fake.say(rig.ana, "after it")

    assert isinstance(await rig.serve_once(), StoreError)
    assert rig.host.texts == ["kept"]
    async with rig.served():
        await rig.until(lambda: rig.host.texts == ["kept", "not at first", "after it"])


async def test_when_the_session_is_forgotten_missed_messages_are_fetched_in_the_chats_that_are_known(
    rig: DiscordRig,
) -> None:
    world = rig.fake.world
    other = world.channel("never heard of", guild_id=rig.guild)
    async with rig.served():
        rig.fake.say(rig.ana, "direct")
        rig.fake.say(rig.ana, "in the room", rig.room)
        await rig.until(lambda: len(rig.host.received) == 2)
    rig.gateway.forget()
    for text in ("missed 1", "missed 2"):
        world.message(world.direct(rig.ana), rig.ana, text)
    world.message(rig.room, rig.ana, "missed in the room")
    world.message(other, rig.ana, "not ours to know")
    async with rig.served():
        await rig.until(lambda: len(rig.host.received) == 5)

    assert rig.host.texts[2:] == ["missed 1", "missed 2", "missed in the room"]
    assert rig.host.received[-1].guild_id == rig.guild
    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6, 2]


async def away(rig: DiscordRig) -> None:
    """Two direct messages and one of a server are missed, and Discord has forgotten the session."""
    async with rig.served():
        rig.fake.say(rig.ana, "direct")
        rig.fake.say(rig.ana, "in the room", rig.room)
        await rig.until(lambda: len(rig.host.received) == 2)
    rig.gateway.forget()
    world = rig.fake.world
    for text in ("missed 1", "missed 2"):
        world.message(world.direct(rig.ana), rig.ana, text)
    world.message(rig.room, rig.ana, "missed in the room")


async def test_missed_messages_that_could_not_be_stored_are_fetched_again_before_anything_new(
    rig: DiscordRig,
) -> None:
    await away(rig)
    rig.host.failures = 1
    assert isinstance(await rig.serve_once(), StoreError)
    rig.fake.say(rig.ana, "later")
    async with rig.served():
        await rig.until(lambda: len(rig.host.received) == 6)

    assert rig.host.texts[2:] == ["missed 1", "missed 2", "later", "missed in the room"]
    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6, 2, 2]


@pytest.mark.parametrize("place", ["direct", "room"])
@pytest.mark.parametrize("status", [0, 502, 429, 403])
@pytest.mark.parametrize("ends", [False, True])
async def test_missed_messages_that_could_not_be_fetched_are_asked_for_again(
    rig: DiscordRig, status: int, place: str, ends: bool
) -> None:
    """0: no answer. What is not Discord's own refusal says nothing of the chat. The account goes on meanwhile, with the same
    session, also when the gateway ends before they are there."""
    await away(rig)
    chat = rig.fake.world.direct(rig.ana) if place == "direct" else rig.room
    if status:
        page = FakeAnswer(status, b"<html>", "text/html")
        rig.fake.refuse(f"/channels/{chat.id}/messages", page)
    else:
        rig.fake.cut(f"/channels/{chat.id}/messages", "read")
    async with rig.served():
        rig.fake.say(rig.ana, "later")
        rig.fake.say(rig.ana, "later in the room", rig.room)
        await rig.until(lambda: {"later", "later in the room"} <= set(rig.host.texts))
        if not ends:
            await rig.until(lambda: len(rig.host.received) == 7)
    async with rig.served():
        await rig.until(lambda: len(rig.host.received) == 7)

    assert {"missed 1", "missed 2", "missed in the room"} < set(rig.host.texts)
    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6, 2, 6]


async def test_a_chat_that_discord_never_shows_is_let_go_in_the_end(rig: DiscordRig) -> None:
    await away(rig)
    for _ in range(TRIES_MAX):
        page = FakeAnswer(502, b"<html>", "text/html")
        rig.fake.refuse(f"/channels/{rig.room.id}/messages", page)
    async with rig.served():
        await anyio.sleep(3600)
        assert "could not be fetched" in rig.host.troubles[-1]
        rig.fake.say(rig.ana, "later in the room", rig.room)
        await rig.until(lambda: "later in the room" in rig.host.texts)

    assert rig.host.texts[2:] == ["missed 1", "missed 2", "later in the room"]
    assert len(rig.host.troubles) == TRIES_MAX


async def test_a_chat_that_may_not_be_read_any_more_holds_nothing_up(rig: DiscordRig) -> None:
    await away(rig)
    refusal = FakeAnswer(403, b'{"message": "Missing Access", "code": 50001}')
    rig.fake.refuse(f"/channels/{rig.room.id}/messages", refusal)
    async with rig.served():
        rig.fake.say(rig.ana, "later")
        await rig.until(lambda: len(rig.host.received) == 5)

    assert rig.host.texts[2:] == ["missed 1", "missed 2", "later"]
    assert len(rig.host.troubles) == 1


async def test_what_kind_a_channel_is_is_never_guessed_because_there_is_no_answer(
    rig: DiscordRig,
) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "hello")
        await rig.until(lambda: len(rig.host.received) == 1)
    thread = rig.fake.world.channel("about cats", type=PUBLIC_THREAD, parent=rig.room)
    rig.fake.cut(f"/channels/{thread.id}", "read")
    rig.fake.say(rig.ana, "in the thread", thread)
    assert isinstance(await rig.serve_once(), ChannelDown)
    async with rig.served():
        await rig.until(lambda: len(rig.host.received) == 2)

    assert rig.host.received[1].parent_chat_id == rig.room.id


async def test_a_chat_of_which_discord_never_says_what_it_is_silences_nobody(
    rig: DiscordRig,
) -> None:
    async with rig.served():
        rig.fake.say(rig.ana, "hello")
        await rig.until(lambda: len(rig.host.received) == 1)
    thread = rig.fake.world.channel("about cats", type=PUBLIC_THREAD, parent=rig.room)
    for _ in range(2 * PLACE_TRIES_MAX):
        rig.fake.cut(f"/channels/{thread.id}", "read")
    rig.fake.say(rig.ana, "in the thread", thread)
    async with anyio.create_task_group() as tasks:
        account = rig.account(tasks)
        for _ in range(PLACE_TRIES_MAX - 1):
            with pytest.raises(ChannelDown):
                await account.serve(rig.host)
        tasks.start_soon(account.serve, rig.host)
        await rig.until(lambda: len(rig.host.received) == 2)
        rig.fake.say(rig.ana, "later")
        await rig.until(lambda: len(rig.host.received) == 3)
        tasks.cancel_scope.cancel()

    assert rig.host.texts == ["hello", "in the thread", "later"]


async def test_what_is_older_than_a_day_or_more_than_a_chat_may_have_missed_is_left(
    rig: DiscordRig,
) -> None:
    world = rig.fake.world
    async with rig.served():
        rig.fake.say(rig.ana, "begin")
        await rig.until(lambda: rig.host.texts == ["begin"])
    rig.gateway.forget()
    world.message(world.direct(rig.ana), rig.ana, "long ago")
    await anyio.sleep(25 * 3600)
    for number in range(250):
        world.message(world.direct(rig.ana), rig.ana, f"missed {number}")
    async with rig.served():
        await rig.until(lambda: len(rig.host.received) == 201)
        await anyio.sleep(60)

    assert rig.host.texts == ["begin", *(f"missed {number}" for number in range(200))]
    assert rig.host.troubles == ["more than 200 messages of one chat were missed"]
    assert rig.fake.limited == 0


async def test_three_resumes_that_fail_are_followed_by_a_new_session(rig: DiscordRig) -> None:
    async with rig.served():
        pass
    rig.gateway.refuses_resume = True

    failures = [await rig.serve_once() for _ in range(3)]
    async with rig.served():
        rig.fake.say(rig.ana, "still there")
        await rig.until(lambda: rig.host.texts == ["still there"])

    assert all(isinstance(error, ChannelDown) for error in failures)
    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6, 6, 6, 2]


async def test_a_socket_that_is_alive_and_deaf_is_left_and_resumed(rig: DiscordRig) -> None:
    async with rig.served():
        rig.gateway.deaf.add(1)
        rig.fake.say(rig.ana, "into the void")
        await rig.until(lambda: rig.gateway.left == [4000])
        await rig.until(lambda: rig.host.texts == ["into the void"])

    assert [frame["op"] for frame in rig.gateway.introductions] == [2, 6]


async def test_a_gateway_that_gives_no_session_is_left(rig: DiscordRig) -> None:
    rig.gateway.silent_sessions = True
    error = await rig.serve_once()
    assert isinstance(error, ChannelDown)
    assert "no session" in str(error)
    assert len(rig.gateway.heartbeats) == 3


async def test_a_token_that_is_refused_and_an_intent_that_is_off_stop_the_account_with_the_next_step(
    rig: DiscordRig,
) -> None:
    rig.gateway.approved = 0
    broken = await rig.serve_once()
    assert isinstance(broken, AccountBroken)
    assert "Bot → Privileged Gateway Intents → Message Content Intent" in str(broken)

    rig.fake.token = "another"
    broken = await rig.serve_once()
    assert isinstance(broken, AccountBroken)
    assert "copy it anew" in str(broken)
    assert rig.gateway.connections == 1  # REST was asked first


@pytest.mark.parametrize(("code", "ops"), [(4000, [2, 6]), (4007, [2, 2]), (4009, [2, 2])])
async def test_a_close_code_says_whether_the_session_goes_on(
    rig: DiscordRig, code: int, ops: list[int]
) -> None:
    async with rig.served():
        rig.gateway.order(code)
        await rig.until(lambda: len(rig.gateway.introductions) == 2)
    assert [frame["op"] for frame in rig.gateway.introductions] == ops


@pytest.mark.parametrize("code", [4004, 4010, 4011, 4012, 4013, 4014])
async def test_close_codes_that_only_a_person_can_do_something_about_stop_the_account(
    rig: DiscordRig, code: int
) -> None:
    rig.gateway.closes_with = code
    assert isinstance(await rig.serve_once(), AccountBroken)


async def test_a_day_without_sessions_left_is_waited_for(rig: DiscordRig) -> None:
    rig.gateway.identifies_left = 0
    error = await rig.serve_once()
    assert isinstance(error, ChannelDown)
    assert error.retry_after_s == 14_400
    assert rig.gateway.introductions == []


async def test_events_without_their_shape_are_left_out_and_the_next_one_arrives(
    rig: DiscordRig,
) -> None:
    async with rig.served():
        hostile: list[object] = [
            None,
            [],
            {"id": 7},
            {"id": "x", "channel_id": "1", "author": {"id": "2"}},
        ]
        for data in hostile:
            rig.gateway.tell_all("MESSAGE_CREATE", data)
            rig.gateway.tell_all("GUILD_CREATE", data)
        rig.gateway.order(b'{"op": "what"}')
        rig.fake.say(rig.ana, "an ordinary one")
        await rig.until(lambda: rig.host.texts == ["an ordinary one"])
    assert rig.gateway.connections == 1


async def test_a_thread_knows_its_channel_and_a_group_chat_is_no_server(rig: DiscordRig) -> None:
    world = rig.fake.world
    async with rig.served():
        thread = world.channel("about cats", type=PUBLIC_THREAD, parent=rig.room)
        friends = world.channel("friends", type=GROUP_DM, recipients=[rig.ana])
        rig.fake.say(rig.ana, "in the thread", thread)
        rig.fake.say(rig.ana, "among friends", friends)
        await rig.until(lambda: len(rig.host.received) == 2)

    in_thread, in_group = rig.host.received
    assert (in_thread.address.to, in_thread.parent_chat_id) == (
        f"channel:{thread.id}",
        rig.room.id,
    )
    assert (in_thread.chat_type, in_thread.guild_id) == ("channel", rig.guild)
    assert (in_group.chat_type, in_group.chat_id, in_group.guild_id) == ("group", friends.id, None)


async def test_our_own_words_webhooks_and_notices_are_nothing_and_bots_are_marked(
    rig: DiscordRig,
) -> None:
    world = rig.fake.world
    robot = world.person("robot", bot=True)
    async with rig.served():
        rig.fake.say(world.bot, "our own", rig.room)
        rig.fake.say(rig.ana, "by a webhook", rig.room, webhook_id="77")
        rig.fake.say(rig.ana, "joined", rig.room, type=7)
        rig.fake.say(robot, "beep", rig.room)
        await rig.until(lambda: rig.host.texts == ["beep"])
    assert len(rig.host.arrived) == 1
    assert rig.host.received[0].sender_is_bot


@pytest.mark.spec("N8")
async def test_words_of_bots_and_webhooks_that_somebody_answers_to_are_marked(
    rig: DiscordRig,
) -> None:
    world = rig.fake.world
    robot = world.person("robot", bot=True)
    async with rig.served():
        quoted = [
            rig.fake.say(robot, "beep", rig.room),
            rig.fake.say(rig.ana, "by a webhook", rig.room, webhook_id="77"),
            rig.fake.say(rig.ana, "by Ana", rig.room),
        ]
        for each in quoted:
            answer = {
                "type": 19,
                "message_reference": {"message_id": each, "channel_id": rig.room.id},
                "referenced_message": world.find_message(rig.room, each),
            }
            rig.fake.say(rig.ana, "look", rig.room, **answer)
        await rig.until(lambda: rig.host.texts.count("look") == 3)
    replies = [each.reply_to for each in rig.host.received if each.reply_to is not None]
    assert [(each.text, each.sender_is_bot) for each in replies] == [
        ("beep", True),
        ("by a webhook", True),
        ("by Ana", False),
    ]


async def test_an_edit_is_one_and_a_preview_is_none(rig: DiscordRig) -> None:
    async with rig.served():
        first = rig.fake.say(rig.ana, "helo", rig.room)
        message = rig.fake.world.find_message(rig.room, first)
        assert message is not None
        rig.gateway.tell_message("MESSAGE_UPDATE", rig.room, message)  # a link got its preview
        rig.fake.edit(rig.room, first, "hello", "2026-01-01T12:05:00+00:00")
        rig.gateway.tell_message("MESSAGE_UPDATE", rig.room, message)  # again a preview
        await rig.until(lambda: len(rig.host.arrived) == 3)
    assert rig.host.texts == ["helo", "hello"]
    assert rig.host.received[1].edit_of == first


def test_the_address_to_resume_at_belongs_to_whom_we_spoke_with() -> None:
    known = "wss://gateway.discord.gg"
    assert is_same_side("wss://gateway-us-east1-b.discord.gg", known)
    assert not is_same_side("wss://gateway.discord.gg.evil.example", known)
    assert not is_same_side("ws://gateway-us-east1-b.discord.gg", known)
