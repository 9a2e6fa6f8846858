"""The keys of a device, with matrix-nio's machine on both sides and no server: what a person who encrypts can do to us."""

import os
import shutil
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.channels.matrix.account import open_account
from crossclaw.channels.matrix.client import MatrixClient
from crossclaw.channels.matrix.events import DeviceLists, MatrixEvent, SyncAnswer
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.domain.errors import AccountBroken, ChannelDown, StoreError
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import BOT, DEVICE, MEGOLM, TOKEN, FakeHomeserver
from tests.channels.matrix.test_hostile_rooms import InvitedRecording

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.spec("N7")]

ANN, ROOM = "@ann:fake.example", "!room"
WORDS = (
    '{"type": "m.room.message", "room_id": "!room", "content": {"msgtype": "m.text", "body": "hi"}}'
)


class Ledgered:
    """A gateway's folder, and the ledger that several may share."""

    def __init__(self, folder: Path, cursors: dict[str, str] | None = None) -> None:
        self.folder, self.now = folder, 1_000
        self.cursors = {} if cursors is None else cursors

    async def private_folder(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    async def load_cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    async def save_cursor(self, name: str, value: str) -> None:
        self.cursors[name] = value

    def now_ms(self) -> int:
        return self.now


class Talker:
    """Ann's device, and the gateway's vault that has her key of the room."""

    def __init__(self, folder: Path) -> None:
        import nio.crypto  # noqa: PLC0415  installed by make channels
        import nio.store  # noqa: PLC0415

        (folder / "hers").mkdir()
        self.folder = folder / "ours"
        self.host = Ledgered(self.folder)
        self.homeserver = FakeHomeserver()
        http = HttpClients(FakeTransport({"fake.example": self.homeserver}))
        client = MatrixClient(http.open("https://fake.example"), TOKEN)
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

        return KeyVault(self.client, self.host, BOT, DEVICE, self.trusted)

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
async def talker(tmp_path: Path) -> AsyncGenerator[Talker]:
    made = Talker(tmp_path)
    await made.open()
    yield made
    await made.vault.close()


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
    await talker.vault.close()
    await talker.vault.open()  # as after a restart: all that is in memory is new
    again = msgspec.structs.replace(event, event_id="$another")
    with pytest.raises(encryption.Undecrypted, match="replay"):
        await talker.vault.decrypt(ROOM, again)
    assert (await talker.vault.decrypt(ROOM, event)).content["body"] == "hi"  # the gateway had died
    talker.host.now += encryption.AGAIN_MS
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
    await talker.vault.close()
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

    before = talker.queries
    for rounds in (1, 2):
        for number in range(5):
            with pytest.raises(Undecrypted):
                await talker.vault.decrypt(ROOM, talker.says(WORDS, number, sender_key="unknown"))
        assert talker.queries == before + rounds
        await talker.vault.take(SyncAnswer(next_batch="s1", device_lists=DeviceLists()))


async def test_keys_are_for_the_owner_alone_and_lie_in_their_folder(tmp_path: Path) -> None:
    """Whatever the homeserver says who we are."""
    from crossclaw.channels.matrix.encryption import KeyVault  # noqa: PLC0415

    folder = tmp_path / "a" / "b"
    http = HttpClients(FakeTransport({"fake.example": FakeHomeserver()}))
    client = MatrixClient(http.open("https://fake.example"), TOKEN)
    for device in ("../../escaped", DEVICE):
        vault = KeyVault(client, Ledgered(folder), BOT, device, {})
        await vault.open()
        await vault.close()

    names = (f"{BOT}_..%2F..%2Fescaped.db", f"{BOT}_{DEVICE}.db")
    assert {each.name for each in folder.iterdir()} == {*names, *(f"{name}.lock" for name in names)}
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert os.listdir(tmp_path) == ["a"]


def vault_on(talker: Talker, folder: Path) -> Any:
    """Of another gateway, with the same access token and the same ledger."""
    from crossclaw.channels.matrix.encryption import KeyVault  # noqa: PLC0415

    return KeyVault(talker.client, Ledgered(folder, talker.host.cursors), BOT, DEVICE, {})


def uploads(talker: Talker) -> int:
    return sum(asked.path.endswith("/keys/upload") for asked in talker.homeserver.requests)


async def refused(vault: Any) -> str:
    with pytest.raises(AccountBroken) as error:
        await vault.open()
    await vault.close()
    return str(error.value)


@pytest.mark.spec("B6")
async def test_a_gateway_without_the_keys_of_a_known_device_refuses_it_and_uploads_none(
    talker: Talker, tmp_path: Path
) -> None:
    await talker.vault.close()
    known, before = talker.homeserver.devices[BOT][DEVICE], uploads(talker)
    other = tmp_path / "other"
    for _ in range(2):  # what the first try left behind counts as nothing
        words = await refused(vault_on(talker, other))
        assert f"device {DEVICE} are not on this gateway" in words
        assert f"bring it here as {other}" in words
        assert "by a file system that both have or by a copy" in words
        assert "login of its own" not in words, "what is said meanwhile would be left out"
    assert (uploads(talker), talker.homeserver.devices[BOT][DEVICE]) == (before, known)

    talker.vault = talker.new_vault()  # the one that has them goes on
    await talker.vault.open()
    assert (await talker.vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"


@pytest.mark.spec("B6")
async def test_an_account_without_its_keys_was_never_connected_so_that_its_gateway_can_leave_it(
    talker: Talker, tmp_path: Path
) -> None:
    """One that was connected may have sent, and stays where it is."""
    await talker.vault.close()
    transport = FakeTransport({"fake.example": talker.homeserver})
    host = InvitedRecording("matrix", transport, VirtualClock())
    host.folder = tmp_path / "other"
    host.folder.mkdir()
    url, token = "https://fake.example", Secret(TOKEN)
    account = open_account(
        MatrixSettings(homeserver=url, access_token=token, encryption=True), host
    )
    with pytest.raises(AccountBroken, match="are not on this gateway"):
        await account.serve(host)
    assert host.facts is None
    await host.http.close()


@pytest.mark.spec("B6", "N9")
async def test_an_account_that_is_refused_as_the_same_bot_as_another_tells_nobody_of_its_keys(
    talker: Talker, tmp_path: Path
) -> None:
    async def refuse() -> None:
        raise AccountBroken("the same account as another")

    await talker.vault.close()
    del talker.homeserver.devices[BOT][DEVICE]
    before, vault = uploads(talker), vault_on(talker, tmp_path / "other")
    with pytest.raises(AccountBroken, match="the same account"):
        await vault.open(refuse)
    await vault.close()
    assert uploads(talker) == before


@pytest.mark.spec("B6")
async def test_keys_that_went_on_in_a_copy_are_not_used_where_they_were_before(
    talker: Talker, tmp_path: Path
) -> None:
    """Two that go on from the same keys break the device for everybody."""
    await talker.vault.close()
    other = tmp_path / "other"
    shutil.copytree(talker.folder, other)
    vault = vault_on(talker, other)
    await vault.open()
    assert (await vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"
    await vault.close()

    assert "have changed since this gateway had them" in await refused(talker.new_vault())
    again = vault_on(talker, other)
    await again.open()
    await again.close()

    del talker.homeserver.devices[BOT][DEVICE]  # its owner has signed it out
    talker.vault = talker.new_vault()
    await talker.vault.open()
    keys = talker.homeserver.devices[BOT][DEVICE]["keys"]
    assert keys[f"ed25519:{DEVICE}"] == talker.vault._olm.account.identity_keys["ed25519"]
    assert keys[f"ed25519:{DEVICE}"] != again._olm.account.identity_keys["ed25519"]


@pytest.mark.spec("B6")
async def test_a_mark_that_never_reached_the_ledger_keeps_nobody_from_its_keys(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway ended, or the database was away, between the file and the ledger."""
    await talker.vault.close()

    async def is_away(name: str, value: str) -> None:
        raise StoreError("the database is away")

    for _ in range(3):
        with monkeypatch.context() as away:
            away.setattr(talker.host, "save_cursor", is_away)
            with pytest.raises(StoreError):
                await talker.vault.open()
        await talker.vault.close()
    await talker.vault.open()
    assert (await talker.vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"


@pytest.mark.spec("B6")
async def test_a_ledger_from_a_backup_accepts_the_newest_keys_and_no_older_copy_after_that(
    talker: Talker, tmp_path: Path
) -> None:
    restored = dict(talker.host.cursors)
    for _ in range(5):
        await talker.vault.close()
        await talker.vault.open()
    await talker.vault.close()
    shutil.copytree(talker.folder, tmp_path / "older")
    talker.host.cursors = restored
    talker.vault = talker.new_vault()
    await talker.vault.open()
    assert (await talker.vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"
    older = vault_on(talker, tmp_path / "older")
    assert "have changed since this gateway had them" in await refused(older)


@pytest.mark.spec("B6")
async def test_the_newest_thousand_marks_are_kept_and_always_the_ledgers(tmp_path: Path) -> None:
    from crossclaw.channels.matrix.key_file import MARKS_MAX, KeyFile  # noqa: PLC0415

    file = KeyFile(tmp_path, BOT, DEVICE)

    def marks() -> list[str]:
        rows = file.store.database.execute_sql("SELECT mark FROM crossclaw_marks ORDER BY rowid")
        return [row[0] for row in rows.fetchall()]

    first = file.open(None, None)
    database = file.store.database
    with database.atomic():
        for number in range(MARKS_MAX):
            database.execute_sql("INSERT INTO crossclaw_marks VALUES (?)", (f"{number}",))
    file.close()
    for _ in range(2):  # the first new mark never reached the ledger
        made = file.open(None, first)
        assert marks()[-2:] == [first, made]
        assert len(set(marks())) == len(marks()) == MARKS_MAX
        file.close()


@pytest.mark.spec("B6")
async def test_one_process_at_a_time_has_the_keys_of_a_shared_folder_open(talker: Talker) -> None:
    """A gateway that was stopped, and whose account another one has taken, may wake up in the middle of a message."""
    second = vault_on(talker, talker.folder)
    with pytest.raises(ChannelDown, match="open in another process"):
        await second.open()
    await second.close()
    assert (await talker.vault.decrypt(ROOM, talker.says(WORDS))).content["body"] == "hi"

    await talker.vault.close()
    await second.open()
    with pytest.raises(ChannelDown, match="its keys are closed"):
        await talker.vault.encrypt(ROOM, [ANN], "m.room.message", {"body": "late"})
    await second.close()


async def test_a_device_that_was_signed_out_and_logged_in_again_gets_its_keys_back(
    talker: Talker,
) -> None:
    known = talker.homeserver.devices[BOT].pop(DEVICE)["keys"]
    await talker.vault.close()
    await talker.vault.open()
    assert talker.homeserver.devices[BOT][DEVICE]["keys"] == known
