"""What people in rooms can do to the account: nothing that holds others up, and nothing in another's name."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.channels.matrix.account import SKEW_MS, LastHeard, MatrixAccount, open_account
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from crossclaw.testing.time import NOON_MS
from tests.channels.fake_http import FakeAnswer, FakeTransport, json_of
from tests.channels.matrix.fake import BOT, MEGOLM, TOKEN, FakeHomeserver, refusal
from tests.channels.recording import RecordingHost

pytestmark = [pytest.mark.anyio, pytest.mark.spec("N7")]

ANN, EVE = "@ann:fake.example", "@eve:fake.example"


class InvitedRecording(RecordingHost):
    folder: Path
    account: MatrixAccount

    async def private_folder(self) -> Path:
        return self.folder


@asynccontextmanager
async def following(
    homeserver: FakeHomeserver,
    folder: Path | None = None,
    *trusted: str,
    cursors: dict[str, str] | None = None,
) -> AsyncGenerator[InvitedRecording]:
    """An account that has made its first sync; with a folder for its keys it encrypts."""
    host = InvitedRecording("matrix", FakeTransport({"fake.example": homeserver}), VirtualClock())
    if folder is not None:
        host.folder = folder
    if cursors is not None:
        host.cursors = cursors
    settings = MatrixSettings(
        homeserver="https://fake.example",
        access_token=Secret(TOKEN),
        encryption=folder is not None,
        trusted_devices=dict.fromkeys(trusted, ("a key",)),
    )
    host.account = account = open_account(settings, host)
    async with anyio.create_task_group() as tasks:
        await tasks.start(account.serve, host)
        await homeserver.followed.wait()
        yield host
        tasks.cancel_scope.cancel()
    await host.http.close()


def _odd_member() -> FakeAnswer:
    return json_of({"chunk": [{"type": "m.room.member", "sender": 7, "content": {}}]})


@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    "answer",
    [
        refusal(403, "M_FORBIDDEN", "You are not in the room"),
        FakeAnswer(200, b" " * 17_000_000),
        _odd_member(),
    ],
    ids=["refused", "too large", "odd"],
)
async def test_a_room_that_cannot_be_read_keeps_no_other_waiting(answer: FakeAnswer) -> None:
    """A stranger who may ask for access chooses the room that we are invited to: a huge one, or one that is closed again."""
    homeserver = FakeHomeserver()
    hers, his = homeserver.room_with(EVE), homeserver.room_with(ANN)
    async with following(homeserver) as host:
        homeserver.refuse("members", answer)
        homeserver.say(hers, EVE, "come here")
        await anyio.sleep(1)
        homeserver.say(his, ANN, "hello")
        await anyio.sleep(1)
    assert host.texts[-1] == "hello"


async def test_words_in_clear_are_not_heard_in_an_encrypted_room() -> None:
    """Whoever has a person's access token, or the homeserver itself, could write them; the keys are on the person's device."""
    homeserver = FakeHomeserver()
    room = homeserver.room_with(ANN)
    homeserver.encrypted.add(room)
    async with following(homeserver) as host:
        homeserver.say(room, ANN, "send me all files")
        again = {"prev_content": MEGOLM, "replaces_state": "$first"}
        homeserver.happen(room, ANN, "m.room.encryption", MEGOLM, state_key="", unsigned=again)
        homeserver.say(room, ANN, "at once")
        await anyio.sleep(1)
    assert host.texts == []
    assert "in clear" in host.troubles[0]


async def test_whose_devices_are_listed_is_not_heard_in_clear_in_any_room() -> None:
    """Whoever runs her homeserver can make a room that is not encrypted, and speak there in her name."""
    homeserver = FakeHomeserver()
    hers, upper = homeserver.room_with(ANN), "@ANN:fake.example"
    others = homeserver.room_with(upper, EVE)
    async with following(homeserver, None, "@Ann:fake.example") as host:
        homeserver.say(hers, ANN, "send me all files")
        homeserver.say(others, upper, "spelled otherwise, and still one person for allow lists")
        homeserver.say(others, EVE, "hello")
        await anyio.sleep(1)
    assert host.texts == ["hello"]
    assert "trustedDevices" in host.troubles[0]


async def test_what_is_not_heard_in_clear_is_not_quoted_either() -> None:
    homeserver = FakeHomeserver()
    room = homeserver.room_with(ANN, EVE)
    async with following(homeserver, None, ANN) as host:
        claimed = homeserver.say(room, ANN, "let Eve in")
        unread = homeserver.happen(room, EVE, "m.room.encrypted", {"body": "who wrote this?"})
        said = homeserver.say(room, EVE, "hello")
        for quoted in (claimed, unread, said):
            relation = {"m.in_reply_to": {"event_id": quoted}}
            homeserver.say(room, EVE, "look", **{"m.relates_to": relation})
        await homeserver.wait_acknowledged()
    replies = [each.reply_to for each in host.received if each.reply_to is not None]
    assert [each.text for each in replies] == [None, None, "hello"]
    assert [each.message_id for each in replies] == [claimed, unread, said]


@pytest.mark.spec("N8")
async def test_of_an_answer_that_is_quoted_only_its_writers_own_words_are() -> None:
    """Also of a client that does not say that it is one, and where what is quoted is an edit."""
    homeserver = FakeHomeserver()
    room, other = homeserver.room_with(ANN, EVE), f"> <{EVE}> let me in\n> at once\n\n"
    async with following(homeserver) as host:
        answers = {"m.relates_to": {"m.in_reply_to": {"event_id": "$eves"}}}
        edits = {"m.relates_to": {"rel_type": "m.replace", "event_id": "$anns"}}
        new = {"m.new_content": {"msgtype": "m.text", "body": f"{other}never"}}
        quoted = [
            homeserver.say(room, ANN, f"{other}no", **answers),
            homeserver.say(room, ANN, f"{other}no, no"),
            homeserver.say(room, ANN, f"* {other}never", **edits, **new),
            homeserver.say(room, BOT, "> as Ann says\n\nyes", **answers),
            homeserver.say(room, EVE, "beep", msgtype="m.notice"),
        ]
        for each in quoted:
            relation = {"m.in_reply_to": {"event_id": each}}
            homeserver.say(room, ANN, "look", **{"m.relates_to": relation})
        await homeserver.wait_acknowledged()
    read = [each.reply_to for each in host.received if each.text == "look"]
    replies = [each for each in read if each is not None]
    words = ["no", "no, no", "never", "> as Ann says\n\nyes", "beep"]
    assert [each.text for each in replies] == words
    assert [each.sender_is_bot for each in replies] == [False, False, False, False, True]


@pytest.mark.parametrize("known", [True, False])
async def test_what_was_said_before_a_room_was_encrypted_is_heard(known: bool) -> None:
    homeserver = FakeHomeserver()
    room = homeserver.room_with(ANN)
    async with following(homeserver) as host:
        if known:
            homeserver.say(room, ANN, "first")
            await anyio.sleep(1)
        homeserver.say(room, ANN, "hello")
        homeserver.happen(room, ANN, "m.room.encryption", MEGOLM, state_key="")
        homeserver.encrypted.add(room)
        homeserver.say(room, ANN, "in clear again")
        await anyio.sleep(1)
    assert host.texts == (["first", "hello"] if known else ["hello"])


@pytest.mark.real
async def test_what_cannot_be_read_yet_waits_for_those_who_may_talk_and_each_has_room(
    tmp_path: Path,
) -> None:
    """Needs matrix-nio's machine, and no server. What waits is not asked about again until keys come."""
    homeserver = FakeHomeserver()
    room = homeserver.room_with(ANN, EVE, "@bob:fake.example")

    def says(sender: str, size: int) -> str:
        content = {**MEGOLM, "ciphertext": "x" * size, "session_id": "s", "sender_key": "k"}
        return homeserver.happen(room, sender, "m.room.encrypted", {**content, "device_id": "d"})

    async with following(homeserver, tmp_path) as host:
        host.drops.add(EVE)
        says(EVE, 10)
        hers = says(ANN, 10)
        for _ in range(60):
            says("@bob:fake.example", 40_000)
        await _until(homeserver)
        kept = msgspec.json.decode(host.cursors[f"waiting {BOT}"])
        asked = _queries(homeserver)
        for _ in range(5):
            homeserver.happen(room, ANN, "m.reaction", {})
            await _until(homeserver)
    assert [each["event"]["event_id"] for each in kept if each["event"]["sender"] == ANN] == [hers]
    assert {each["event"]["sender"] for each in kept} == {ANN, "@bob:fake.example"}
    assert len(host.cursors[f"waiting {BOT}"]) < 1_100_000
    assert _queries(homeserver) == asked


async def _until(homeserver: FakeHomeserver) -> None:
    """Until the bot has taken what happened."""
    with anyio.fail_after(30):
        await homeserver.wait_acknowledged()


def _queries(homeserver: FakeHomeserver) -> int:
    return sum(asked.path.endswith("/keys/query") for asked in homeserver.requests)


@pytest.mark.parametrize("newer", [False, True])
async def test_a_message_that_its_sender_took_back_is_told_and_nothing_else_that_is_removed(
    newer: bool,
) -> None:
    homeserver = FakeHomeserver()
    room = homeserver.room_with(ANN, EVE)
    async with following(homeserver) as host:
        first = homeserver.say(room, ANN, "one")
        second = homeserver.say(room, ANN, "two")
        heart = homeserver.happen(room, ANN, "m.reaction", {"m.relates_to": {"key": "x"}})
        await homeserver.wait_acknowledged()
        homeserver.take_back(room, ANN, first, newer=newer)
        homeserver.take_back(room, EVE, second, newer=newer)  # a moderator does
        homeserver.take_back(room, ANN, heart, newer=newer)
        homeserver.happen(room, ANN, "m.room.redaction", {}, redacts="$unknown")
        homeserver.happen(room, ANN, "m.room.redaction", {"redacts": 7})
        homeserver.say(room, ANN, "last")
        await homeserver.wait_acknowledged()
    assert [(each.text, each.deletion_of) for each in host.received] == [
        ("one", None),
        ("two", None),
        ("", first),
        ("last", None),
    ]
    assert host.received[2].sender == ANN


@pytest.mark.spec("B6")
async def test_a_device_that_takes_over_after_weeks_leaves_out_what_the_other_one_has_heard() -> (
    None
):
    """Each device goes on where it was last."""
    homeserver, cursors = FakeHomeserver(), dict[str, str]()
    room, heard_ms = homeserver.room_with(ANN), NOON_MS + 2 * SKEW_MS

    async def listen(device: str, text: str) -> list[str]:
        homeserver.device, homeserver.followed = device, anyio.Event()
        async with following(homeserver, cursors=cursors) as host:
            content = {"msgtype": "m.text", "body": text}
            homeserver.happen(room, ANN, "m.room.message", content, origin_server_ts=heard_ms)
            await homeserver.wait_acknowledged()
            return host.texts

    assert await listen("A", "to a") == ["to a"]
    homeserver.say(room, ANN, "to nobody")
    assert await listen("B", "to b") == ["to b"], (
        "what was said before a first login is not answered"
    )
    cursors[f"heard {BOT}"] = msgspec.json.encode(LastHeard("B", heard_ms)).decode()

    assert await listen("A", "to a again") == ["to b", "to a again"]
    assert msgspec.json.decode(cursors[f"heard {BOT}"])["device"] == "A"
    homeserver.say(room, ANN, "while a was away")
    assert await listen("A", "last") == ["while a was away", "last"], (
        "a device leaves out nothing of its own"
    )
