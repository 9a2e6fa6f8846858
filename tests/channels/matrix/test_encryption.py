"""End-to-end encryption on a real Synapse; the other side is matrix-nio's own client in a process of its own."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.errors import AccountBroken
from tests.channels.matrix.encrypted_person import EncryptedPerson, open_person
from tests.channels.matrix.rig import MatrixHost, Place, picture, piece
from tests.channels.synapse import Synapse

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.spec("N7")]

ALGORITHM = {"algorithm": "m.megolm.v1.aes-sha2"}
STATE = [{"type": "m.room.encryption", "state_key": "", "content": ALGORITHM}]


def _room(place: Place) -> str:
    room = place.ann.make_room(place.bot.user_id, direct=True, initial_state=STATE)
    place.bot.join(room)
    return room


def _on_the_server(place: Place, room: str) -> list[dict[str, Any]]:
    kinds = ("m.room.message", "m.room.encrypted")
    return [event for event in place.ann.events(room) if event["type"] in kinds]


async def test_words_and_files_go_both_ways_and_the_server_sees_none_of_them(
    synapse: Synapse, tmp_path: Path
) -> None:
    place = Place(synapse, tmp_path)
    room = _room(place)
    with open_person(place.ann, tmp_path / "hers") as ann:
        async with place.served(encryption=True) as account:
            await ann.ask("wait encrypted", room=room)
            await ann.ask("say", room=room, text="a secret")
            (inbound,) = await place.host.wait_for(1)
            assert (inbound.text, inbound.sender) == ("a secret", place.ann.user_id)
            first = await account.send(piece(room, "well kept", "k1"))
            assert await account.send(piece(room, "well kept", "k1")) == first
            heard = await ann.ask("heard", room=room, count=1)
            assert heard == [["RoomMessageText", "well kept"]]
            await account.send(piece(room, "the map", "k2", media=picture()))
            await ann.ask("heard", room=room, count=2)
            assert (await ann.ask("file")).encode("latin-1") == picture().data
            await ann.ask("send file", room=room, data="their file")
            await place.host.wait_for(2)
            assert place.host.files == [b"their file"]
        # A restart has the same keys, and another one to speak with.
        await ann.ask("say", room=room, text="while you were away")
        async with place.served(encryption=True) as account:
            await place.host.wait_for(3)
            await account.send(piece(room, "back again", "k3"))
            heard = await ann.ask("heard", room=room, count=3)
            assert heard[2] == ["RoomMessageText", "back again"]
    assert place.host.texts == ["a secret", "", "while you were away"]
    assert {event["type"] for event in _on_the_server(place, room)} == {"m.room.encrypted"}
    assert place.host.troubles == []


@pytest.mark.spec("B6")
async def test_a_gateway_without_the_keys_leaves_the_account_to_the_one_that_has_them(
    synapse: Synapse, tmp_path: Path
) -> None:
    """What was said meanwhile waits at the homeserver, and people go on talking with the same device."""
    place = Place(synapse, tmp_path)
    room = _room(place)
    with open_person(place.ann, tmp_path / "hers") as ann:
        async with place.served(encryption=True) as account:
            await ann.ask("wait encrypted", room=room)
            await ann.ask("say", room=room, text="before")
            await place.host.wait_for(1)
            await account.send(piece(room, "heard", "k1"))
            await ann.ask("heard", room=room, count=1)
        first, place.host = place.host, MatrixHost(tmp_path / "other keys")
        place.host.cursors = first.cursors  # one ledger
        await ann.ask("say", room=room, text="while nobody had the keys")
        async with place.served(encryption=True):
            refused = await place.host.wait_end()
        assert isinstance(refused, AccountBroken)
        assert "are not on this gateway" in str(refused)
        assert (place.host.texts, place.host.troubles) == ([], [])
        place.host = first
        async with place.served(encryption=True) as account:
            await place.host.wait_for(2)
            await account.send(piece(room, "back again", "k2"))
            heard = await ann.ask("heard", room=room, count=2)
    assert place.host.texts == ["before", "while nobody had the keys"]
    assert heard[1] == ["RoomMessageText", "back again"]


async def test_whoever_left_cannot_read_on_and_a_new_device_reads_from_now_on(
    synapse: Synapse, tmp_path: Path
) -> None:
    place = Place(synapse, tmp_path)
    bob = synapse.register("bob")
    room = _room(place)
    place.ann.invite(room, bob.user_id)
    bob.join(room)
    with (
        open_person(place.ann, tmp_path / "hers") as ann,
        open_person(bob, tmp_path / "his") as his,
    ):
        await ann.ask("wait encrypted", room=room)
        await his.ask("wait encrypted", room=room)
        async with place.served(encryption=True) as account:
            await account.send(piece(room, "for three", "k1"))
            assert await his.ask("heard", room=room, count=1) == [["RoomMessageText", "for three"]]
            place.ann.kick(room, bob.user_id)
            await ann.ask("say", room=room, text="he is gone")  # to see that we have heard of it
            await place.host.wait_for(1)
            await account.send(piece(room, "for two", "k2"))
            await ann.ask("heard", room=room, count=2)
            keys = {
                event["content"]["session_id"]
                for event in _on_the_server(place, room)
                if event["type"] == "m.room.encrypted" and event["sender"] == place.bot.user_id
            }
            assert len(keys) == 2
            await _new_device(place, ann, room, tmp_path, account)


async def _new_device(
    place: Place, ann: EncryptedPerson, room: str, folder: Path, account: Any
) -> None:
    with open_person(place.ann, folder / "her second") as second:
        await second.ask("wait encrypted", room=room)
        await second.ask("say", room=room, text="from my phone")
        await place.host.wait_for(2)
        assert place.host.texts[-1] == "from my phone"
        await account.send(piece(room, "to both", "k3"))
        heard = await second.ask("heard", room=room, count=1)
        assert heard[-1] == ["RoomMessageText", "to both"]
        assert (await ann.ask("heard", room=room, count=3))[-1][1] == "to both"
