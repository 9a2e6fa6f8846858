"""One Telegram bot against a strict Bot API: what goes out, what is refused and how, what is asked for and when."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossclaw.channels.contract import OutgoingFile, Piece, Received, WebhookRequest
from crossclaw.channels.http import HttpClients
from crossclaw.channels.telegram.account import (
    CURSOR_KEPT_MS,
    TelegramAccount,
    TelegramCursor,
    open_account,
)
from crossclaw.channels.telegram.client import AFTER_CONFLICT_S, POLL_S
from crossclaw.channels.telegram.settings import TelegramSettings
from crossclaw.display.dialects import DIALECTS
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
    StoreFull,
)
from crossclaw.domain.secret import Secret
from tests.channels.fake_http import FakeAnswer, FakeTransport
from tests.channels.listening import ListeningHost
from tests.channels.telegram.driver import TOKEN, refusal
from tests.channels.telegram.fake import FakeTelegram
from tests.channels.telegram.html_rules import visible
from tests.chunking import chunks

pytestmark = pytest.mark.spec("N2")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 64


class Scene:
    def __init__(self) -> None:
        self.fake = FakeTelegram()
        self.bot = self.fake.add_bot(TOKEN)
        self.fake.add_chat(42, first_name="Ann")
        self.fake.add_chat(-1005, "supergroup", title="Team", is_forum=True, topics={7})
        self.host = ListeningHost(
            HttpClients(FakeTransport({"api.telegram.org": self.fake})), "telegram"
        )

    async def account(self, **given: Any) -> TelegramAccount:
        settings = TelegramSettings(**{"bot_token": Secret(TOKEN), **given})
        return await open_account(settings, self.host)

    @asynccontextmanager
    async def served(self, **given: Any) -> AsyncGenerator[TelegramAccount]:
        account = await self.account(**given)
        async with anyio.create_task_group() as tasks:
            await tasks.start(account.serve, self.host)
            yield account
            tasks.cancel_scope.cancel()

    def asked(self, method: str) -> list[Any]:
        return [each.json() for each in self.fake.requests if each.path.endswith(f"/{method}")]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def piece(text: str, formatted: str | None = None, **fields: Any) -> Piece:
    where = fields.pop("address", None) or Address("telegram", "42", "default")
    return Piece(
        address=where, text=text, formatted=formatted or text, delivery_key="reply:r1#1", **fields
    )


# ── what goes out ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N9")
async def test_marks_go_out_as_html_and_a_refused_message_goes_once_without_them(
    scene: Scene,
) -> None:
    """Trap 16: never the raw marks, and never nothing."""
    account = await scene.account()
    await account.send(piece("bold & true", "<b>bold</b> &amp; true"))
    await account.send(piece("bold", "<b>bold"))

    assert [(seen.text, seen.formatted) for seen in scene.fake.seen] == [
        ("bold & true", True),
        ("bold", False),
    ]
    assert len(scene.asked("sendMessage")) == 3


@pytest.mark.spec("N9")
async def test_a_reply_names_its_question_and_a_deleted_one_does_not_keep_it_back(
    scene: Scene,
) -> None:
    account = await scene.account(link_preview=False)
    sent = await account.send(piece("yes", reply_to="999999"))

    (asked,) = scene.asked("sendMessage")
    assert asked["reply_parameters"] == {"message_id": 999999, "allow_sending_without_reply": True}
    assert asked["link_preview_options"] == {"is_disabled": True}
    assert sent == str(scene.fake.seen[0].message_id)
    await account.edit(Address("telegram", "42", "default"), sent, piece("yes, surely"))
    (changed,) = scene.asked("editMessageText")
    assert changed["link_preview_options"] == {"is_disabled": True}


@pytest.mark.spec("N9")
async def test_general_is_left_out_on_sending_and_kept_for_typing_and_a_topic_that_is_gone_fails(
    scene: Scene,
) -> None:
    """Traps 18, 19, 20."""
    account = await scene.account()
    general, topic, gone = (
        Address("telegram", "-1005", "default", each) for each in ("1", "7", "8")
    )
    await account.send(piece("a", address=general))
    await account.send(piece("b", address=topic))
    await account.show_typing(general)
    with pytest.raises(DeliveryError, match="thread not found") as refused:
        await account.send(piece("c", address=gone))

    assert [(seen.text, seen.thread) for seen in scene.fake.seen] == [("a", 1), ("b", 7)]
    assert scene.fake.actions == [(-1005, 1, "typing")]
    assert not refused.value.retryable


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal(429, "Too Many Requests: retry after 17", retry_after=17), {"retryable": True, "retry_after_s": 17.0}),
        (refusal(403, "Forbidden: bot was kicked from the group chat"), {"chat_gone": True, "retryable": False}),
        (refusal(401, "Unauthorized"), {"stops_account": True}),
        (refusal(400, "Bad Request: chat not found"), {"chat_gone": True}),
    ],
)  # fmt: skip
async def test_a_refusal_says_what_it_means(
    scene: Scene, answer: FakeAnswer, expected: dict[str, Any]
) -> None:
    """Traps 9, 12, 21."""
    scene.fake.refuse("/sendMessage", answer)
    account = await scene.account()
    with pytest.raises(DeliveryError) as refused:
        await account.send(piece("x"))

    assert {name: getattr(refused.value, name) for name in expected} == expected
    assert not isinstance(refused.value, DeliveryUncertain)
    assert len(scene.asked("sendMessage")) == 1


@pytest.mark.spec("N9", "B2")
async def test_numbers_in_a_text_mean_nothing_and_a_status_of_500_means_nobody_knows(
    scene: Scene,
) -> None:
    """Trap 15."""
    account = await scene.account()
    for _ in range(2):
        scene.fake.refuse(
            "/sendMessage", refusal(400, "Bad Request: 401 Unauthorized 429 in a text")
        )
    with pytest.raises(DeliveryError) as refused:
        await account.send(piece("x"))
    assert (refused.value.stops_account, refused.value.retryable) == (False, False)

    scene.fake.refuse("/sendMessage", FakeAnswer(502, b"<html>Bad Gateway</html>", "text/html"))
    with pytest.raises(DeliveryUncertain):
        await account.send(piece("x"))
    scene.fake.refuse("/sendMessage", FakeAnswer(200, b"<html>a proxy's page</html>", "text/html"))
    with pytest.raises(DeliveryUncertain):
        await account.send(piece("x"))


@pytest.mark.spec("N9")
async def test_files_go_as_what_they_are_and_a_picture_that_is_none_goes_as_a_file(
    scene: Scene,
) -> None:
    account = await scene.account()

    def file(kind: Any, mime: str, data: bytes = PNG) -> OutgoingFile:
        return OutgoingFile(kind=kind, data=data, mime=mime, name="f")

    await account.send(piece("look", "<b>look</b>", media=file("image", "image/png")))
    await account.send(piece("", media=file("image", "image/png", b"no picture")))
    await account.send(piece("", media=file("audio", "audio/ogg")))
    await account.send(piece("bad", "<b>bad", media=file("document", "text/plain")))

    assert [(seen.kind, seen.text) for seen in scene.fake.seen] == [
        ("photo", "look"),
        ("document", ""),
        ("voice", ""),
        ("document", "bad"),
    ]


async def test_a_message_is_edited_and_the_same_text_again_is_no_error(scene: Scene) -> None:
    account = await scene.account()
    where = Address("telegram", "42", "default")
    sent = await account.send(piece("one"))
    assert sent is not None
    await account.edit(where, sent, piece("two"))
    await account.edit(where, sent, piece("two"))

    assert [(seen.text, seen.edits) for seen in scene.fake.seen] == [("two", 1)]


async def test_typing_and_reactions_are_best_effort(scene: Scene) -> None:
    """Trap 13: nobody waits for them, so their failures disturb nobody."""
    account = await scene.account()
    where = Address("telegram", "42", "default")
    await account.react(where, "7", "👀")
    await account.react(where, "8", "🦀")
    scene.fake.cut("/sendChatAction", "after")
    await account.show_typing(where)
    await account.react(where, "7", "👀", on=False)

    assert scene.fake.reactions == {(42, 7): []}


EMOJI = st.sampled_from(
    [
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "🇩🇪",
        "👍🏽",
        "e\u0301",
        "ab ",
        "**b** ",
        "`c`",
        "<i>",
        "&",
        "\n\n",
        "```\nx\n```\n",
    ]
)


@pytest.mark.spec("N9")
@settings(max_examples=40)
@given(st.lists(EMOJI, max_size=60).map("".join), st.integers(64, 200))
@example("👩‍👩‍👧‍👦" * 60, 64)
@example("```\n" + "🇩🇪👍🏽" * 40 + "\n```", 64)
@example("🇩🇪" * 99, 67)
def test_every_piece_of_a_reply_is_one_that_telegram_takes(text: str, limit: int) -> None:
    """Traps 16 and 17: marks closed in each piece, within the limit in UTF-16 units, no sign cut in half."""
    for made in chunks(text, DIALECTS["telegram"], limit):
        shown = visible(made)
        assert len(shown.encode("utf-16-le")) // 2 <= limit
        assert not shown.startswith(("\u200d", "\ufe0f", "\u0301", "\U0001f3fd"))
        assert not shown.endswith("\u200d")
        assert sum("\U0001f1e6" <= each <= "\U0001f1ff" for each in shown) % 2 == 0


# ── what arrives ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N8")
async def test_polling_ends_a_webhook_that_was_left_and_keeps_what_waits(scene: Scene) -> None:
    """Trap 5."""
    scene.bot.webhook = {"url": "https://old.example/hook"}
    scene.fake.say(scene.bot, 42, "waiting")
    async with scene.served():
        await scene.host.wait_received(1)

    assert scene.asked("deleteWebhook") == [{"drop_pending_updates": False}]
    assert scene.host.facts is not None
    assert (scene.host.facts.id, scene.host.facts.name) == ("700", "@claw_bot")


@pytest.mark.spec("N8")
async def test_the_offset_moves_after_each_message_and_not_past_one_that_was_not_stored(
    scene: Scene,
) -> None:
    """Trap 2."""
    scene.host.faults = []
    for text in ("one", "two", "three"):
        scene.fake.say(scene.bot, 42, text)
    account = await scene.account()
    original = scene.host.receive

    async def full_at_two(inbound: Any) -> Any:
        if inbound.text == "two":
            raise StoreFull("the disk is full")
        return await original(inbound)

    scene.host.receive = full_at_two  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await account.serve(scene.host)
    assert [update["message"]["text"] for update in scene.fake.pending(scene.bot)] == [
        "one",
        "two",
        "three",
    ]
    scene.host.receive = original  # type: ignore[method-assign]
    async with scene.served():
        await scene.host.wait_received(3)
        await anyio.sleep(1)

    assert scene.host.texts == ["one", "two", "three"]
    assert scene.fake.pending(scene.bot) == []


@pytest.mark.spec("N8")
async def test_an_album_is_one_message_also_when_its_parts_come_one_by_one(scene: Scene) -> None:
    """Trap 48."""

    def part(name: str, **more: Any) -> None:
        photo = [{"file_id": name, "width": 9}]
        scene.fake.say(scene.bot, 42, photo=photo, media_group_id="g1", **more)

    async with scene.served():
        scene.fake.say(scene.bot, 42, "before")
        await scene.host.wait_received(1)
        part("a", caption="look")
        await anyio.sleep(0.5)
        part("b")
        await anyio.sleep(0.5)
        part("c", caption="and this")
        scene.fake.say(scene.bot, 42, "after")
        await scene.host.wait_received(3)
        await anyio.sleep(5)

    assert scene.host.texts == ["before", "look\nand this", "after"]
    assert [each.id for each in scene.host.received[1].attachments] == ["a", "b", "c"]
    assert scene.fake.pending(scene.bot) == []


@pytest.mark.spec("N8")
@pytest.mark.parametrize("by_webhook", [False, True])
async def test_a_text_too_long_for_one_message_is_one_message(
    scene: Scene, by_webhook: bool
) -> None:
    """Trap 48: people's programs cut what is pasted at 4,096 units, at a blank if there is one."""
    words, solid = "word " * 800 + "end", "x" * 4_096
    parts, noon = [words, solid, "tail", "and now?"], 1_767_268_800
    async with scene.served(**(BY_WEBHOOK if by_webhook else {})) as account:

        async def say(text: str, date: int, **more: Any) -> None:
            scene.fake.say(scene.bot, 42, text, date=date, **more)
            if by_webhook:
                update = msgspec.json.encode(scene.bot.updates[-1])
                assert (await account.webhook(posted(update, "s3cret_-"))).status == 200
            await anyio.sleep(0.3)

        for text in parts[:3]:
            await say(text, noon)
        await anyio.sleep(5)
        await say(parts[3], noon + 5)
        await say(words, noon + 60)
        await say("written a minute later", noon + 120)
        await scene.host.wait_received(4)
        await anyio.sleep(5)

    joined = f"{words}\n{solid}tail"
    assert scene.host.texts == [joined, "and now?", words, "written a minute later"]


@pytest.mark.spec("N8")
async def test_another_bot_does_not_inherit_the_offset(scene: Scene) -> None:
    """Trap 3: it would be deaf."""
    scene.fake.say(scene.bot, 42, "to the first")
    async with scene.served():
        await scene.host.wait_received(1)
    other = scene.fake.add_bot("800:AAE-other", "other_bot")
    other.next_update = 5
    scene.fake.say(other, 42, "to the other")
    async with scene.served(bot_token=Secret("800:AAE-other")):
        await scene.host.wait_received(2)

    assert scene.host.texts == ["to the first", "to the other"]


@pytest.mark.spec("N8")
async def test_after_a_week_of_silence_updates_with_new_numbers_are_heard(scene: Scene) -> None:
    """Trap 3: Telegram numbers them anew then, and an old offset would confirm them unseen."""
    scene.fake.say(scene.bot, 42, "before")
    async with scene.served():
        await scene.host.wait_received(1)
    name = f"updates of bot {scene.bot.id}"
    cursor = msgspec.json.decode(scene.host.cursors[name], type=TelegramCursor)
    old = msgspec.structs.replace(cursor, at=cursor.at - CURSOR_KEPT_MS - 1)
    scene.host.cursors[name] = msgspec.json.encode(old).decode()
    scene.bot.updates, scene.bot.next_update, scene.bot.confirmed = [], 3, 0
    scene.fake.say(scene.bot, 42, "after")
    async with scene.served():
        with anyio.fail_after(POLL_S):
            await scene.host.wait_received(2)

    assert scene.host.texts == ["before", "after"]


@pytest.mark.spec("N8")
async def test_what_was_written_long_before_the_very_first_start_is_not_answered(
    scene: Scene,
) -> None:
    """Trap 30."""
    scene.fake.say(scene.bot, 42, "yesterday", date=1_767_268_800 - 86_400)
    scene.fake.say(scene.bot, 42, "just now")
    async with scene.served():
        await scene.host.wait_received(1)
        await anyio.sleep(60)

    assert scene.host.texts == ["just now"]


@pytest.mark.spec("N8", "B1")
async def test_the_first_message_ever_is_answered_however_long_nobody_was_there_to_take_it(
    scene: Scene,
) -> None:
    async with scene.served():
        await anyio.sleep(120)
    await anyio.sleep(600)
    scene.fake.say(scene.bot, 42, "while you were away")
    await anyio.sleep(1_200)
    scene.host.faults.append(StoreFull("no room"))
    with pytest.raises(StoreFull):
        await (await scene.account()).serve(scene.host)
    await anyio.sleep(1_200)
    async with scene.served():
        await scene.host.wait_received(1)

    assert scene.host.texts == ["while you were away"]


@pytest.mark.spec("N8")
async def test_by_webhook_what_was_written_long_before_the_first_start_is_not_answered_either(
    scene: Scene,
) -> None:
    await anyio.sleep(3_600)
    scene.fake.say(scene.bot, 42, "yesterday", date=1_767_268_800 - 86_400)
    async with scene.served(**BY_WEBHOOK) as account:
        await account.webhook(posted(msgspec.json.encode(scene.bot.updates[-1]), "s3cret_-"))
    scene.fake.say(scene.bot, 42, "while you were away")
    await anyio.sleep(3_600)
    async with scene.served(**BY_WEBHOOK) as account:
        await account.webhook(posted(msgspec.json.encode(scene.bot.updates[-1]), "s3cret_-"))

    assert scene.host.texts == ["while you were away"]


@pytest.mark.parametrize(
    "left",
    [
        {"updates of bot 700": '{"offset":7,"at":1}'},
        {"identity": '{"id":"700"}'},
        {"first start of bot 700": "99999999999999"},
    ],
)
async def test_a_bot_of_an_earlier_release_or_of_a_clock_that_was_ahead_is_heard(
    scene: Scene, left: dict[str, str]
) -> None:
    scene.host.cursors |= left
    scene.fake.say(scene.bot, 42, "while you were updated")
    await anyio.sleep(0 if "first" in "".join(left) else 3_600)
    async with scene.served():
        await scene.host.wait_received(1)

    assert scene.host.texts == ["while you were updated"]


@pytest.mark.spec("N8")
async def test_a_second_program_that_asks_is_waited_for_longer_than_its_question(
    scene: Scene,
) -> None:
    """Trap 4."""
    account = await scene.account()
    async with anyio.create_task_group() as tasks:

        async def disturb() -> None:
            await anyio.sleep(3)
            await scene.account()
            params = {"offset": 0, "timeout": 1}
            await scene.fake._call(scene.bot, "getupdates", params)

        tasks.start_soon(disturb)
        with pytest.raises(ChannelDown, match="another program") as down:
            await account.serve(scene.host)

    assert down.value.retry_after_s == AFTER_CONFLICT_S > POLL_S


async def test_a_token_that_telegram_does_not_know_is_for_a_person(scene: Scene) -> None:
    account = await scene.account(bot_token=Secret("999:wrong"))
    with pytest.raises(AccountBroken, match="@BotFather"):
        await account.serve(scene.host)
    with pytest.raises(AccountBroken, match="@BotFather"):
        await scene.account(bot_token=Secret("not a token"))


@pytest.mark.spec("N8", "N9")
async def test_a_group_that_becomes_a_supergroup_keeps_its_session_and_its_replies(
    scene: Scene,
) -> None:
    """Trap 21, both ways in which it is learnt: by a message, and by a refusal."""
    scene.fake.add_chat(-5, "group", title="Team", moved_to=-1005)
    scene.fake.add_chat(-6, "group", title="Other", moved_to=-1006)
    scene.fake.add_chat(-1006, "supergroup", title="Other")
    message = {"message_id": 1, "date": 1, "chat": {"id": -5, "type": "group"}}
    scene.fake.update(scene.bot, {"message": {**message, "migrate_to_chat_id": -1005}})
    async with scene.served() as account:
        scene.fake.say(scene.bot, -1005, "still us")
        await scene.host.wait_received(1)
        for chat in ("-5", "-6", "-6"):
            await account.send(piece("x", address=Address("telegram", chat, "default")))
    async with scene.served() as account:  # and after a restart
        scene.fake.say(scene.bot, -1006, "us too")
        await scene.host.wait_received(2)
        await account.send(piece("y", address=Address("telegram", "-6", "default")))

    known = [(each.chat_id, each.parent_chat_id, each.address.to) for each in scene.host.received]
    assert known == [("-5", "-1005", "-1005"), ("-6", "-1006", "-1006")]
    assert [seen.chat for seen in scene.fake.seen] == [-1005, -1006, -1006, -1006]
    assert len(scene.asked("sendMessage")) == 5  # one refusal in all


@pytest.mark.spec("N8")
async def test_files_are_fetched_within_the_limit_and_the_token_is_in_no_log(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Trap 45. Telegram has the token in the address of every file."""
    caplog.set_level(logging.DEBUG, logger="crossclaw")
    scene.fake.files["f1"] = PNG
    account = await scene.account()
    assert await account.fetch(Attachment(kind="image", id="f1"), 1_000) == PNG
    for what, limit in (("f1", 10), ("missing", 1_000)):
        with pytest.raises(MediaRefused) as refused:
            await account.fetch(Attachment(kind="image", id=what), limit)
        assert TOKEN not in str(refused.value)
    scene.fake.cut("/sendMessage", "after")
    with pytest.raises(DeliveryUncertain) as uncertain:
        await account.send(piece("x"))

    assert TOKEN not in str(uncertain.value)
    assert TOKEN.partition(":")[2] not in caplog.text


# ── the webhook and the token ──────────────────────────────────────────────────────────────────


def posted(body: bytes, secret: str) -> WebhookRequest:
    headers = {"x-telegram-bot-api-secret-token": secret}
    return WebhookRequest(
        method="POST", path="/telegram-webhook", query={}, headers=headers, body=body
    )


@pytest.mark.spec("N8")
async def test_telegram_may_call_with_its_secret_and_nobody_else(scene: Scene) -> None:
    """Trap 37."""
    url = {"webhook_url": "https://claw.example/telegram-webhook"}
    update = b'{"update_id": 5, "message": {"message_id": 1, "date": 1767268800, "chat": {"id": 42, "type": "private"}, "from": {"id": 42, "is_bot": false}, "text": "hi"}}'
    async with scene.served(**url, webhook_secret=Secret("s3cret_-")) as account:
        assert scene.bot.webhook is not None
        assert (scene.bot.webhook["secret_token"], scene.bot.webhook["max_connections"]) == (
            "s3cret_-",
            1,
        )
        answers = [
            (await account.webhook(posted(body, secret))).status
            for body, secret in (
                (update, "s3cret_-"),
                (update, "wrong"),
                (b"{", "s3cret_-"),
                (b"{", ""),
            )
        ]
        scene.host.faults = [StoreFull("the disk is full")]
        with pytest.raises(StoreFull):  # so it is not acknowledged
            await account.webhook(posted(update, "s3cret_-"))

    assert answers == [200, 401, 200, 401]
    assert scene.host.texts == ["hi"]


def album_part(number: int, chat: int = 42, **more: Any) -> WebhookRequest:
    message = {
        "message_id": number,
        "date": 1767268800,
        "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup", "title": "T"},
        "from": {"id": 42, "is_bot": False, "first_name": "Ann"},
        **more,
    }
    if "text" not in more:
        message = {"photo": [{"file_id": f"f{number}", "width": 9}], "media_group_id": "g1", **message}  # fmt: skip
    return posted(msgspec.json.encode({"update_id": 100 + number, "message": message}), "s3cret_-")


BY_WEBHOOK = {"webhook_url": "https://claw.example/x", "webhook_secret": Secret("s3cret_-")}


@pytest.mark.spec("N8")
async def test_an_album_by_webhook_is_one_message_whose_parts_are_stored_before_they_are_acknowledged(
    scene: Scene,
) -> None:
    """Trap 48. Telegram calls with the next part after the one before was acknowledged."""
    async with scene.served(**BY_WEBHOOK) as account:
        for number in (1, 2, 2, 3):  # one of them twice: our answer was lost
            assert (await account.webhook(album_part(number))).status == 200
            await anyio.sleep(1)
        await account.webhook(album_part(4, text="what is it?"))
        await account.webhook(album_part(3))  # once more, much too late
        await account.webhook(album_part(5, media_group_id="g2", caption="later"))
        await account.webhook(album_part(6, chat=-1005, caption="elsewhere"))
        await account.webhook(album_part(7, chat=-1005, text="elsewhere"))
        assert scene.host.texts == ["", "what is it?", "elsewhere", "elsewhere"]
        await scene.host.wait_received(5)
        await anyio.sleep(10)

    files = [[each.id for each in inbound.attachments] for inbound in scene.host.received]
    assert files == [["f1", "f2", "f3"], [], ["f6"], [], ["f5"]]
    assert scene.host.received[0].message_id == "1"
    assert [each.joined for each in scene.host.received] == [True, False, False, False, False]


@pytest.mark.spec("N8")
@pytest.mark.parametrize("then_by_webhook", [True, False])
async def test_nothing_of_an_album_is_lost_or_doubled_when_the_gateway_dies_between_its_parts(
    scene: Scene, then_by_webhook: bool
) -> None:
    async with scene.served(**BY_WEBHOOK) as account:
        for number in (1, 2):
            await account.webhook(album_part(number))
    assert scene.host.received == []
    async with scene.served(**(BY_WEBHOOK if then_by_webhook else {})) as account:
        if then_by_webhook:
            for number in (2, 3):
                await account.webhook(album_part(number))
        await scene.host.wait_received(1)
        await anyio.sleep(10)
    (whole,) = scene.host.received
    assert len(whole.attachments) == (3 if then_by_webhook else 2)


@pytest.mark.spec("N8", "B2")
@pytest.mark.parametrize("by_webhook", [False, True])
async def test_parts_that_come_after_the_gateway_died_while_it_received_the_first_ones_are_not_lost(
    scene: Scene, by_webhook: bool
) -> None:
    """The first ones are known by then under the id of the very first: what is joined to them is not looked at again."""
    given, listen, known = BY_WEBHOOK if by_webhook else {}, scene.host.receive, set[str]()
    photo = [{"file_id": "f", "width": 9}]

    async def accepted(inbound: Inbound) -> Received:
        if inbound.message_id in known:
            return Received(what="accepted", run_id="the same")
        known.add(inbound.message_id)
        received = await listen(inbound)
        if len(known) == 1:
            raise ChannelDown("it was killed after the message was stored")
        return received

    async def part(account: TelegramAccount, caption: str) -> None:
        scene.fake.say(scene.bot, 42, photo=photo, media_group_id="g1", caption=caption)
        if by_webhook:
            update = msgspec.json.encode(scene.bot.updates[-1])
            assert (await account.webhook(posted(update, "s3cret_-"))).status == 200

    async def said(*captions: str) -> None:
        async with scene.served(**given) as account:
            for caption in captions:
                await part(account, caption)
            await anyio.sleep(60)

    scene.host.receive = accepted  # type: ignore[method-assign]
    with pytest.raises(BaseExceptionGroup):
        await said("one", "two")
    await said("three")
    assert scene.host.texts == ["one\ntwo", "three"]


async def test_a_part_of_an_album_that_cannot_be_stored_is_not_acknowledged(scene: Scene) -> None:
    stored, full = scene.host.save_cursor, [StoreFull("the disk is full")]

    async def save_cursor(name: str, value: str) -> None:
        if full:
            raise full.pop()
        await stored(name, value)

    async with scene.served(**BY_WEBHOOK) as account:
        scene.host.save_cursor = save_cursor  # type: ignore[method-assign]
        with pytest.raises(StoreFull):
            await account.webhook(album_part(1))
        for number in range(1, 12):
            await account.webhook(album_part(number))
        assert len(scene.host.received) == 1  # an album has ten parts, and then it is whole
        await scene.host.wait_received(2)
    assert [len(each.attachments) for each in scene.host.received] == [10, 1]


async def test_nothing_of_an_album_is_kept_of_who_may_not_talk(scene: Scene) -> None:
    scene.host.strangers = {"42"}
    async with scene.served(**BY_WEBHOOK) as account:
        for number in (1, 2):
            await account.webhook(album_part(number, caption="let me in"))
        assert len(scene.host.received) == 2, "each is refused as it comes"
        assert "let me in" not in str(scene.host.cursors)


async def test_many_albums_at_once_do_not_wait_for_each_other(scene: Scene) -> None:
    async with scene.served(**BY_WEBHOOK) as account:
        for number in range(1, 23):
            await account.webhook(album_part(number, chat=1000 + number))
        assert len(scene.host.received) == 2  # twenty are kept; the oldest make room
        await scene.host.wait_received(22)


async def test_a_webhook_needs_a_secret_of_its_own(scene: Scene) -> None:
    for secret in (None, Secret("has a space")):
        account = await scene.account(webhook_url="https://claw.example/x", webhook_secret=secret)
        with pytest.raises(AccountBroken, match="webhookSecret"):
            await account.serve(scene.host)


async def test_a_token_file_that_is_named_is_the_token_or_there_is_none(
    scene: Scene, tmp_path: Path
) -> None:
    """Not the next source: two bots must not be mixed up."""
    there = tmp_path / "token"
    there.write_text(f"{TOKEN}\n")
    account = await scene.account(bot_token=Secret("1:other"), token_file=str(there))
    assert (await account.probe()).id == "700"
    with pytest.raises(AccountBroken, match="tokenFile"):
        await scene.account(token_file=str(tmp_path / "missing"))
