"""What the Bot API sends, read: the shapes are those of https://core.telegram.org/bots/api (9.3)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.channels.telegram.manifest import MANIFEST, normalize_sender, read_target
from crossclaw.channels.telegram.reading import ChatMoved, ReadingBot, Skipped, read_update
from crossclaw.channels.telegram.updates import TelegramUpdate
from crossclaw.domain.addresses import Inbound

BOT = ReadingBot(id=700, username="Claw_Bot", account_id="default")
ANN = {"id": 42, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
PRIVATE = {"id": 42, "type": "private", "first_name": "Ann"}
GROUP = {"id": -100123, "type": "supergroup", "title": "Team"}
FORUM = {**GROUP, "is_forum": True}


def read(kind: Any = "message", **fields: Any) -> Any:
    message = {"message_id": 7, "date": 1_767_268_800, "chat": PRIVATE, "from": ANN, **fields}
    raw = msgspec.json.encode({"update_id": 1, kind: message})
    return read_update(msgspec.json.decode(raw, type=TelegramUpdate), BOT)


def entity(text: str, part: str, kind: str, **more: Any) -> dict[str, Any]:
    def units(value: str) -> int:
        return len(value.encode("utf-16-le")) // 2

    return {"type": kind, "offset": units(text[: text.index(part)]), "length": units(part), **more}


@pytest.mark.spec("N2", "N8")
def test_a_direct_message_has_its_sender_by_number_and_its_time() -> None:
    found = read(text="hello")

    assert isinstance(found, Inbound)
    assert (found.sender, found.address.to, found.address.thread_id) == ("42", "42", None)
    assert (found.chat_type, found.sender_name, found.at_ms) == (
        "direct",
        "Ann Lee",
        1_767_268_800_000,
    )
    assert (found.message_id, found.text) == ("7", "hello")


@pytest.mark.spec("N2", "N8")
@pytest.mark.parametrize(
    ("text", "part", "kind", "more", "mentioned"),
    [
        ("👩‍👩‍👧 hey @claw_bot", "@claw_bot", "mention", {}, True),
        ("hey @claw_bottle", "@claw_bottle", "mention", {}, False),
        ("hey Claw", "Claw", "text_mention", {"user": {"id": 700, "is_bot": True}}, True),
        ("hey Claw", "Claw", "text_mention", {"user": {"id": 701, "is_bot": False}}, False),
        ("@claw_bot in a quote is only text", "quote", "italic", {}, False),
    ],
)
def test_a_mention_is_what_telegram_marks_as_one(
    text: str, part: str, kind: str, more: dict[str, Any], mentioned: bool
) -> None:
    found = read(chat=GROUP, text=text, entities=[entity(text, part, kind, **more)])

    assert found.mentioned is mentioned


@pytest.mark.spec("N2", "N8")
def test_a_mention_in_the_message_that_is_quoted_is_none() -> None:
    """Trap 39."""
    asked = "ask @claw_bot"
    quoted = {
        "message_id": 5,
        "date": 1,
        "chat": GROUP,
        "from": {**ANN, "id": 43},
        "text": asked,
        "entities": [entity(asked, "@claw_bot", "mention")],
    }
    found = read(chat=GROUP, text="what did he say?", reply_to_message=quoted)

    assert found.mentioned is False
    assert (found.reply_to.ours, found.reply_to.sender, found.reply_to.text) == (False, "43", asked)


@pytest.mark.spec("N2", "N8")
def test_a_reply_to_our_message_is_meant_for_us_and_a_topics_first_message_is_not() -> None:
    """Trap 39."""
    ours = {
        "message_id": 5,
        "date": 1,
        "chat": FORUM,
        "from": {"id": 700, "is_bot": True},
        "text": "hi",
    }
    topic = {"message_thread_id": 5, "is_topic_message": True, "chat": FORUM}

    assert read(chat=GROUP, text="and?", reply_to_message=ours).reply_to.ours
    assert read(text="new", reply_to_message=ours, **topic).reply_to is None
    opened = {**ours, "message_id": 6, "forum_topic_created": {"name": "x", "icon_color": 1}}
    assert (
        read(text="new", reply_to_message=opened, **{**topic, "message_thread_id": 9}).reply_to
        is None
    )


@pytest.mark.spec("N2", "K2")
def test_topics_are_threads_and_general_is_number_one() -> None:
    """Trap 18."""
    assert read(chat=FORUM, text="x").address.thread_id == "1"
    topic = read(chat=FORUM, text="x", message_thread_id=9, is_topic_message=True)
    assert topic.address.thread_id == "9"
    chain = read(chat=GROUP, text="x", message_thread_id=9)
    assert chain.address.thread_id is None
    private = read(text="x", message_thread_id=3, is_topic_message=True)
    assert private.address.thread_id == "3"


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("/new@claw_bot", "/new@claw_bot", "/new"),
        ("/think@CLAW_BOT high", "/think@CLAW_BOT", "/think high"),
        ("/new", "/new", "/new"),
        ("/new@other_bot", "/new@other_bot", None),
    ],
)
def test_a_command_that_names_us_is_the_command_and_one_for_another_bot_is_nothing(
    text: str, command: str, expected: str | None
) -> None:
    found = read(chat=GROUP, text=text, entities=[entity(text, command, "bot_command")])

    assert (found.text if isinstance(found, Inbound) else None) == expected
    if "@claw" in text.lower():
        assert found.mentioned


@pytest.mark.spec("N2")
def test_a_command_after_our_name_is_the_command_too() -> None:
    text = "@Claw_Bot /new"
    assert (
        read(chat=GROUP, text=text, entities=[entity(text, "@Claw_Bot", "mention")]).text == "/new"
    )


@pytest.mark.spec("N2", "N8")
@pytest.mark.parametrize(
    "fields",
    [
        {"text": "mine", "from": {"id": 700, "is_bot": True}},
        {"text": "by inline", "via_bot": {"id": 700, "is_bot": True}},
        {"text": "news", "chat": {"id": -1, "type": "channel", "title": "News"}},
        {"text": "news", "chat": GROUP, "is_automatic_forward": True},
        {"new_chat_members": [ANN], "chat": GROUP},
        {"pinned_message": {"message_id": 1, "date": 1, "chat": GROUP}, "chat": GROUP},
        {"text": "from nobody", "from": None},
    ],
)
def test_our_own_words_and_what_no_person_says_bring_nothing(fields: dict[str, Any]) -> None:
    """Trap 40."""
    assert isinstance(read(**fields), Skipped)


@pytest.mark.spec("N2", "N8")
def test_other_bots_are_marked_and_an_anonymous_administrator_is_the_chat() -> None:
    assert read(chat=GROUP, text="beep", **{"from": {"id": 9, "is_bot": True}}).sender_is_bot
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    found = read(chat=GROUP, text="hi", sender_chat=GROUP, **{"from": anonymous})
    assert (found.sender, found.sender_is_bot) == ("-100123", False)

    quoted = {"message_id": 5, "date": 1, "chat": GROUP, "text": "beep"}
    beep = {**quoted, "from": {"id": 9, "is_bot": True}}
    hidden = {**quoted, "from": anonymous, "sender_chat": GROUP}
    by_bot = read(chat=GROUP, text="look", reply_to_message=beep).reply_to
    by_chat = read(chat=GROUP, text="look", reply_to_message=hidden).reply_to
    by_person = read(chat=GROUP, text="look", reply_to_message={**quoted, "from": ANN}).reply_to
    assert (by_bot.sender, by_bot.sender_is_bot) == ("9", True)
    assert (by_chat.sender, by_chat.sender_is_bot) == ("-100123", False)
    assert (by_person.sender, by_person.sender_is_bot) == ("42", False)


@pytest.mark.spec("N2", "N8")
def test_files_are_named_and_not_fetched() -> None:
    photo = [
        {"file_id": "s", "width": 90, "file_size": 1},
        {"file_id": "l", "width": 900, "file_size": 9},
    ]
    found = read(photo=photo, caption="look", media_group_id="g1")
    assert [(a.kind, a.id, a.size) for a in found.attachments] == [("image", "l", 9)]
    assert (found.text, found.group_of) == ("look", "g1")

    voice = read(voice={"file_id": "v", "mime_type": "audio/ogg", "file_size": 5, "duration": 2})
    assert [(a.kind, a.voice, a.mime) for a in voice.attachments] == [("audio", True, "audio/ogg")]
    animation = {"file_id": "a", "mime_type": "video/mp4"}
    assert [a.kind for a in read(animation=animation, document=animation).attachments] == ["video"]
    assert [a.kind for a in read(sticker={"file_id": "st", "emoji": "🙂"}).attachments] == [
        "sticker"
    ]
    animated = read(sticker={"file_id": "st", "emoji": "🙂", "is_animated": True})
    assert (animated.attachments, animated.text) == ((), "[sticker 🙂]")


@pytest.mark.spec("N2")
def test_places_contacts_and_polls_are_put_into_words_and_forwarded_words_are_marked() -> None:
    assert read(location={"latitude": 1.5, "longitude": 2.5}).text == "[location: 1.5, 2.5]"
    assert read(contact={"phone_number": "+49", "first_name": "Bo"}).text == "[contact: Bo, +49]"
    poll = {"question": "When?", "options": [{"text": "now"}, {"text": "later"}]}
    assert read(poll=poll).text == "[poll: When? — now; later]"
    origin = {"type": "user", "sender_user": {"id": 9, "is_bot": False, "first_name": "Eve\n/stop"}}
    assert read(text="/stop", forward_origin=origin).text == "[forwarded from Eve /stop]\n/stop"


@pytest.mark.spec("N2")
def test_an_edit_and_a_reaction_say_of_what() -> None:
    edit = read("edited_message", text="better", edit_date=1_767_268_900)
    assert (edit.edit_of, edit.message_id) == ("7", "7:edit:1767268900")
    change = {
        "chat": PRIVATE,
        "message_id": 7,
        "date": 1_767_268_950,
        "user": ANN,
        "old_reaction": [],
        "new_reaction": [{"type": "emoji", "emoji": "👍"}],
    }
    raw = msgspec.json.encode({"update_id": 1, "message_reaction": change})
    found = read_update(msgspec.json.decode(raw, type=TelegramUpdate), BOT)
    assert isinstance(found, Inbound)
    assert (found.reaction_to, found.text) == ("7", "👍")
    assert found.message_id == "7:reaction:42:1767268950"


@pytest.mark.spec("N2")
def test_a_group_that_becomes_a_supergroup_is_the_same_chat() -> None:
    """Trap 21."""
    group = {"id": -5, "type": "group", "title": "Team"}
    assert read(chat=group, migrate_to_chat_id=-1005) == ChatMoved("-5", "-1005")


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("text", "to", "thread", "types"),
    [
        ("123", "123", None, ("direct",)),
        ("tg:-1005", "-1005", None, ("group", "channel")),
        ("telegram:group:-1005:topic:7", "-1005", "7", ("group", "channel")),
        ("-1005:7", "-1005", "7", ("group", "channel")),
        ("@some_name", "@some_name", None, ("group", "channel")),
        ("https://t.me/some_name", "@some_name", None, ("group", "channel")),
    ],
)
def test_targets_are_understood_as_openclaw_spells_them(
    text: str, to: str, thread: str | None, types: tuple[str, ...]
) -> None:
    found = read_target(text)
    assert found is not None
    assert (found.to, found.thread_id, found.types) == (to, thread, types)


@pytest.mark.spec("N2", "N8")
def test_only_numbers_are_ids_of_senders() -> None:
    """Trap 35: a name can be given up and taken by somebody else."""
    assert [normalize_sender(entry) for entry in ("42", "tg:42", "telegram:42", " 42 ")] == [
        "42"
    ] * 4
    assert [normalize_sender(entry) for entry in ("@ann", "ann", "", "*", "4 2")] == [None] * 5
    assert MANIFEST.read_target("") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "message_id",
        "date",
        "chat",
        "from",
        "text",
        "entities",
        "caption",
        "photo",
        "voice",
        "reply_to_message",
        "sender_chat",
        "forward_origin",
    ]
)


@pytest.mark.spec("N2", "N8")
@settings(max_examples=60)
@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_whatever_is_in_an_update_it_is_read_or_refused_and_nothing_else(
    fields: dict[str, Any],
) -> None:
    message = {"message_id": 7, "date": 1, "chat": GROUP, "from": ANN, "text": "x", **fields}
    raw = msgspec.json.encode({"update_id": 1, "message": message})
    try:
        update = msgspec.json.decode(raw, type=TelegramUpdate)
    except msgspec.DecodeError:
        return
    assert isinstance(read_update(update, BOT), Inbound | Skipped | ChatMoved)
