"""Pictures and files in the ledger: once each, by their hash, as long as somebody names them."""

import base64
from pathlib import Path

import apsw
import msgspec
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import Media, carrying, stored_in
from crossclaw.domain.messages import (
    Document,
    Image,
    MediaSource,
    Text,
    ToolResultMessage,
    UserMessage,
    encode_message,
)
from crossclaw.domain.runs import NewRun, Run
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.imports import (
    BeginImport,
    ImportedEntry,
    ImportedSession,
    ImportEntries,
    ImportState,
)
from crossclaw.ledger.media import DescribeMedia, DropMedia, KeepMedia
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import (
    Append,
    DeleteSession,
    Inject,
    PruneDedupe,
    ResetSession,
    Submit,
)
from crossclaw.ledger.sqlite.copying import check_store
from crossclaw.ledger.sqlite.inspecting import damaged_rows
from crossclaw.ledger.sqlite.migrate import MIGRATIONS, migrate
from tests.ledger.making import ANA, BEN, claim, end, session
from tests.stores import look_into

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
CAT, DOG = Media("image/png", PICTURE), Media("image/png", PICTURE + b"dog")
PDF = Media("application/pdf", b"%PDF-1.7 and so on")


VERSION_BEFORE = next(each.number for each in MIGRATIONS if each.name == "media") - 1


def inline(media: Media) -> Image:
    return Image(carrying(media.source, media.data))


def said(*blocks: Text | Image | Document) -> UserMessage:
    return UserMessage([Text("look"), *blocks])


async def submit(ledger: Ledger, run_id: str, message: UserMessage, key: SessionKey = ANA) -> None:
    new = NewRun(run_id=run_id, key=key, kind="chat", message=message)
    await ledger.commit(session(key), Submit(new=new, at=2))


async def begun(ledger: Ledger, message: UserMessage, key: SessionKey = ANA) -> Run:
    await submit(ledger, f"run-{key.name}", message, key)
    return await claim(ledger, key)


async def entries(ledger: Ledger, key: SessionKey = ANA) -> list[Entry]:
    return await ledger.list_entries(f"id-of-{key.name}", limit=100)


def count(tmp_path: Path, table: str = "media") -> int:
    db = look_into(tmp_path / "ledger.sqlite")
    (found,) = db.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    db.close()
    return int(found)


@pytest.mark.spec("M1")
async def test_a_picture_is_kept_once_in_the_step_that_accepts_its_message(
    ledger: Ledger, tmp_path: Path
) -> None:
    document = Document(carrying(PDF.source, PDF.data), "a.pdf")
    await submit(ledger, "r1", said(inline(CAT), inline(CAT), document))

    waiting = await ledger.find_inbox("r1")
    assert waiting == said(Image(CAT.source), Image(CAT.source), Document(PDF.source, "a.pdf"))
    assert count(tmp_path) == 2
    found = await ledger.find_media(CAT.sha256)
    assert found == CAT

    run = await claim(ledger)
    (entry,) = await entries(ledger)
    assert entry.message == waiting
    assert entry.size < 1_000, "the entry is small, however large its pictures are"
    (whole,) = await ledger.with_media([entry])
    assert whole.message == said(inline(CAT), inline(CAT), document)
    await end(ledger, run)
    assert count(tmp_path, "media_uses") == 2, "the inbox holds it no longer; the transcript does"


async def test_what_a_tool_answers_with_pictures_is_kept_likewise(ledger: Ledger) -> None:
    run = await begun(ledger, UserMessage("draw"))
    content = msgspec.to_builtins([Text("here"), inline(DOG), {"type": "image", "of": "nobody"}])
    result = ToolResultMessage("c1", "read", content)

    await ledger.do(
        Append(fence=run.fence, entries=[NewEntry(entry_id="e1", message=result)], at=4)
    )

    stored = (await entries(ledger))[-1]
    assert stored_in(stored.message) == [DOG.source]
    (whole,) = await ledger.with_media([stored])
    assert whole.message is not None
    assert whole.message.content == content


async def test_data_that_is_no_base64_stays_where_it_is(ledger: Ledger) -> None:
    broken = said(Image(MediaSource("base64", "image/png", "!!!")))

    await begun(ledger, broken)

    assert (await entries(ledger))[0].message == broken


async def test_it_goes_with_the_last_session_that_names_it_and_not_before(
    ledger: Ledger, tmp_path: Path
) -> None:
    for key in (ANA, BEN):
        await end(ledger, await begun(ledger, said(inline(CAT)), key))
    await ledger.do(DescribeMedia(sha256=CAT.sha256, words="a cat", model="m", at=5))

    await ledger.do(ResetSession(key=ANA, session_id="id-2", at=6))
    assert count(tmp_path) == 1, "the old transcript is still there to be read"
    await ledger.do(DeleteSession(key=ANA, at=7))
    assert await ledger.find_media(CAT.sha256) == CAT
    await ledger.do(DeleteSession(key=BEN, at=8))

    assert await ledger.find_media(CAT.sha256) is None
    assert await ledger.find_media_words([CAT.sha256]) == {}
    assert count(tmp_path, "media_uses") == 0


async def test_whoever_knows_a_hash_has_not_got_the_picture(ledger: Ledger) -> None:
    await begun(ledger, said(inline(CAT)))

    await begun(ledger, said(Image(CAT.source)), BEN)

    (entry,) = await entries(ledger, BEN)
    (source,) = stored_in(entry.message)
    assert source.sha256 is None
    tool = ToolResultMessage(
        "c", "t", [{"type": "image", "source": msgspec.to_builtins(CAT.source)}]
    )
    await ledger.do(Inject(key=BEN, entries=[NewEntry(entry_id="t", message=tool)], at=5))
    (source,) = stored_in((await entries(ledger, BEN))[-1].message)
    assert source.sha256 is None


async def test_a_channel_keeps_bytes_and_names_them_in_the_same_step(
    ledger: Ledger, tmp_path: Path
) -> None:
    new = NewRun(run_id="r1", key=ANA, kind="chat", message=said(Image(DOG.source)))
    keep = KeepMedia(media=DOG, agent_id="main", at=2)

    _, key, _ = await ledger.commit(session(ANA), keep, Submit(new=new, at=2))
    await claim(ledger)

    assert key == DOG.sha256
    assert stored_in((await entries(ledger))[0].message) == [DOG.source]
    await ledger.commit(KeepMedia(media=CAT, agent_id="main", at=3))  # nobody names it
    await ledger.commit(KeepMedia(media=PDF, agent_id="main", at=3, holder="outbox:d1"))
    await ledger.do(PruneDedupe(before=4))
    assert await ledger.find_media(CAT.sha256) is None
    assert await ledger.find_media(PDF.sha256) == PDF
    await ledger.do(DropMedia(holder="outbox:d1"))
    assert await ledger.find_media(PDF.sha256) is None
    assert count(tmp_path) == 1


async def test_an_import_keeps_pictures_by_their_hash(ledger: Ledger) -> None:
    imported = ImportedSession(key=ANA, session_id="old", created_at=1, updated_at=1, columns={})
    state = await ledger.do(BeginImport(session=imported, path="p", at=1))
    assert state is not None
    read = [ImportedEntry(NewEntry(entry_id="e", message=said(inline(CAT))), 1)]
    after = ImportState(size=9, bytes=9, lines=1, entries=1)

    await ledger.do(ImportEntries(session_id="old", entries=read, before=state, after=after))

    (entry,) = await ledger.list_entries("old", limit=9)
    assert entry.message == said(Image(CAT.source))


def old_store(path: Path, version: int) -> None:
    """As a release before wrote it: the pictures stand in the messages."""
    db = apsw.Connection(str(path))
    migrate(db, upto=version)
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at, last_seq) "
        "VALUES ('s','main','agent:main:ana',1,4)"
    )
    note = {"kind": "queue-overflow", "message": msgspec.to_builtins(said(inline(DOG)))}
    plain = UserMessage('a text with "base64" in it')
    bodies = [
        ("message", encode_message(said(inline(CAT)))),
        ("message", encode_message(plain)),
        ("note", msgspec.json.encode(note)),
        ("message", b'{"role":"user","content":[{"type":"base64"'),
    ]
    for seq, (kind, body) in enumerate(bodies, 1):
        db.execute(
            "INSERT INTO entries (agent_id, session_id, seq, entry_id, at, type, role, body) "
            "VALUES ('main','s',?,?,1,?,'user',?)",
            (seq, f"e{seq}", kind, body),
        )
    db.execute(
        "INSERT INTO inbox (run_id, agent_id, key, at, message, authority) "
        "VALUES ('r','main','agent:main:ana',1,?,'{}')",
        (encode_message(said(inline(CAT))),),
    )
    db.close()


async def test_pictures_of_an_old_store_move_out_of_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    old_store(path, VERSION_BEFORE)

    ledger = open_ledger(path, inline=True)
    first, second, third, fourth = await ledger.list_entries("s", limit=9)
    whole = await ledger.with_media([first, third])
    waiting = await ledger.find_inbox("r")
    await ledger.close()

    assert first.message == said(Image(CAT.source))
    assert first.size < 1_000
    assert whole[0].message == said(inline(CAT))
    assert second.message == UserMessage('a text with "base64" in it')
    assert third.note is not None
    assert base64.b64encode(DOG.data).decode() not in str(third.note)
    assert base64.b64encode(DOG.data).decode() in str(whole[1].note)
    assert fourth.type == "note", "what could not be read is still told as such"
    assert waiting == said(Image(CAT.source))
    assert (count(tmp_path), count(tmp_path, "media_uses")) == (2, 3)
    assert check_store(path)["media"] == 2


async def test_damage_to_a_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path, inline=True)
    await begun(ledger, said(inline(CAT), inline(DOG)))
    await ledger.close()
    db = look_into(path)
    db.execute("UPDATE media SET data = x'00' WHERE sha256 = ?", (CAT.sha256,))
    db.execute("DELETE FROM media WHERE sha256 = ?", (DOG.sha256,))
    db.close()

    found = [(each.table, each.name) for each in damaged_rows(path)]

    assert found == [("media", "id 1"), ("media_uses", "id 4 of id-of-ana")]


async def test_a_name_that_stood_in_an_old_store_by_chance_gets_no_picture(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    old_store(path, VERSION_BEFORE)
    db = look_into(path)
    blocks = [{"type": "image", "source": msgspec.to_builtins(CAT.source)}]
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at, last_seq) "
        "VALUES ('other','main','agent:main:ben',1,1)"
    )
    db.execute(
        "INSERT INTO entries (agent_id, session_id, seq, entry_id, at, type, role, body) "
        "VALUES ('main','other',1,'e1',1,'message','toolResult',?)",
        (encode_message(ToolResultMessage("c", "t", blocks)),),
    )
    db.close()

    ledger = open_ledger(path, inline=True)
    entry = (await ledger.list_entries("other", limit=9))[0]
    (whole,) = await ledger.with_media([entry])
    await ledger.close()

    assert stored_in(whole.message) == [MediaSource("stored", "image/png")]


async def test_a_name_has_the_size_of_what_it_names_and_not_what_a_tool_says(
    ledger: Ledger,
) -> None:
    run = await begun(ledger, said(inline(CAT)))
    lie = {**msgspec.to_builtins(CAT.source), "size": -1_000_000_000, "data": "x" * 9}
    result = ToolResultMessage("c", "t", [{"type": "image", "source": lie}])

    await ledger.do(Append(fence=run.fence, entries=[NewEntry(entry_id="e", message=result)], at=4))

    assert stored_in((await entries(ledger))[-1].message) == [CAT.source]


@pytest.mark.parametrize("kind", ["media", "media_uses"])
async def test_neither_a_picture_nor_its_names_are_found_by_reading_all_of_them(
    ledger: Ledger, tmp_path: Path, kind: str
) -> None:
    plans = {
        "media": ["SELECT media_type, data FROM media WHERE sha256 = ?"],
        "media_uses": [
            "SELECT 1 FROM media_uses WHERE holder = ? AND sha256 = ?",
            "DELETE FROM media_uses WHERE holder = ?",
            "DELETE FROM media WHERE sha256 = ? AND "
            "NOT EXISTS (SELECT 1 FROM media_uses u WHERE u.sha256 = media.sha256)",
        ],
    }
    db = look_into(tmp_path / "ledger.sqlite")
    for sql in plans[kind]:
        steps = [
            row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", ("a", "b")[: sql.count("?")])
        ]
        assert steps
        assert not [step for step in steps if step.startswith("SCAN")], sql
    db.close()
