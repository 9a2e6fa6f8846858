"""Slack: Socket Mode and signed events, what goes out, and what a refusal means."""

import msgspec
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece, WebhookRequest
from crossclaw.channels.slack.client import emoji_name
from crossclaw.channels.slack.manifest import normalize_sender, read_target
from crossclaw.channels.slack.payloads import SlackMessage
from crossclaw.channels.slack.reading import SlackReader, read_event
from crossclaw.channels.slack.settings import SlackSettings
from crossclaw.config.channels import DirectSettings, GroupSettings
from crossclaw.display.dialects import SlackMrkdwn
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import (
    AccountBroken,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
    StoreError,
)
from tests.channels.fake_http import FakeAnswer, json_of
from tests.channels.slack.fake import BOT_USER, TEAM
from tests.channels.slack.rig import ANA, HTTP, SOCKET, SlackRig
from tests.chunking import chunks

pytestmark = pytest.mark.spec("N8", "N9")

# ── what arrives by Socket Mode ────────────────────────────────────────────────────────────────


async def test_messages_are_acknowledged_after_they_were_accepted(rig: SlackRig) -> None:
    async with rig.served():
        rig.fake.say(ANA, "hello &lt;world&gt; &amp; all")
        rig.fake.say(
            ANA, f"<@{BOT_USER}> see <https://a.example|this> in <#C1|general>", rig.fake.room
        )
        await rig.until(lambda: len(rig.host.received) == 2 and not rig.fake.unacked)
    direct, spoken = rig.host.received
    assert (direct.text, direct.address.to, direct.chat_type) == (
        "hello <world> & all",
        f"user:{ANA}",
        "direct",
    )
    assert spoken.text == "see this (https://a.example) in #general"
    assert (spoken.mentioned, spoken.chat_type, spoken.chat_id, spoken.guild_id) == (
        True,
        "channel",
        rig.fake.room.id,
        TEAM,
    )
    assert rig.fake.complaints == []


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again(rig: SlackRig) -> None:
    rig.host.failures = 1
    rig.fake.say(ANA, "important")
    assert isinstance(await rig.serve_once(), StoreError)
    assert rig.fake.acked == []
    async with rig.served():
        await rig.until(lambda: rig.host.texts == ["important"] and not rig.fake.unacked)


async def test_a_mention_that_comes_as_two_events_is_one_message(rig: SlackRig) -> None:
    async with rig.served():
        text = f"<@{BOT_USER}> hi"
        ts = rig.fake.say(ANA, text, rig.fake.room)
        rig.fake.tell(
            {
                "type": "app_mention",
                "user": ANA,
                "text": text,
                "ts": ts,
                "channel": rig.fake.room.id,
            }
        )
        await rig.until(lambda: len(rig.host.arrived) == 2 and not rig.fake.unacked)
    assert rig.host.texts == ["hi"]


async def test_connections_are_renewed_when_slack_asks_and_when_they_break_or_fall_silent(
    rig: SlackRig,
) -> None:
    async with rig.served():
        rig.fake.order({"type": "disconnect", "reason": "warning", "debug_info": {}})
        await rig.until(lambda: rig.fake.opened == 2)
        rig.fake.drop()
        rig.fake.say(ANA, "meanwhile")
        await rig.until(lambda: rig.host.texts == ["meanwhile"])
        rig.fake.quiet = True
        rig.fake.say(ANA, "into the void")
        await rig.until(lambda: rig.fake.opened == 4)
        rig.fake.quiet = False
        await rig.until(lambda: rig.host.texts == ["meanwhile", "into the void"])


async def test_what_came_while_nobody_was_connected_is_fetched_in_chats_that_are_known(
    rig: SlackRig,
) -> None:
    async with rig.served():
        rig.fake.say(ANA, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    rig.fake.say(ANA, "missed")
    rig.fake.unacked.clear()  # Slack gave up on it
    async with rig.served():
        await rig.until(lambda: rig.host.texts == ["before", "missed"])
    assert rig.host.received[1].chat_type == "direct"


def posted(rig: SlackRig, event: object) -> WebhookRequest:
    body = msgspec.json.encode(rig.fake.callback(event))
    headers = rig.fake.signed(body)
    return WebhookRequest(method="POST", path="/slack/events", query={}, headers=headers, body=body)


def fails(rig: SlackRig, status: int, times: int = 1) -> None:
    """The next questions for missed messages; 0: no answer."""
    for _ in range(times):
        if status:
            answer = FakeAnswer(status, b"", headers={"retry-after": "30"} if status == 429 else {})
            rig.fake.refuse("/conversations.history", answer)
        else:
            rig.fake.cut("/conversations.history", "read")


@pytest.mark.parametrize("settings", [SOCKET, HTTP])
@pytest.mark.parametrize("status", [0, 503, 429])
async def test_missed_messages_that_could_not_be_fetched_are_asked_for_again(
    rig: SlackRig, status: int, settings: SlackSettings
) -> None:
    """What comes meanwhile is taken, and does not hide them, also when the gateway ends before they are there."""
    async with rig.served():
        rig.fake.say(ANA, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    rig.fake.say(ANA, "missed")
    rig.fake.unacked.clear()  # Slack gave up on it
    fails(rig, status)
    async with rig.served(settings) as account:
        rig.fake.say(ANA, "later")
        if settings is HTTP:
            chat = rig.fake.direct(ANA)
            event = {**chat.messages[-1], "channel": chat.id, "channel_type": chat.kind}
            assert (await account.webhook(posted(rig, event))).status == 200
            rig.fake.unacked.clear()
        await rig.until(lambda: bool(rig.host.texts[1:] and rig.host.troubles))
    assert rig.host.texts == ["before", "later"], "it was cut off before it had asked again"
    assert "asked for again" in rig.host.troubles[-1]
    async with rig.served():
        await rig.until(lambda: "missed" in rig.host.texts)

    assert set(rig.host.texts) == {"before", "missed", "later"}


@pytest.mark.parametrize("status", [0, 503, 429])
async def test_a_chat_that_slack_does_not_show_now_holds_nothing_up(
    rig: SlackRig, status: int
) -> None:
    async with rig.served():
        rig.fake.say(ANA, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    rig.fake.say(ANA, "missed")
    rig.fake.unacked.clear()
    fails(rig, status, times=4)
    async with rig.served():
        rig.fake.say(ANA, "later")
        await rig.until(lambda: "later" in rig.host.texts)
        await rig.until(lambda: "missed" in rig.host.texts)

    assert rig.host.texts[:3] == ["before", "later", "missed"]


async def test_a_missed_message_that_nobody_can_read_does_not_hide_the_others(
    rig: SlackRig,
) -> None:
    async with rig.served():
        rig.fake.say(ANA, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    rig.fake.say(ANA, "odd")
    rig.fake.direct(ANA).messages[-1]["text"] = None
    rig.fake.say(ANA, "missed")
    rig.fake.unacked.clear()
    async with rig.served():
        await rig.until(lambda: rig.host.texts == ["before", "missed"])


async def test_a_chat_that_may_not_be_read_any_more_holds_nothing_up(rig: SlackRig) -> None:
    async with rig.served():
        rig.fake.say(ANA, "before")
        await rig.until(lambda: rig.host.texts == ["before"])
    refusal = FakeAnswer(200, b'{"ok": false, "error": "not_in_channel"}')
    rig.fake.refuse("/conversations.history", refusal)
    async with rig.served():
        rig.fake.say(ANA, "later")
        await rig.until(lambda: rig.host.texts == ["before", "later"])

    assert "not_in_channel" in rig.host.troubles[0]


async def test_a_second_gateway_with_the_same_app_is_noticed(rig: SlackRig) -> None:
    rig.fake.other_connections = 1
    async with rig.served():
        pass
    assert "2 connections share this Slack app" in rig.host.troubles[0]


async def test_tokens_that_are_refused_and_socket_mode_that_is_off_stop_the_account(
    rig: SlackRig,
) -> None:
    rig.fake.tokens.discard("xapp-1-A2-three")
    assert isinstance(await rig.serve_once(), AccountBroken)
    rig.fake.tokens = set()
    assert "Copy the tokens anew" in str(await rig.serve_once())
    with pytest.raises(AccountBroken, match="SLACK_APP_TOKEN"):
        rig.account(settings=SlackSettings(bot_token=HTTP.bot_token))


async def test_hostile_events_are_left_out_and_acknowledged(rig: SlackRig) -> None:
    hostile: list[object] = [
        None,
        [],
        {"type": 7},
        {"type": "message", "text": None},
        {"type": "message", "user": ANA, "text": "x", "ts": "nan", "channel": "C1"},
        {"type": "message", "subtype": "message_changed", "channel": "C1"},
    ]
    async with rig.served():
        for event in hostile:
            rig.fake.tell(event)
        rig.fake.order(b"{")
        rig.fake.say(ANA, "an ordinary one")
        await rig.until(lambda: "an ordinary one" in rig.host.texts and not rig.fake.unacked)
    assert rig.fake.opened == 1


# ── what arrives over HTTP ─────────────────────────────────────────────────────────────────────


def request(body: bytes, headers: dict[str, str], method: str = "POST") -> WebhookRequest:
    return WebhookRequest(method=method, path="/slack/events", query={}, headers=headers, body=body)


async def test_only_what_slack_has_signed_just_now_is_read(rig: SlackRig) -> None:
    event = {"type": "message", "user": ANA, "text": "hi", "ts": "1.000001", "channel": "D1"}
    body = msgspec.json.encode(rig.fake.callback(event))
    async with rig.served(HTTP) as account:
        for headers in (
            {},
            rig.fake.signed(body, secret="another"),
            rig.fake.signed(body, age_s=301),
            rig.fake.signed(body + b" "),
            {**rig.fake.signed(body), "x-slack-signature": "v0=é"},
            {**rig.fake.signed(body), "x-slack-request-timestamp": "²"},
            {**rig.fake.signed(body), "x-slack-request-timestamp": "1" * 5_000},
        ):
            assert (await account.webhook(request(body, headers))).status == 401
        assert rig.host.arrived == []
        for _retry in range(2):
            assert (await account.webhook(request(body, rig.fake.signed(body)))).status == 200
        assert rig.host.texts == ["hi"]

        hello = b'{"type": "url_verification", "challenge": "3eZbrw1aB"}'
        assert (await account.webhook(request(hello, rig.fake.signed(hello)))).body == b"3eZbrw1aB"
        assert (await account.webhook(request(b"{", rig.fake.signed(b"{")))).status == 400
        assert (await account.webhook(request(body, {}, "GET"))).status == 405

        rig.host.failures = 1
        event = {**event, "ts": "2.000001"}
        body = msgspec.json.encode(rig.fake.callback(event))
        with pytest.raises(StoreError):
            await account.webhook(request(body, rig.fake.signed(body)))


# ── reading ────────────────────────────────────────────────────────────────────────────────────

ME = SlackReader(BOT_USER, "B0BOT00001", "default")


def read(**event: object) -> Inbound | object:
    given = {
        "type": "message",
        "channel": "C1",
        "user": ANA,
        "ts": "10.000001",
        "text": "x",
        **event,
    }
    return read_event(msgspec.convert(given, SlackMessage), ME, TEAM)


def test_a_thread_is_part_of_the_address_and_a_reply_to_us_counts() -> None:
    inside = read(thread_ts="9.000001", parent_user_id=BOT_USER)
    assert isinstance(inside, Inbound)
    assert inside.address.thread_id == "9.000001"
    assert inside.reply_to is not None
    assert inside.reply_to.ours
    begins = read(thread_ts="10.000001")
    assert isinstance(begins, Inbound)
    assert (begins.address.thread_id, begins.reply_to) == (None, None)


def test_what_is_ours_or_a_notice_is_nothing_and_bots_are_marked() -> None:
    for event in (
        {"user": BOT_USER},
        {"user": None, "bot_id": "B0BOT00001"},
        {"subtype": "channel_join"},
        {"subtype": "channel_topic"},
        {"text": "", "files": []},
        {"type": "reaction_added"},
    ):
        assert not isinstance(read(**event), Inbound), event
    other = read(bot_id="B0OTHER001", subtype="bot_message")
    assert isinstance(other, Inbound)
    assert other.sender_is_bot


def test_an_edit_is_one_and_a_preview_is_none() -> None:
    def change(text: str) -> Inbound | object:
        now = {"user": ANA, "ts": "10.000001", "text": text, "edited": {"ts": "11.000001"}}
        before = {"user": ANA, "ts": "10.000001", "text": "x"}
        return read(subtype="message_changed", message=now, previous_message=before)

    edited = change("y")
    assert isinstance(edited, Inbound)
    assert (edited.edit_of, edited.text, edited.message_id) == (
        "10.000001",
        "y",
        "10.000001:edit:11.000001",
    )
    assert not isinstance(change("x"), Inbound)
    gone = read(subtype="message_deleted", deleted_ts="10.000001", previous_message={"user": ANA})
    assert isinstance(gone, Inbound)
    assert gone.deletion_of == "10.000001"


def test_group_chats_and_private_channels_are_told_apart() -> None:
    kinds = {"im": "direct", "mpim": "group", "channel": "channel", "group": "channel"}
    for kind, chat_type in kinds.items():
        found = read(channel_type=kind)
        assert isinstance(found, Inbound)
        assert found.chat_type == chat_type


# ── what goes out ──────────────────────────────────────────────────────────────────────────────


def piece(
    to: str,
    text: str,
    thread: str | None = None,
    media: OutgoingFile | None = None,
    key: str = "run#1",
) -> Piece:
    return Piece(
        address=Address("slack", to, "default", thread),
        text=text,
        formatted=text,
        delivery_key=key,
        media=media,
    )


async def test_a_message_goes_to_a_person_a_channel_and_a_thread(rig: SlackRig) -> None:
    account, room = rig.account(), rig.fake.room
    root = rig.fake.say(ANA, "why?", room)
    await account.send(piece(f"user:{ANA}", "direct"))
    shown = await account.send(piece(f"channel:{room.id}", "because", root))
    assert rig.fake.texts(ANA) == ["direct"]
    assert room.messages[-1]["thread_ts"] == root
    assert shown == room.messages[-1]["ts"]


@pytest.mark.parametrize("when", ["before", "read", "after"])
async def test_a_lost_answer_is_looked_for_once_and_never_guessed(rig: SlackRig, when: str) -> None:
    account = rig.account()
    rig.fake.cut("chat.postMessage", when)  # type: ignore[arg-type]
    if when == "after":
        assert await account.send(piece(f"channel:{rig.fake.room.id}", "there"))
        assert rig.fake.texts(rig.fake.room) == ["there"]
        return
    with pytest.raises(DeliveryError) as failed:
        await account.send(piece(f"channel:{rig.fake.room.id}", "there"))
    assert isinstance(failed.value, DeliveryUncertain) == (when == "read")
    assert account.knows_key_for_s() == 0


async def test_a_refusal_means_what_its_code_says(rig: SlackRig) -> None:
    account, room = rig.account(), rig.fake.room

    async def refusal(to: str = room.id, text: str = "hi") -> DeliveryError:
        with pytest.raises(DeliveryError) as refused:
            await account.send(piece(f"channel:{to}", text))
        return refused.value

    assert (await refusal("C0NOWHERE1")).chat_gone
    room.archived = True
    assert (await refusal()).chat_gone
    room.archived, room.joined = False, False
    assert "/invite" in str(await refusal())
    room.joined = True
    for never in (await refusal(text="x" * 40_001), await refusal(text=" ")):
        assert [never.retryable, never.chat_gone, never.stops_account] == [False] * 3
    await account.send(piece(f"channel:{room.id}", "one", key="run#0"))
    limited = await refusal()
    assert (limited.retryable, limited.retry_after_s) == (True, 3.0)
    rig.fake.refuse("chat.postMessage", json_of({"ok": False, "error": "internal_error"}))
    assert isinstance(await refusal(), DeliveryUncertain)
    rig.fake.refuse("chat.postMessage", FakeAnswer(503, b"<html>", "text/html"))
    assert isinstance(await refusal(), DeliveryUncertain)
    rig.fake.scopes.discard("chat:write")
    scope = await refusal()
    assert scope.stops_account
    assert "the app needs the scope chat:write" in str(scope)
    with pytest.raises(DeliveryError, match="with the id"):
        await account.send(piece("#general", "hi"))


async def test_files_go_out_in_three_steps_and_come_in_from_slack_alone(rig: SlackRig) -> None:
    account = rig.account()
    media = OutgoingFile(kind="image", data=b"\x89PNG", mime="image/png", name="cat.png")
    await account.send(piece(f"channel:{rig.fake.room.id}", "look", media=media))
    assert list(rig.fake.uploaded.values()) == [media.data]
    assert rig.fake.texts(rig.fake.room) == ["look"]

    rig.fake.files["/files-pri/T1-F1/download/cat.png"] = b"\x89PNG"
    where = "https://files.slack.com/files-pri/T1-F1/download/cat.png"
    assert await account.fetch(Attachment(kind="image", id=where), 100) == b"\x89PNG"
    with pytest.raises(MediaRefused, match="login page"):
        await account.fetch(Attachment(kind="image", id=f"{where}x"), 100)
    for foreign in ("https://evil.example/x", "http://files.slack.com/x"):
        with pytest.raises(MediaRefused):
            await account.fetch(Attachment(kind="image", id=foreign), 100)


@pytest.mark.parametrize("how", ["read", "after", "status"])
@pytest.mark.parametrize("step", ["conversations.open", "files.getUploadURLExternal", "upload"])
async def test_what_prepares_a_message_is_tried_again_and_leaves_nothing_uncertain(
    rig: SlackRig, step: str, how: str
) -> None:
    account = rig.account()
    media = OutgoingFile(kind="image", data=b"\x89PNG", mime="image/png", name="cat.png")
    words = piece(f"user:{ANA}", "look", media=media)

    def fail(path_end: str) -> None:
        if how == "status":
            rig.fake.refuse(path_end, FakeAnswer(503))
        else:
            rig.fake.cut(path_end, how)  # type: ignore[arg-type]

    if step == "upload":
        told = ("files.getUploadURLExternal", lambda: fail(next(reversed(rig.fake.uploads))))
        rig.fake.effects.append(told)
    else:
        fail(step)
    with pytest.raises(DeliveryError) as failed:
        await account.send(words)
    assert failed.value.retryable
    assert not isinstance(failed.value, DeliveryUncertain)

    await account.send(words)
    assert rig.fake.texts(ANA) == ["look"]


async def test_a_reaction_has_slacks_name_and_an_edit_is_seen(rig: SlackRig) -> None:
    account, room = rig.account(), rig.fake.room
    where = Address("slack", f"channel:{room.id}", "default")
    ts = rig.fake.say(ANA, "hi", room)
    await account.react(where, ts, "👀")
    assert rig.fake.reactions == [(room.id, ts, "eyes")]
    await account.react(where, ts, "👀", on=False)
    assert rig.fake.reactions == []
    sent = await account.send(piece(where.to, "draft"))
    assert sent
    await account.edit(where, sent, piece(where.to, "done"))
    assert rig.fake.texts(room) == ["done"]
    assert [emoji_name(each) for each in ("❤️", "🦞", ":eyes:")] == ["heart", "lobster", "eyes"]


async def test_nobody_is_called_by_what_a_model_writes(rig: SlackRig) -> None:
    account, room = rig.account(), rig.fake.room
    text = "<!channel> <@U0ANA00001> **bold** `<!here>` [a|b](https://a.example/?x=1|2) a < b & c"
    [made] = chunks(text, SlackMrkdwn())
    await account.send(piece(f"channel:{room.id}", made))
    assert rig.fake.complaints == []
    assert "*bold*" in made
    assert "&lt;!channel&gt;" in made
    assert "a &lt; b &amp; c" in made


# ── spelling ───────────────────────────────────────────────────────────────────────────────────


def test_targets_and_senders_are_ids_and_never_names() -> None:
    for text in (
        "user:U0ANA00001",
        "<@U0ANA00001>",
        "slack:U0ANA00001",
        "@U0ANA00001",
        "u0ana00001",
    ):
        target = read_target(text)
        assert target is not None
        assert (target.to, target.types) == ("user:U0ANA00001", ("direct",))
    thread = read_target("channel:C0ROOM0001:thread:1700000000.000100")
    assert thread is not None
    assert (thread.to, thread.thread_id) == ("channel:C0ROOM0001", "1700000000.000100")
    for name in ("#general", "@ana", "general", "", "user:ana"):
        assert read_target(name) is None
    assert normalize_sender("slack:u0ana00001") == "U0ANA00001"
    assert normalize_sender("<@W0ANA00001|ana>") == "W0ANA00001"
    assert normalize_sender("ana") is None


def test_channels_are_listed_by_id_and_group_chats_are_off_until_they_are_switched_on() -> None:
    listed = SlackSettings(channels={"C1": GroupSettings(require_mention=False)})
    assert listed.group("C1", None, TEAM) is not None
    assert listed.group("C2", None, TEAM) is None
    assert SlackSettings().group("C2", None, TEAM) is None
    chat = read(channel_type="mpim")
    assert isinstance(chat, Inbound)
    assert (chat.chat_type, chat.guild_id) == ("group", None)
    for settings in (SlackSettings(), SlackSettings(group_policy="open"), listed):
        silent = settings.group("G1")
        assert silent is not None
        assert not silent.listened_to
    switched_on = SlackSettings(dm=DirectSettings(group_enabled=True)).group("G1")
    assert switched_on is not None
    assert switched_on.listened_to
    assert listed.group("C1") is not None
