"""The keys of a device, with matrix-nio's machine on both sides and no server: what a person who encrypts can do to us."""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.channels.matrix.client import MatrixClient
from crossclaw.channels.matrix.events import DeviceLists, MatrixEvent, SyncAnswer
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import BOT, DEVICE, MEGOLM, TOKEN, FakeHomeserver

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.spec("N7")]

ANN, ROOM = "@ann:fake.example", "!room"
WORDS = (
    '{"type": "m.room.message", "room_id": "!room", "content": {"msgtype": "m.text", "body": "hi"}}'
)


class Talker:
    """Ann's device, and the gateway's vault that has her key of the room."""

    def __init__(self, folder: Path) -> None:
        import nio.crypto  # noqa: PLC0415  installed by make channels
        import nio.store  # noqa: PLC0415

        for name in ("hers", "ours"):
            (folder / name).mkdir()
        self.folder = folder / "ours"
        self.homeserver = FakeHomeserver()
        http = HttpClients(FakeTransport({"fake.example": self.homeserver}))
        client = MatrixClient(http.open("https://fake.example"), TOKEN)
        self.now = 1_000
        self.trusted: dict[str, list[str]] = {}
        self.client = client
        self.vault = self.new_vault()
        store = nio.store.SqliteStore(ANN, "PHONE", str(folder / "hers"))
        self.olm = nio.crypto.Olm(ANN, "PHONE", store)
        keys = self.olm.share_keys()
        self.homeserver.devices[ANN] = {"PHONE": keys["device_keys"]}
        self.homeserver.one_time_keys[ANN, "PHONE"] = dict(keys["one_time_keys"])

    def new_vault(self) -> Any:
        from crossclaw.channels.matrix.encryption import KeyVault  # noqa: PLC0415

        device = (self.client, self.folder, BOT, DEVICE)
        return KeyVault(*device, lambda: self.now, self.trusted)

    async def open(self) -> None:
        await self.vault.open()
        self.olm.create_outbound_group_session(ROOM)
        self.session = self.olm.outbound_group_sessions[ROOM]
        keys = self.olm.account.identity_keys
        given = (keys["curve25519"], keys["ed25519"], ROOM, self.session.id)
        self.vault._olm.create_group_session(*given, self.session.session_key)
        self.session.mark_as_shared()

    def says(self, inside: str, number: int = 1, **more: Any) -> MatrixEvent:
        content = {
            **MEGOLM,
            "ciphertext": self.session.encrypt(inside),
            "sender_key": self.olm.account.identity_keys["curve25519"],
            "session_id": self.session.id,
            "device_id": "PHONE",
        }
        return MatrixEvent(
            type="m.room.encrypted",
            sender=more.pop("sender", ANN),
            event_id=f"${number}",
            origin_server_ts=number,
            content=content | more,
        )

    @property
    def queries(self) -> int:
        return sum(asked.path.endswith("/keys/query") for asked in self.homeserver.requests)


@pytest.fixture
async def talker(tmp_path: Path) -> Talker:
    made = Talker(tmp_path)
    await made.open()
    return made


async def test_nothing_inside_of_an_event_breaks_more_than_the_event(talker: Talker) -> None:
    from crossclaw.channels.matrix.encryption import Undecrypted  # noqa: PLC0415

    deep = "[" * 20_000
    for number, inside in enumerate((deep, f'{{"content": {deep}', "7", "null", '"x"', ""), 1):
        with pytest.raises(Undecrypted):
            await talker.vault.decrypt(ROOM, talker.says(inside, number))
    opened = await talker.vault.decrypt(ROOM, talker.says(WORDS, 99))
    assert opened.content["body"] == "hi"


async def test_nobody_says_again_in_his_own_name_what_another_has_encrypted(talker: Talker) -> None:
    from crossclaw.channels.matrix.encryption import Undecrypted  # noqa: PLC0415

    event = talker.says(WORDS)
    with pytest.raises(Undecrypted):
        await talker.vault.decrypt(ROOM, talker.says(WORDS, 2, sender="@eve:fake.example"))
    with pytest.raises(Undecrypted):
        await talker.vault.decrypt("!another", event)
    await talker.vault.decrypt(ROOM, event)
    again = MatrixEvent(
        type=event.type, sender=ANN, event_id="$another", origin_server_ts=9, content=event.content
    )
    with pytest.raises(Undecrypted, match="replay"):
        await talker.vault.decrypt(ROOM, again)


async def test_a_message_is_not_read_again_under_another_id_after_a_restart(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A homeserver that keeps an encrypted message could have it carried out once more."""
    from crossclaw.channels.matrix import encryption  # noqa: PLC0415

    monkeypatch.setattr(encryption, "READ_MAX", 2)
    event = talker.says(WORDS)
    assert (await talker.vault.decrypt(ROOM, event)).content["body"] == "hi"
    await talker.vault.open()  # as after a restart: all that is in memory is new
    again = msgspec.structs.replace(event, event_id="$another")
    with pytest.raises(encryption.Undecrypted, match="replay"):
        await talker.vault.decrypt(ROOM, again)
    assert (await talker.vault.decrypt(ROOM, event)).content["body"] == "hi"  # the gateway had died
    talker.now += encryption.AGAIN_MS
    with pytest.raises(encryption.Undecrypted, match="replay"):
        await talker.vault.decrypt(ROOM, event)
    for number in (2, 3):
        await talker.vault.decrypt(ROOM, talker.says(WORDS, number))
    assert (await talker.vault.decrypt(ROOM, again)).content["body"] == "hi"  # beyond the limit


@pytest.mark.parametrize("listed", [True, False])
async def test_where_the_devices_of_a_person_are_listed_no_other_is_believed_or_written_to(
    talker: Talker, listed: bool
) -> None:
    """Whoever runs her homeserver could add one."""
    from crossclaw.channels.matrix.encryption import Undecrypted  # noqa: PLC0415

    key = talker.olm.account.identity_keys["ed25519"]
    shown = " ".join(key[at : at + 4] for at in range(0, len(key), 4))
    talker.trusted = {ANN.upper(): [shown if listed else "another key"]}
    talker.vault = talker.new_vault()
    await talker.vault.open()
    if listed:
        assert (await talker.vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"
    else:
        with pytest.raises(Undecrypted, match="not its sender's"):
            await talker.vault.decrypt(ROOM, talker.says(WORDS))
    await talker.vault.encrypt(ROOM, [ANN], "m.room.message", {"body": "re: hi"})
    told = [each for each in talker.homeserver.requests if "/sendToDevice/" in each.path]
    assert bool(told) is listed


async def test_whose_devices_there_are_is_asked_once_a_sync(talker: Talker) -> None:
    from crossclaw.channels.matrix.encryption import Undecrypted  # noqa: PLC0415

    for rounds in (1, 2):
        for number in range(5):
            with pytest.raises(Undecrypted):
                await talker.vault.decrypt(ROOM, talker.says(WORDS, number, sender_key="unknown"))
        assert talker.queries == rounds
        await talker.vault.take(SyncAnswer(next_batch="s1", device_lists=DeviceLists()))


async def test_keys_are_for_the_owner_alone_and_lie_in_their_folder(tmp_path: Path) -> None:
    """Whatever the homeserver says who we are."""
    from crossclaw.channels.matrix.encryption import KeyVault  # noqa: PLC0415

    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    http = HttpClients(FakeTransport({"fake.example": FakeHomeserver()}))
    client = MatrixClient(http.open("https://fake.example"), TOKEN)
    await KeyVault(client, folder, BOT, "../../escaped", lambda: 1, {}).open()
    await KeyVault(client, folder, BOT, DEVICE, lambda: 1, {}).open()

    (first, second) = sorted(folder.iterdir())
    assert {first.name, second.name} == {f"{BOT}_..%2F..%2Fescaped.db", f"{BOT}_{DEVICE}.db"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (first, second)} == {0o600}
    assert os.listdir(tmp_path) == ["a"]
