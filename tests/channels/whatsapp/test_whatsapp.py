"""WhatsApp's Cloud API: what Meta's webhooks bring, what goes out, and what its codes mean."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece, WebhookRequest
from crossclaw.channels.http import HttpClients
from crossclaw.channels.whatsapp.account import WhatsAppAccount, open_account
from crossclaw.channels.whatsapp.client import PAIR_RATE_S
from crossclaw.channels.whatsapp.manifest import normalize_sender, read_target
from crossclaw.channels.whatsapp.settings import WhatsAppCloud, WhatsAppSettings, WhatsAppTemplate
from crossclaw.domain.addresses import Address, Attachment
from crossclaw.domain.errors import (
    AccountBroken,
    DeliveryError,
    DeliveryUncertain,
    MediaRefused,
    StoreFull,
)
from crossclaw.domain.secret import Secret
from tests.channels.fake_http import FakeAnswer, FakeTransport, json_of
from tests.channels.listening import ListeningHost
from tests.channels.whatsapp.fake import GRAPH, MEDIA_HOST, CloudRefusal, FakeWhatsApp

pytestmark = pytest.mark.spec("N5")
ANN = "+16505551234"


def cloud_of(fake: FakeWhatsApp, **more: Any) -> WhatsAppCloud:
    return WhatsAppCloud(
        phone_number_id=fake.number_id,
        access_token=Secret(fake.token),
        app_secret=Secret(fake.app_secret),
        verify_token=Secret(fake.verify_token),
        **more,
    )


class Scene:
    def __init__(self) -> None:
        self.fake = FakeWhatsApp()
        transport = FakeTransport({GRAPH: self.fake, MEDIA_HOST: self.fake})
        self.host = ListeningHost(HttpClients(transport), "whatsapp")

    async def account(self, **more: Any) -> WhatsAppAccount:
        return await open_account(WhatsAppSettings(cloud=cloud_of(self.fake, **more)), self.host)

    @asynccontextmanager
    async def served(self, **more: Any) -> AsyncGenerator[WhatsAppAccount]:
        account = await self.account(**more)
        async with anyio.create_task_group() as tasks:
            await tasks.start(account.serve, self.host)
            tasks.start_soon(self.fake.serve_webhook, account.webhook)
            yield account
            tasks.cancel_scope.cancel()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def piece(text: str, key: str = "reply:r1#1", **fields: Any) -> Piece:
    where = fields.pop("address", None) or Address("whatsapp", ANN, "default")
    return Piece(address=where, text=text, formatted=text, delivery_key=key, **fields)


# ── what arrives ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N8")
async def test_a_batch_of_several_people_is_several_messages_and_is_marked_read(
    scene: Scene,
) -> None:
    """Trap 44: each has its own sender."""
    first = scene.fake.say(ANN, "one")
    scene.fake.say("+4915112345678", "two")
    async with scene.served():
        await scene.host.wait_received(2)
        await anyio.sleep(1)

    assert [(each.sender, each.address.to, each.text) for each in scene.host.received] == [
        (ANN, ANN, "one"),
        ("+4915112345678", "+4915112345678", "two"),
    ]
    assert scene.host.received[0].sender_name == "Person 1234"
    assert scene.fake.receipts[0] == (first, False)
    assert scene.host.facts is not None
    assert scene.host.facts.name == "Claw"


@pytest.mark.spec("N8")
async def test_only_what_meta_has_signed_is_read_and_the_raw_bytes_count(scene: Scene) -> None:
    """Trap 37."""
    account = await scene.account()
    scene.fake.say(ANN, "hi")
    good = scene.fake.signed(scene.fake.notice(scene.fake.waiting))
    spaced = msgspec.structs.replace(good, body=good.body + b" ")
    bare = msgspec.structs.replace(good, headers={})
    wrong = msgspec.structs.replace(good, headers={"x-hub-signature-256": "sha256=00"})
    odd = scene.fake.signed(b'{"object": 7')

    asked = (spaced, bare, wrong, good, odd)
    assert [(await account.webhook(each)).status for each in asked] == [401, 401, 401, 200, 200]
    assert scene.host.texts == ["hi"]


async def test_meta_greets_once_with_the_verify_token(scene: Scene) -> None:
    account = await scene.account()

    def greeting(token: str) -> WebhookRequest:
        query = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": "1158201444"}
        return WebhookRequest(method="GET", path="/", query=query, headers={}, body=b"")

    assert (await account.webhook(greeting("verify-me"))).body == b"1158201444"
    assert (await account.webhook(greeting("wrong"))).status == 403


@pytest.mark.spec("N8", "B1")
async def test_a_batch_that_could_not_be_stored_is_posted_again(scene: Scene) -> None:
    """Trap 2."""
    scene.fake.say(ANN, "one")
    account = await scene.account()
    scene.host.faults = [StoreFull("the disk is full")]
    with pytest.raises(StoreFull):
        await scene.fake.post_waiting(account.webhook)
    assert await scene.fake.post_waiting(account.webhook)
    assert scene.host.texts == ["one"]


@pytest.mark.spec("N8")
async def test_kinds_of_messages_are_read_and_unknown_ones_pass(scene: Scene) -> None:
    fake = scene.fake
    picture = fake.put_media(b"\xff\xd8 picture", "image/jpeg")
    fake.say(ANN, image={**picture, "caption": "look"})
    fake.say(ANN, audio={**fake.put_media(b"OggS", "audio/ogg; codecs=opus"), "voice": True})
    fake.say(ANN, location={"latitude": 1.5, "longitude": 2.5, "name": "Home"})
    fake.say(ANN, reaction={"message_id": "wamid.x", "emoji": "👍"})
    fake.say(ANN, unsupported={"type": "unknown"})
    fake.say(
        ANN, system={"body": "changed number", "new_wa_id": "1", "type": "user_changed_number"}
    )
    fake.notify({"messages": [{"from": 5}, "odd"]})
    fake.notify({"messages": [{"from": ANN[1:], "id": "w9", "timestamp": "x", "type": "text", "text": {"body": "no"}}]})  # fmt: skip
    fake.notify({"metadata": {"phone_number_id": "another"}, "messages": []})
    async with scene.served() as account:
        await scene.host.wait_received(4)
        await anyio.sleep(1)
        found = scene.host.received
        assert await account.fetch(found[0].attachments[0], 1_000) == b"\xff\xd8 picture"
        with pytest.raises(MediaRefused):
            await account.fetch(found[0].attachments[0], 5)

    assert [
        (each.text, [a.kind for a in each.attachments], each.reaction_to) for each in found
    ] == [
        ("look", ["image"], None),
        ("", ["audio"], None),
        ("[place: Home (1.5, 2.5)]", [], None),
        ("👍", [], "wamid.x"),
    ]
    assert (found[1].attachments[0].voice, found[1].attachments[0].mime) == (True, "audio/ogg")
    assert fake.waiting == []


async def test_a_file_that_is_not_what_was_announced_is_refused(scene: Scene) -> None:
    """Trap 45."""
    account = await scene.account()
    told = scene.fake.put_media(b"one", "image/jpeg")
    scene.fake.media[told["id"]] = ("image/jpeg", b"two")
    with pytest.raises(MediaRefused, match="checksum"):
        await account.fetch(Attachment(kind="image", id=f"{told['id']}#{told['sha256']}"), 1_000)


# ── what goes out ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N9")
async def test_a_reply_goes_to_its_question_and_typing_and_reactions_are_shown(
    scene: Scene,
) -> None:
    question = scene.fake.say(ANN, "hi")
    async with scene.served() as account:
        await scene.host.wait_received(1)
        where = Address("whatsapp", ANN, "default")
        await account.show_typing(where)
        await account.react(where, question, "👀")
        sent = await account.send(piece("*hello*", reply_to=question))

    (seen,) = scene.fake.seen
    assert (seen.text, seen.reply_to, seen.id) == ("*hello*", question, sent)
    assert (question, True) in scene.fake.receipts
    assert scene.fake.reactions == {question: "👀"}


@pytest.mark.spec("N9", "B2")
async def test_a_status_settles_what_was_uncertain(scene: Scene) -> None:
    scene.fake.say(ANN, "hi")
    async with scene.served() as account:
        await scene.host.wait_received(1)
        scene.fake.cut("/messages", "read")  # the read receipt
        await anyio.sleep(1)
        scene.fake.statuses = False
        scene.fake.cut("/messages", "after")
        with pytest.raises(DeliveryUncertain):
            await account.send(piece("a", "k1"))
        status = {
            "id": scene.fake.seen[0].id,
            "status": "delivered",
            "timestamp": "1",
            "recipient_id": ANN,
        }
        scene.fake.notify({"statuses": [{**status, "biz_opaque_callback_data": "k1"}]})
        await anyio.sleep(1)
        # A status that comes before the answer is lost settles it on the spot.
        scene.fake.cut("/messages", "after")
        assert await account.send(piece("a", "k1")) == scene.fake.seen[0].id

    assert scene.host.confirmed == [("k1", scene.fake.seen[0].id)]


@pytest.mark.spec("N9")
async def test_after_24_hours_a_reply_fails_with_what_to_do_or_goes_as_a_template(
    scene: Scene,
) -> None:
    scene.fake.say(ANN, "hi")
    async with scene.served() as account:
        await scene.host.wait_received(1)
        await anyio.sleep(24.5 * 3600)
        await account.send(
            piece("late", "k1")
        )  # WhatsApp takes it, and says later that it did not go
        await anyio.sleep(1)
        await anyio.sleep(3600)
        with pytest.raises(DeliveryError, match="24 hours") as closed:
            await account.send(piece("later"))
    template = WhatsAppTemplate(name="news")
    async with scene.served(template=template) as account:
        await account.send(piece("two\nlines", "k2"))

    assert not closed.value.retryable
    ((key, error),) = scene.host.failed
    assert (key, "24 hours" in error) == ("k1", True)
    assert [seen.text for seen in scene.fake.seen] == ["news: two lines"]


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (131056, 400, {"retryable": True, "retry_after_s": PAIR_RATE_S}),
        (130429, 400, {"retryable": True}),
        (131047, 400, {"retryable": False, "chat_gone": False}),
        (131026, 400, {"chat_gone": True}),
        (131009, 400, {"retryable": False, "stops_account": False}),
        (190, 401, {"stops_account": True}),
        (131031, 403, {"stops_account": True}),
    ],
)
async def test_a_code_says_what_a_refusal_means(
    scene: Scene, code: int, status: int, expected: dict[str, Any]
) -> None:
    """Traps 9, 12, 15."""
    refused = CloudRefusal(code, "190 429 in a text", status)
    scene.fake.refuse("/messages", json_of(refused.body, status))
    account = await scene.account()
    with pytest.raises(DeliveryError) as error:
        await account.send(piece("x"))

    assert {name: getattr(error.value, name) for name in expected} == expected
    assert not isinstance(error.value, DeliveryUncertain)


@pytest.mark.spec("B2")
async def test_a_status_of_500_without_a_code_means_nobody_knows(scene: Scene) -> None:
    account = await scene.account()
    scene.fake.refuse("/messages", FakeAnswer(502, b"<html>", "text/html"))
    with pytest.raises(DeliveryUncertain):
        await account.send(piece("x"))


@pytest.mark.spec("N9")
async def test_files_are_uploaded_and_go_as_what_they_are(scene: Scene) -> None:
    scene.fake.say(ANN, "hi")
    account = await scene.account()

    def file(kind: Any, mime: str) -> OutgoingFile:
        return OutgoingFile(kind=kind, data=b"data", mime=mime, name="f.bin")

    await account.send(piece("look", media=file("image", "image/png")))
    await account.send(piece("odd", media=file("image", "image/tiff")))
    await account.send(piece("", media=file("audio", "audio/ogg")))

    assert [(seen.kind, seen.text, seen.data) for seen in scene.fake.seen] == [
        ("image", "look", b"data"),
        ("document", "odd", b"data"),
        ("audio", "", b"data"),
    ]


@pytest.mark.parametrize("how", ["read", "after", "status"])
async def test_an_upload_that_was_cut_off_is_tried_again_and_leaves_nothing_uncertain(
    scene: Scene, how: str
) -> None:
    scene.fake.say(ANN, "hi")
    account = await scene.account()
    if how == "status":
        scene.fake.refuse("/media", FakeAnswer(503))
    else:
        scene.fake.cut("/media", how)  # type: ignore[arg-type]
    media = OutgoingFile(kind="image", data=b"data", mime="image/png", name="f.png")
    with pytest.raises(DeliveryError) as failed:
        await account.send(piece("look", media=media))
    assert failed.value.retryable
    assert not isinstance(failed.value, DeliveryUncertain)

    await account.send(piece("look", media=media))
    assert [(seen.kind, seen.text) for seen in scene.fake.seen] == [("image", "look")]


# ── settings and spellings ─────────────────────────────────────────────────────────────────────


async def test_a_section_for_a_linked_phone_says_what_to_do(scene: Scene) -> None:
    settings = WhatsAppSettings(auth_dir="~/.openclaw/credentials/whatsapp/default")
    assert not settings.is_set_up
    for word in ("linked phone", "Cloud API", "WHATSAPP_PHONE_NUMBER_ID", "docs/channels.md"):
        assert word in settings.what_is_missing
    with pytest.raises(AccountBroken, match="linked phone"):
        await open_account(settings, scene.host)
    some = WhatsAppSettings(cloud=WhatsAppCloud(phone_number_id="1", access_token=Secret("t")))
    assert "WHATSAPP_APP_SECRET, WHATSAPP_VERIFY_TOKEN" in some.what_is_missing
    assert "PHONE" not in some.what_is_missing


async def test_a_token_that_is_refused_is_for_a_person(scene: Scene) -> None:
    account = await scene.account()
    scene.fake.token = "another"
    with pytest.raises(AccountBroken, match="refuses"):
        await account.serve(scene.host)


@pytest.mark.spec("N8")
def test_a_sender_is_a_number_with_its_country_and_nothing_else() -> None:
    """Traps 35 and 42."""
    same = [
        "+16505551234",
        "16505551234",
        "whatsapp:+1 (650) 555-1234",
        "16505551234:0@s.whatsapp.net",
    ]
    assert [normalize_sender(entry) for entry in same] == ["+16505551234"] * 4
    none = ["16505551234@lid", "0049151234567", "Ann", "*", "", "120363@g.us"]
    assert [normalize_sender(entry) for entry in none] == [None] * 6
    target = read_target("whatsapp:+16505551234")
    assert target is not None
    assert (target.to, target.types) == ("+16505551234", ("direct",))
