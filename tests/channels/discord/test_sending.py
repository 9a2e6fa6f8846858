"""What goes out to Discord: once, in order, within its limits; and what a refusal means."""

import anyio
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.channels.discord.account import DiscordAccount
from crossclaw.channels.discord.client import NONCE_CHARS, nonce_of
from crossclaw.display.dialects import Discord
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain, MediaRefused
from tests.channels.discord.rig import DiscordRig
from tests.channels.discord.world import FORUM, FakeChannel
from tests.channels.fake_http import FakeAnswer, json_of
from tests.chunking import chunks

pytestmark = pytest.mark.spec("N3", "N9")


def piece(
    to: str,
    text: str,
    key: str = "k1",
    *,
    reply_to: str | None = None,
    media: OutgoingFile | None = None,
) -> Piece:
    return Piece(
        address=Address("discord", to, "default"),
        text=text,
        formatted=text,
        delivery_key=key,
        reply_to=reply_to,
        media=media,
    )


@pytest.fixture
async def account(rig: DiscordRig) -> DiscordAccount:
    return rig.account(None)


async def test_a_message_to_a_person_and_to_a_channel_is_shown_there_and_calls_nobody(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    words = f"@everyone <@{rig.ana.id}> look"
    await account.send(piece(f"user:{rig.ana.id}", words, "a"))
    shown = await account.send(piece(f"channel:{rig.room.id}", words, "b"))

    assert rig.fake.texts(rig.ana) == [words]
    assert rig.fake.texts(rig.room) == [words]
    assert shown == rig.room.last_message_id
    assert rig.fake.pinged == []


@pytest.mark.parametrize("when", ["before", "read", "after"])
async def test_an_attempt_that_was_cut_off_is_repeated_without_showing_it_twice(
    rig: DiscordRig, account: DiscordAccount, when: str
) -> None:
    rig.fake.cut("/messages", when)  # type: ignore[arg-type]
    with pytest.raises(DeliveryError) as failed:
        await account.send(piece(f"channel:{rig.room.id}", "once"))
    assert isinstance(failed.value, DeliveryUncertain) == (when != "before")
    assert failed.value.retryable == (when == "before")
    assert account.knows_key_for_s() == 120

    await anyio.sleep(account.knows_key_for_s())
    again = await account.send(piece(f"channel:{rig.room.id}", "once"))
    assert rig.fake.texts(rig.room) == ["once"]
    assert again == rig.room.last_message_id


@pytest.mark.parametrize("how", ["read", "after", "status"])
async def test_a_direct_chat_that_could_not_be_opened_is_tried_again_and_leaves_nothing_uncertain(
    rig: DiscordRig, account: DiscordAccount, how: str
) -> None:
    if how == "status":
        rig.fake.refuse("/users/@me/channels", FakeAnswer(502))
    else:
        rig.fake.cut("/users/@me/channels", how)  # type: ignore[arg-type]
    with pytest.raises(DeliveryError) as failed:
        await account.send(piece(f"user:{rig.ana.id}", "once"))
    assert failed.value.retryable
    assert not isinstance(failed.value, DeliveryUncertain)

    await account.send(piece(f"user:{rig.ana.id}", "once"))
    assert rig.fake.texts(rig.ana) == ["once"]


async def test_the_same_words_with_another_key_are_another_message(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    for number in (1, 2):
        await account.send(piece(f"channel:{rig.room.id}", "again", f"run#{number}"))
    assert rig.fake.texts(rig.room) == ["again", "again"]
    assert len(nonce_of("run#1" * 100)) == NONCE_CHARS


async def test_many_messages_keep_the_limits_of_a_channel_and_of_the_bot_without_being_refused_once(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    rooms = [rig.fake.world.channel(f"room{n}", guild_id=rig.guild) for n in range(8)]

    async def fill(room: FakeChannel) -> None:
        for number in range(12):
            await account.send(piece(f"channel:{room.id}", str(number), f"{room.id}#{number}"))

    async with anyio.create_task_group() as tasks:
        for room in rooms:
            tasks.start_soon(fill, room)

    assert all(rig.fake.texts(room) == [str(n) for n in range(12)] for room in rooms)
    assert rig.fake.limited == 0


async def test_a_limit_that_lasts_is_left_to_the_outbox_and_one_of_the_bot_stops_all_of_it(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    body = {"message": "You are being rate limited.", "retry_after": 64.57, "global": True}
    headers = {"retry-after": "65", "x-ratelimit-global": "true", "x-ratelimit-scope": "global"}
    rig.fake.refuse("/messages", FakeAnswer(429, json_of(body).body, headers=headers))
    with pytest.raises(DeliveryError) as limited:
        await account.send(piece(f"channel:{rig.room.id}", "hello"))
    assert (limited.value.retryable, limited.value.retry_after_s) == (True, 64.57)
    assert limited.value.stops_account

    asked = len(rig.fake.requests)
    with pytest.raises(DeliveryError) as put_off:
        await account.send(piece(f"user:{rig.ana.id}", "hello"))
    assert (put_off.value.retryable, put_off.value.stops_account) == (True, True)
    assert put_off.value.retry_after_s == pytest.approx(65)
    assert len(rig.fake.requests) == asked  # a refused request counts against the bot

    await anyio.sleep(66)
    assert await account.send(piece(f"user:{rig.ana.id}", "hello"))


PLACES = {
    "unknown": "gone",
    "hidden": "gone",
    "read_only": "gone",
    "archived": "gone",
    "locked": "gone",
    "blocked by the person": "gone",
    "forum": "never",
    "too long": "never",
    "empty": "never",
    "token": "account",
}
ANSWERS: dict[str, tuple[FakeAnswer, str]] = {
    "server error": (FakeAnswer(502, b"<html>", "text/html"), "uncertain"),
    "overloaded": (json_of({"code": 130000, "message": "overloaded"}, 503), "later"),
    # The word "Unauthorized" says nothing: numbers count.
    "write limit": (
        json_of({"code": 20028, "message": "Unauthorized", "retry_after": 3}, 429),
        "later",
    ),
    "a proxy's page": (FakeAnswer(400, b"<html>bad gateway", "text/html"), "never"),
}


def arrange(rig: DiscordRig, what: str) -> tuple[str, str]:
    """Answers where to, and what to say."""
    to, text = f"channel:{rig.room.id}", "hello"
    if what in ANSWERS:
        rig.fake.refuse("/messages", ANSWERS[what][0])
    elif hasattr(rig.room, what):
        setattr(rig.room, what, True)
    elif what == "blocked by the person":
        rig.ana.blocks_us, to = True, f"user:{rig.ana.id}"
    elif what == "forum":
        to = f"channel:{rig.fake.world.channel('f', type=FORUM, guild_id=rig.guild).id}"
    elif what == "token":
        rig.fake.token = "another"
    else:
        texts = {"too long": "x" * 2001, "empty": " "}
        to, text = to if what in texts else "channel:123456789012345678", texts.get(what, text)
    return to, text


@pytest.mark.parametrize("what", [*PLACES, *ANSWERS])
async def test_a_refusal_means_what_its_number_says(
    rig: DiscordRig, account: DiscordAccount, what: str
) -> None:
    meaning = PLACES.get(what) or ANSWERS[what][1]
    to, text = arrange(rig, what)

    with pytest.raises(DeliveryError) as refused:
        await account.send(piece(to, text))
    error = refused.value
    found = {
        "gone": error.chat_gone,
        "account": error.stops_account,
        "uncertain": isinstance(error, DeliveryUncertain),
        "later": error.retryable,
    }
    assert [name for name, is_so in found.items() if is_so] == (
        [meaning] if meaning != "never" else []
    )
    assert rig.fake.texts(rig.room) == []


async def test_what_the_chunker_makes_is_never_too_long_for_discord(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    family = "👩‍👩‍👧‍👦"
    code = "x = 1\n" * 500
    text = f"{family * 300}\n\n```python\n{code}```\n\n" + "**bold words** " * 200
    made = chunks(text, Discord())
    for number, part in enumerate(made):
        await account.send(piece(f"channel:{rig.room.id}", part, f"long#{number}"))
    assert [each.strip() for each in rig.fake.texts(rig.room)] == [each.strip() for each in made]


async def test_a_reply_names_its_question_and_a_deleted_one_does_not_keep_the_answer_back(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    question = rig.fake.say(rig.ana, "why?", rig.room)
    where = f"channel:{rig.room.id}"
    await account.send(piece(where, "because", "a", reply_to=question))
    await account.send(piece(where, "still", "b", reply_to="123456789012345678"))
    first, second = rig.room.messages[1:]
    assert first["referenced_message"]["id"] == question
    assert "referenced_message" not in second


async def test_files_go_out_and_come_in_without_showing_the_token(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    media = OutgoingFile(kind="image", data=b"\x89PNG" * 10, mime="image/png", name="cat.png")
    await account.send(piece(f"channel:{rig.room.id}", "look", media=media))
    [shown] = rig.room.messages[-1]["attachments"]
    assert (shown["filename"], shown["content_type"]) == ("cat.png", "image/png")

    fetched = await account.fetch(Attachment(kind="image", id=shown["url"]), 1000)
    assert fetched == media.data
    assert rig.fake.complaints == []
    with pytest.raises(MediaRefused, match="allowed"):
        await account.fetch(Attachment(kind="image", id=shown["url"]), 10)
    for foreign in (
        "https://evil.example/x.png",
        "http://cdn.discordapp.com/x",
        "file:///etc/passwd",
    ):
        with pytest.raises(MediaRefused):
            await account.fetch(Attachment(kind="image", id=foreign), 1000)
    assert {asked.host for asked in rig.fake.requests} == {"discord.com", "cdn.discordapp.com"}

    too_big = OutgoingFile(kind="document", data=bytes(11 * 2**20), mime="a/b", name="b")
    with pytest.raises(DeliveryError, match="too large") as refused:
        await account.send(piece(f"channel:{rig.room.id}", "", "big", media=too_big))
    assert not refused.value.retryable


async def test_typing_a_reaction_and_an_edit_are_seen(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    where = Address("discord", f"channel:{rig.room.id}", "default")
    question = rig.fake.say(rig.ana, "hi", rig.room)
    await account.show_typing(where)
    await account.react(where, question, "👀")
    assert rig.fake.typing == [rig.room.id]
    assert rig.fake.reactions == [(rig.room.id, question, "👀")]
    await account.react(where, question, "👀", on=False)
    assert rig.fake.reactions == []

    sent = await account.send(piece(where.to, "draft"))
    assert sent is not None
    await account.edit(where, sent, piece(where.to, "done @everyone"))
    assert rig.fake.texts(rig.room) == ["done @everyone"]
    assert rig.fake.pinged == []


async def test_an_address_without_a_number_is_refused_before_anything_is_asked(
    rig: DiscordRig, account: DiscordAccount
) -> None:
    with pytest.raises(DeliveryError, match="user:<id> or channel:<id>"):
        await account.send(piece("#general", "hello"))
    assert rig.fake.requests == []
