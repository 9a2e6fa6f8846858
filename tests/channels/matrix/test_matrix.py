"""Matrix, against a real Synapse. Each test's people have accounts of their own, on one server."""

import math
from pathlib import Path

import pytest

from crossclaw.channels.matrix.account import MatrixAccount
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
    StoreError,
)
from tests.channels.matrix.rig import MatrixHost, Place, picture, piece
from tests.channels.synapse import Synapse, open_synapse

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.spec("N7")]


@pytest.fixture
def place(synapse: Synapse, tmp_path: Path) -> Place:
    return Place(synapse, tmp_path)


# What comes


@pytest.mark.spec("N8")
async def test_a_direct_message_arrives_with_its_ids_and_a_reply_is_seen(place: Place) -> None:
    room = place.direct()
    async with place.served() as account:
        said = place.ann.say(room, "hello **there**")
        (inbound,) = await place.host.wait_for(1)
        assert (inbound.text, inbound.sender, inbound.message_id) == (
            "hello **there**",
            place.ann.user_id,
            said,
        )
        assert inbound.chat_type == "direct"
        assert inbound.address == Address("matrix", room, "default")
        assert inbound.at_ms is not None
        await account.send(piece(room, "hi", "k1", formatted="<p><strong>hi</strong></p>"))
        (heard,) = place.ann.heard_from(room, place.bot.user_id)
    assert heard["content"] == {
        "msgtype": "m.text",
        "body": "hi",
        "format": "org.matrix.custom.html",
        "formatted_body": "<p><strong>hi</strong></p>",
        "m.mentions": {},
    }


@pytest.mark.spec("N8")
async def test_what_was_said_before_the_first_start_is_not_answered(place: Place) -> None:
    room = place.direct()
    place.ann.say(room, "long ago")
    async with place.served():
        place.ann.say(room, "now")
        await place.host.wait_for(1)
    assert place.host.texts == ["now"]


@pytest.mark.spec("N8")
async def test_what_was_said_while_we_were_away_arrives_in_its_order_also_across_a_gap(
    place: Place,
) -> None:
    room = place.direct()
    async with place.served():
        pass
    said = [f"message {number}" for number in range(110)]  # more than a sync shows
    for text in said:
        place.ann.say(room, text)
    async with place.served():
        await place.host.wait_for(len(said))
    assert place.host.texts == said


@pytest.mark.spec("N8")
async def test_a_message_that_could_not_be_stored_comes_again_after_a_restart(place: Place) -> None:
    room = place.direct()
    async with place.served():
        pass
    place.host.failures = 1
    place.ann.say(room, "one")
    place.ann.say(room, "two")
    async with place.served():
        assert isinstance(await place.host.wait_end(), StoreError)
    async with place.served():
        await place.host.wait_for(2)
    assert place.host.texts == ["one", "two"]


@pytest.mark.spec("N8")
async def test_a_third_person_makes_a_direct_chat_a_room_and_it_stays_one(
    synapse: Synapse, place: Place
) -> None:
    room, bob = place.direct(), synapse.register("bob")
    async with place.served():
        place.ann.say(room, "between us")
        await place.host.wait_for(1)
        place.ann.invite(room, bob.user_id)
        place.ann.say(room, "not any more")
        await place.host.wait_for(2)
        bob.join(room)
        bob.leave(room)
        place.ann.say(room, "nor again")
        await place.host.wait_for(3)
    async with place.served():
        place.ann.say(room, "nor after a restart")
        await place.host.wait_for(4)
    assert [each.chat_type for each in place.host.received] == ["direct", *["channel"] * 3]
    assert place.host.received[1].chat_id == room


@pytest.mark.spec("N8")
async def test_whoever_may_talk_may_invite_and_what_was_said_before_we_joined_arrives(
    place: Place,
) -> None:
    async with place.served():
        room = place.ann.make_room(place.bot.user_id, direct=True)
        place.ann.say(room, "are you there?")
        await place.host.wait_for(1)
        assert place.host.texts == ["are you there?"]
        assert place.bot.user_id in place.ann.members(room)


@pytest.mark.spec("N8")
async def test_a_strangers_invitation_is_not_followed(synapse: Synapse, place: Place) -> None:
    eve, room = synapse.register("eve"), place.direct()
    place.host.strangers.add(eve.user_id)
    async with place.served(dmPolicy="allowlist"):
        trap = eve.make_room(place.bot.user_id)
        place.ann.say(room, "hello")
        await place.host.wait_for(1)
        await place.host.wait_trouble()
    assert place.bot.user_id not in eve.members(trap)
    assert eve.user_id in place.host.troubles[0]


@pytest.mark.spec("N8")
async def test_mentions_replies_threads_edits_and_notices_are_told_apart(place: Place) -> None:
    ann, bot, room = place.ann, place.bot, place.direct()
    async with place.served() as account:
        ours = await account.send(piece(room, "a question", "k1"))
        name = bot.user_id[1:].partition(":")[0]
        ann.say(room, f"{name}: yes", **{"m.mentions": {"user_ids": [bot.user_id]}})
        link = f'<mx-reply><a href="https://matrix.to/#/{bot.user_id}">b</a></mx-reply>no'
        ann.say(room, "no", formatted_body=link)
        reply = ann.say(
            room,
            f"> <{bot.user_id}> a question\n\nan answer",
            **{"m.relates_to": {"m.in_reply_to": {"event_id": ours}}},
        )
        thread: dict[str, object] = {
            "rel_type": "m.thread",
            "event_id": ours,
            "is_falling_back": True,
        }
        thread["m.in_reply_to"] = {"event_id": reply}
        ann.say(room, "aside", **{"m.relates_to": thread})
        new = {"msgtype": "m.text", "body": "a better answer"}
        changed = {"rel_type": "m.replace", "event_id": reply}
        ann.say(room, "* x", **{"m.new_content": new, "m.relates_to": changed})
        ann.send(room, "m.room.message", {"msgtype": "m.notice", "body": "beep"})
        heart = ann.send(room, "m.reaction", {"m.relates_to": {"rel_type": "m.annotation"}})
        last_said = ann.say(room, "last")
        await place.host.wait_for(6)
        for gone in (heart, last_said):
            ann.call("PUT", f"/v3/rooms/{room}/redact/{gone}/t{gone[-4:]}", {})
        got = await place.host.wait_for(7)
    mention, plain, answer, aside, edited, last, deleted = got
    assert (deleted.deletion_of, deleted.sender) == (last_said, ann.user_id)
    assert (mention.text, mention.mentioned) == ("yes", True)
    assert (plain.text, plain.mentioned) == ("no", False)
    assert answer.text == "an answer"
    assert answer.reply_to is not None
    assert (answer.reply_to.ours, answer.reply_to.text) == (True, "a question")
    assert (aside.address.thread_id, aside.reply_to) == (ours, None)
    assert (edited.text, edited.edit_of) == ("a better answer", reply)
    assert last.text == "last"


async def test_files_come_and_go_and_a_large_one_is_refused(place: Place) -> None:
    ann, room = place.ann, place.direct()
    async with place.served() as account:
        uri = ann.upload(b"some bytes", "text/plain", "notes.txt")
        info = {"mimetype": "text/plain", "size": 10}
        content = {"msgtype": "m.file", "body": "look", "filename": "notes.txt", "url": uri}
        ann.send(room, "m.room.message", {**content, "info": info})
        (inbound,) = await place.host.wait_for(1)
        (file,) = inbound.attachments
        assert (inbound.text, file.name, file.mime) == ("look", "notes.txt", "text/plain")
        assert place.host.files == [b"some bytes"]
        with pytest.raises(Exception, match="bytes"):
            await account.fetch(file, 4)
        await account.send(piece(room, "the map", "k1", media=picture()))
        (heard,) = ann.heard_from(room, place.bot.user_id)
    assert heard["content"]["msgtype"] == "m.image"
    assert heard["content"]["body"] == "the map"
    assert ann.download(heard["content"]["url"]) == picture().data


# What goes


@pytest.mark.spec("N9")
async def test_the_same_delivery_is_shown_once_also_after_a_new_login_of_the_same_device(
    place: Place,
) -> None:
    room = place.direct()
    by_password = {"accessToken": None, "userId": place.bot.user_id}
    by_password["password"] = place.bot.password
    async with place.served(**by_password) as account:
        assert account.knows_key_for_s() == math.inf
        first = await account.send(piece(room, "once", "delivery#1"))
    async with place.served(**by_password) as account:
        assert await account.send(piece(room, "once", "delivery#1")) == first
        await account.send(piece(room, "another", "delivery#2"))
    assert place.ann.wait_for(room, place.bot.user_id, 2) == ["once", "another"]


@pytest.mark.spec("N9")
async def test_replies_go_into_their_thread_edits_typing_and_reactions_are_seen(
    place: Place,
) -> None:
    ann, room = place.ann, place.direct()
    where = Address("matrix", room, "default")
    async with place.served() as account:
        root = ann.say(room, "a thread begins")
        await account.show_typing(where)
        assert ann.typing(room) == [place.bot.user_id]
        sent = await account.send(piece(room, "in it", "k1", thread_id=root, reply_to=root))
        assert sent is not None
        await account.edit(where, sent, piece(room, "in it, better", "k2"))
        await account.react(where, root, "👀")
        await account.react(where, root, "👀", on=False)
        await account.react(where, root, "✅")
    said = ann.heard_from(room, place.bot.user_id)
    assert said[0]["content"]["m.relates_to"]["rel_type"] == "m.thread"
    assert said[0]["content"]["m.relates_to"]["event_id"] == root
    assert said[1]["content"]["m.new_content"]["body"] == "in it, better"
    assert said[1]["content"]["m.relates_to"] == {"rel_type": "m.replace", "event_id": sent}
    reactions = [event for event in ann.events(room) if event["type"] == "m.reaction"]
    assert [event["content"].get("m.relates_to", {}).get("key") for event in reactions] == [
        None,
        "✅",
    ]


@pytest.mark.spec("N9")
async def test_somebody_is_written_to_by_id_in_one_room_and_a_room_by_its_alias(
    synapse: Synapse, place: Place
) -> None:
    bob = synapse.register("bob")
    public = bob.make_room(place.bot.user_id, room_alias_name=f"ops-{bob.user_id[1:-10]}")
    place.bot.join(public)
    async with place.served() as account:
        await account.send(piece(f"user:{bob.user_id}", "first", "k1"))
        await account.send(piece(bob.user_id, "second", "k2"))
        await account.send(piece(f"#ops-{bob.user_id[1:-10]}:localhost", "to all", "k3"))
        with pytest.raises(DeliveryError) as nowhere:
            await account.send(piece("#nowhere:localhost", "x", "k4"))
    assert nowhere.value.chat_gone
    (room,) = set(bob.call("GET", "/v3/sync", timeout=0)["rooms"]["invite"])
    bob.join(room)
    assert bob.wait_for(room, place.bot.user_id, 2) == ["first", "second"]
    assert bob.wait_for(public, place.bot.user_id) == ["to all"]


@pytest.mark.spec("N9")
async def test_refusals_are_known_by_their_numbers(place: Place) -> None:
    ann, room = place.ann, place.direct()
    async with place.served() as account:
        with pytest.raises(DeliveryError) as too_long:
            await account.send(piece(room, "x" * 70_000, "k1"))
        ann.kick(room, place.bot.user_id)
        with pytest.raises(DeliveryError) as gone:
            await account.send(piece(room, "hello?", "k2"))
        place.bot.call("POST", "/v3/logout", {})
        with pytest.raises(DeliveryError) as out:
            await account.send(piece(room, "hello?", "k3"))
        assert isinstance(await place.host.wait_end(), AccountBroken)
    assert (too_long.value.retryable, too_long.value.chat_gone) == (False, False)
    assert gone.value.chat_gone
    assert out.value.stops_account
    for error in (too_long, gone, out):
        assert not isinstance(error.value, DeliveryUncertain)


@pytest.mark.spec("N9")
async def test_a_limit_is_waited_for_as_it_says_and_a_homeserver_that_is_away_leaves_nothing_uncertain(
    tmp_path: Path,
) -> None:
    with open_synapse(tmp_path / "slow", rate=0.1, burst=2) as slow:
        place = Place(slow, tmp_path)
        room = place.direct()
        async with place.served() as account:
            limited = await _refusal_of_many(account, room)
            slow.stop()
            assert isinstance(await place.host.wait_end(), ChannelDown)
            with pytest.raises(DeliveryError) as refused:
                await account.send(piece(room, "x", "k9"))
    assert limited.retryable
    assert 1 < (limited.retry_after_s or 0) <= 60
    assert refused.value.retryable
    assert not isinstance(refused.value, DeliveryUncertain)


async def _refusal_of_many(account: MatrixAccount, room: str) -> DeliveryError:
    try:
        for number in range(9):
            await account.send(piece(room, str(number), f"k{number}"))
    except DeliveryError as error:
        return error
    raise AssertionError("the homeserver has no limit")


async def test_an_encrypted_room_is_never_answered_in_clear_and_this_is_said(place: Place) -> None:
    algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
    state = [{"type": "m.room.encryption", "state_key": "", "content": algorithm}]
    room = place.ann.make_room(place.bot.user_id, direct=True, initial_state=state)
    place.bot.join(room)
    async with place.served() as account:
        with pytest.raises(DeliveryError, match="encrypt"):
            await account.send(piece(room, "secret", "k1"))
        with pytest.raises(DeliveryError, match="encrypt"):
            await account.send(piece(room, "secret", "k2", media=picture()))
    assert place.ann.heard_from(room, place.bot.user_id) == []


async def test_a_place_that_the_homeserver_forgot_begins_anew_and_says_so(place: Place) -> None:
    room, host = place.direct(), place.host
    async with place.served():
        pass
    (name,) = [name for name in host.cursors if name.startswith("sync ")]
    host.cursors[name] = "not a token"
    async with place.served():
        await host.wait_trouble()
        place.ann.say(room, "still there?")
        await host.wait_for(1)
    assert isinstance(host, MatrixHost)
    assert "place" in host.troubles[0]
