"""iMessage by BlueBubbles: what the server calls with, what it is asked for, and what goes out."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.channels.http import HttpClients
from crossclaw.channels.imessage.account import (
    ASK_EVERY_S,
    KEY_PREFIX,
    IMessageAccount,
    open_account,
)
from crossclaw.channels.imessage.manifest import (
    MANIFEST,
    handle,
    names_of_chat,
    normalize_sender,
    read_target,
)
from crossclaw.channels.imessage.settings import IMessageSettings
from crossclaw.channels.registry import find_manifest
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import (
    AccountBroken,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
    StoreFull,
)
from crossclaw.domain.secret import Secret
from tests.channels.fake_http import FakeTransport
from tests.channels.imessage.fake import EPOCH_MS, FakeBlueBubbles
from tests.channels.listening import ListeningHost

pytestmark = pytest.mark.spec("N6")
ANN = "+16505551234"
DIRECT, GROUP = f"iMessage;-;{ANN}", "iMessage;+;chat777"
URL = "http://mac.local:1234"


class Scene:
    def __init__(self, *, private_api: bool = True) -> None:
        self.fake = FakeBlueBubbles(private_api=private_api)
        self.host = ListeningHost(HttpClients(FakeTransport({"mac.local": self.fake})), "imessage")

    async def account(self, **given: Any) -> IMessageAccount:
        base = {"server_url": URL, "password": Secret(self.fake.password)}
        account = await open_account(IMessageSettings(**{**base, **given}), self.host)
        self.fake.secret = account.webhook_secret.reveal()
        return account

    @asynccontextmanager
    async def served(self, *, called: bool = True, **given: Any) -> AsyncGenerator[IMessageAccount]:
        account = await self.account(**given)
        async with anyio.create_task_group() as tasks:
            await tasks.start(account.serve, self.host)
            self.fake.call = account.webhook if called else None
            yield account
            self.fake.call = None
            tasks.cancel_scope.cancel()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def piece(text: str, to: str = DIRECT, **fields: Any) -> Piece:
    where = Address("imessage", to, "default")
    return Piece(address=where, text=text, formatted=text, delivery_key="reply:r1#1", **fields)


# ── what arrives ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N8")
async def test_what_the_webhook_lost_is_fetched_and_a_restart_fetches_what_came_meanwhile(
    scene: Scene,
) -> None:
    """Trap 24: BlueBubbles posts once and never again."""
    scene.fake.add_row(ANN, "before the very first start")
    async with scene.served():
        await scene.fake.say(ANN, "posted")
        scene.fake.add_row(ANN, "not posted")
        await anyio.sleep(ASK_EVERY_S + 1)
    scene.fake.add_row(ANN, "while away")
    async with scene.served(called=False):
        await anyio.sleep(1)

    assert scene.host.texts == ["posted", "not posted", "while away"]


@pytest.mark.spec("N8", "B1")
async def test_the_cursor_does_not_pass_a_message_that_was_not_stored(scene: Scene) -> None:
    """Trap 2."""
    async with scene.served(called=False):
        pass
    scene.fake.add_row(ANN, "one")
    scene.host.faults = [StoreFull("the disk is full")]
    account = await scene.account()
    with pytest.raises(StoreFull):
        await account.serve(scene.host)
    async with scene.served(called=False):
        await scene.host.wait_received(1)

    assert scene.host.texts == ["one"]


@pytest.mark.spec("N8")
async def test_only_who_knows_the_webhooks_own_secret_may_call(scene: Scene) -> None:
    """Trap 37: the server's password is not it, since addresses end up in logs."""
    async with scene.served():
        row = scene.fake.add_row(ANN, "hi")
        answers = [
            await scene.fake.post("new-message", row, secret)
            for secret in ("", "wrong", scene.fake.password, None)
        ]
        assert await scene.fake.post("new-message", {"guid": 5}) == 200
        assert await scene.fake.post("typing-indicator", {"odd": True}) == 200
    assert answers == [401, 401, 401, 200]
    assert scene.fake.password not in scene.fake.secret
    own = await scene.account(webhook_secret=Secret("mine"))
    assert own.webhook_secret.reveal() == "mine"


async def test_the_webhook_is_entered_once_where_its_address_is_known(scene: Scene) -> None:
    for _ in range(2):
        async with scene.served(webhook_url="http://claw.local:18789/bluebubbles-webhook"):
            pass
    (entered,) = scene.fake.webhooks
    assert entered["url"].endswith(f"?secret={scene.fake.secret}")
    assert "new-message" in entered["events"]


@pytest.mark.spec("N8")
async def test_groups_replies_edits_tapbacks_and_files_are_read(scene: Scene) -> None:
    async with scene.served() as account:
        ours = await account.send(piece("hello", scene.fake.chat(GROUP, "Team")))
        scene.host.received.clear()
        group = {"chat": GROUP}
        first = await scene.fake.say("Bob@Example.org", "and?", threadOriginatorGuid=ours, **group)
        await scene.fake.say(
            ANN, "", associatedMessageType="like", associatedMessageGuid=f"p:0/{first}", **group
        )
        await scene.fake.say(
            ANN, "", associatedMessageType=3001, associatedMessageGuid=f"p:0/{first}", **group
        )
        scene.fake.files["ATT-1"] = b"data"
        file = {
            "guid": "ATT-1",
            "mimeType": "audio/x-caf",
            "transferName": "a.caf",
            "totalBytes": 4,
        }
        await scene.fake.say(ANN, "\ufffc", attachments=[file], isAudioMessage=True)
        await anyio.sleep(1)
        row = scene.fake.rows[-1]
        await scene.fake.post("updated-message", {**row, "dateRead": 5})
        await scene.fake.post(
            "updated-message", {**row, "text": "better", "dateEdited": 9, "attachments": []}
        )
        await scene.fake.post("updated-message", {**row, "dateRetracted": 9})
        await scene.fake.say(ANN, "Ann named the group", itemType=2, groupActionType=1, **group)
        await anyio.sleep(1)
        found = list(scene.host.received)
        assert await account.fetch(found[3].attachments[0], 10) == b"data"
        with pytest.raises(MediaRefused):
            await account.fetch(Attachment(kind="image", id="missing"), 10)

    said, liked, unliked, voice, edited, deleted = found
    assert (said.sender, said.chat_id, said.chat_name) == ("bob@example.org", GROUP, "Team")
    assert said.reply_to is not None
    assert said.reply_to.ours
    assert [(each.reaction_to, each.text) for each in (liked, unliked)] == [
        (first, "👍"),
        (first, ""),
    ]
    assert (voice.text, voice.attachments[0].voice, voice.is_direct) == ("", True, True)
    assert (edited.edit_of, edited.text) == (row["guid"], "better")
    assert deleted.deletion_of == row["guid"]


@pytest.mark.spec("N8")
async def test_old_messages_that_a_mac_syncs_late_and_our_own_are_not_answered(
    scene: Scene,
) -> None:
    """Traps 30 and 40."""
    async with scene.served():
        await scene.fake.say(ANN, "last year", dateCreated=EPOCH_MS - 400 * 86_400_000)
        await scene.fake.say(ANN, "from my phone", isFromMe=True)
        await scene.fake.say(ANN, "now")
        await anyio.sleep(ASK_EVERY_S + 1)

    assert set(scene.host.texts) == {"now"}


# ── what goes out ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N9", "B2")
async def test_our_message_comes_back_with_its_key_and_settles_what_was_uncertain(
    scene: Scene,
) -> None:
    scene.fake.chat(DIRECT)
    async with scene.served() as account:
        scene.fake.cut("/message/text", "after")
        with pytest.raises(DeliveryUncertain):
            await account.send(piece("hi"))
        failed = {**scene.fake.rows[-1], "error": 22, "tempGuid": f"{KEY_PREFIX}k2"}
        await scene.fake.post("message-send-error", failed)

    assert scene.host.confirmed == [("reply:r1#1", scene.fake.seen[0].guid)]
    assert scene.host.failed == [("k2", "the Mac could not send it (error 22)")]
    assert scene.host.received == []


@pytest.mark.spec("N9")
async def test_a_person_without_a_chat_gets_one_and_a_known_one_is_used(scene: Scene) -> None:
    async with scene.served() as account:
        await account.send(piece("first", ANN))
        await account.send(piece("second", f"imessage:{ANN}"))
        with pytest.raises(DeliveryError) as gone:
            await account.send(piece("x", "chat_identifier:chat404"))
        with pytest.raises(DeliveryError, match="no iMessage chat"):
            await account.send(piece("x", "chat_id:12"))

    assert [(seen.chat, seen.text) for seen in scene.fake.seen] == [
        (DIRECT, "first"),
        (DIRECT, "second"),
    ]
    assert gone.value.chat_gone


@pytest.mark.spec("N9")
@pytest.mark.parametrize("private_api", [True, False])
async def test_replies_tapbacks_typing_and_read_marks_need_the_private_api(
    private_api: bool,
) -> None:
    scene = Scene(private_api=private_api)
    async with scene.served() as account:
        question = await scene.fake.say(ANN, "hi")
        await scene.host.wait_received(1)
        await anyio.sleep(1)
        where = Address("imessage", DIRECT, "default")
        await account.show_typing(where)
        await account.react(where, question, "👍")
        await account.react(where, question, "👀")
        await account.send(piece("yes", reply_to=question))
        media = OutgoingFile(kind="image", data=b"data", mime="image/png", name="a.png")
        await account.send(piece("", media=media))

    signals = [("read", DIRECT), ("typing", DIRECT), ("like", question)]
    assert scene.fake.signals == (signals if private_api else [])
    assert [(seen.text, seen.reply_to, seen.data) for seen in scene.fake.seen] == [
        ("yes", question if private_api else None, b""),
        ("", None, b"data"),
    ]
    assert scene.fake.complaints == []


@pytest.mark.spec("B2")
async def test_refusals_say_what_they_mean(scene: Scene) -> None:
    account = await scene.account()
    with pytest.raises(DeliveryUncertain):
        await account.send(piece("x", GROUP))  # the Mac fails: status 500
    scene.fake.password = "another"
    with pytest.raises(DeliveryError) as refused:
        await account.send(piece("x"))
    assert refused.value.stops_account
    with pytest.raises(AccountBroken, match="password"):
        await account.serve(scene.host)


# ── settings and spellings ─────────────────────────────────────────────────────────────────────


async def test_bluebubbles_means_imessage_and_imsg_is_not_supported(scene: Scene) -> None:
    assert find_manifest("bluebubbles") is find_manifest("imessage") is MANIFEST
    settings = IMessageSettings(cli_path="/opt/homebrew/bin/imsg")
    for word in ("imsg", "does not support", "serverUrl"):
        assert word in settings.what_is_missing
    with pytest.raises(AccountBroken, match="imsg"):
        await open_account(settings, scene.host)


@pytest.mark.parametrize("first", ["imessage", "bluebubbles"])
def test_of_two_sections_the_one_that_can_be_used_is_used(first: str) -> None:
    """Users of OpenClaw have both while they move from one to the other."""
    sections = {
        "imessage": {"cliPath": "imsg", "allowFrom": ["+4915112345678"]},
        "bluebubbles": {"serverUrl": URL, "password": "x"},
    }
    ordered = {name: sections[name] for name in sorted(sections, key=lambda name: name != first)}
    (account,) = accounts_in(ordered, {})
    assert (account.channel, account.settings.is_set_up) == ("imessage", True)
    off = {"imessage": sections["bluebubbles"], "bluebubbles": {"enabled": False}}
    assert [each.channel for each in accounts_in(off, {})] == ["imessage"]


@pytest.mark.spec("N8")
def test_handles_and_chats_are_understood_as_openclaw_spells_them() -> None:
    """Traps 22 and 35."""
    assert [
        normalize_sender(entry)
        for entry in ("imessage:+1 650 555 1234", "Ann@Example.ORG", "Ann", "*")
    ] == [
        "+16505551234",
        "ann@example.org",
        None,
        None,
    ]
    chats = ("chat_guid:iMessage;+;chatAbC", "chat_identifier:chatAbC")
    assert tuple(map(normalize_sender, chats)) == names_of_chat("iMessage;+;chatAbC")
    assert {handle(each) for each in names_of_chat("any;+;+16505551234")} == {None}

    def read(text: str) -> tuple[str, tuple[str, ...]] | None:
        target = read_target(text)
        return (target.to, target.types) if target else None

    assert read("bluebubbles:chat_guid:any;+;chatAbC") == ("any;+;chatAbC", ("group",))
    assert read("chat_identifier:chatAbC") == ("any;+;chatAbC", ("group",))
    assert read("sms:+16505551234") == (ANN, ("direct",))
    assert read(DIRECT) == (DIRECT, ("direct",))
    assert read("chat_id:12") is None
