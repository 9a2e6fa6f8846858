"""An OpenClaw state folder comes in whole: keys, ids, settings, messages and usage; once."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import carrying, stored_in
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    MediaSource,
    Message,
    Text,
    Thinking,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
)
from crossclaw.domain.sessions import Entry
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Export, Op
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions import importing
from crossclaw.sessions.foreign import columns_of
from crossclaw.sessions.imported import ImportReport
from crossclaw.sessions.importing import Import, has_sessions, require_sessions
from crossclaw.testing import ScriptedProvider, VirtualClock, open_gateway
from crossclaw.transcripts.jsonl import entry_lines, header_line
from tests.flows.talking import call, say
from tests.stores import look_into

MAIN, CRON = "029276d4-0000-4000-8000-000000000001", "029276d4-0000-4000-8000-000000000002"
HEADER = {"type": "session", "version": 3, "id": MAIN, "timestamp": "2026-02-08T13:37:00.250Z"}
USAGE = {"input": 900, "output": 30, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.5}}

pytestmark = [pytest.mark.anyio, pytest.mark.spec("C2")]


def message(number: int, body: dict[str, Any]) -> dict[str, Any]:
    at = 1_770_557_821_000 + number
    return {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": None,
        "timestamp": "2026-02-08T13:37:01.007Z",
        "message": {"timestamp": at, **body},
    }


LINES: list[dict[str, Any]] = [
    HEADER,
    {"type": "model_change", "id": "aa", "provider": "mock", "modelId": "m1"},
    message(1, {"role": "user", "content": "Where is the book?"}),
    message(
        2,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
            ],
            "provider": "mock",
            "model": "m1",
            "usage": USAGE,
            "stopReason": "toolUse",
        },
    ),
    message(
        3,
        {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "read",
            "content": [{"type": "text", "text": "shelf nine"}],
            "isError": False,
        },
    ),
    message(
        4, {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    ),
    message(
        5,
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Shelf nine."}],
            "stopReason": "stop",
        },
    ),
    {"type": "compaction", "id": "ff", "summary": "they looked for a book", "tokensBefore": 9},
]
ENTRY: dict[str, Any] = {
    "sessionId": MAIN,
    "updatedAt": 1_794_724_695_805,
    "label": "reading",
    "thinkingLevel": "low",
    "providerOverride": "mock",
    "modelOverride": "m2",
    "sendPolicy": "deny",
    "inputTokens": 11,
    "outputTokens": 7,
    "totalTokens": 18,
    "queueMode": "collect",
    "deliveryContext": {"channel": "telegram", "to": "4711"},
    "abortedLastRun": False,
    "skillsSnapshot": {"prompt": "long"},
}


def write(folder: Path, store: dict[str, Any], **transcripts: bytes) -> Path:
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    (sessions / "sessions.json").write_text(json.dumps(store, indent=2))
    for name, raw in transcripts.items():
        (sessions / f"{name}.jsonl").write_bytes(raw)
    return sessions


def lines(*bodies: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(body).encode() + b"\n" for body in bodies)


def a_folder(folder: Path) -> Path:
    write(folder, {"agent:main:main": ENTRY, "main": ENTRY}, **{MAIN: lines(*LINES)})
    return folder


async def bring(folder: Path, state: Path) -> ImportReport:
    ledger = open_ledger(state / "crossclaw.sqlite", inline=True)
    try:
        return await Import(ledger, VirtualClock(), lambda *_: None).run(folder)
    finally:
        await ledger.close()


async def test_everything_that_was_said_and_set_is_there(tmp_path: Path) -> None:
    report = await bring(a_folder(tmp_path / "there"), tmp_path / "state")
    assert (report.sessions, report.messages, report.notes, report.problems) == (1, 5, 2, [])

    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        (session,) = await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)
        assert (session.key.text, session.session_id) == ("agent:main:main", MAIN)
        assert (session.label, session.thinking, session.model) == ("reading", "low", "mock/m2")
        assert (session.send_policy, session.total_tokens) == ("deny", 18)
        assert session.updated_at == ENTRY["updatedAt"]
        assert session.created_at == 1_770_557_820_250
        assert session.last_address is not None
        assert session.last_address.to == "4711"
        entries = await gateway.ledger.list_entries(MAIN, limit=50)
        assert [entry.type for entry in entries] == ["note", *["message"] * 5, "note"]
        asked, called, result, picture, answered = [e.message for e in entries if e.message]
        assert isinstance(asked, UserMessage)
        assert asked.content == "Where is the book?"
        assert isinstance(called, AssistantMessage)
        assert called.blocks == [Thinking("hm", "sig"), ToolUse("c1", "read", {"path": "a"})]
        assert called.usage is not None
        assert (called.usage.prompt, called.usage.cost) == (906, 0.5)
        assert isinstance(result, ToolResultMessage)
        assert (result.tool_use_id, result.tool_name) == ("c1", "read")
        assert isinstance(picture, UserMessage)
        assert isinstance(picture.content[0], Image)
        assert isinstance(answered, AssistantMessage)
        assert answered.content == [Text("Shelf nine.")]
        assert [
            hit.entry.seq
            for hit in await gateway.ledger.search("shelf nine", limit=5, sight=EVERYTHING)
        ] == [6, 4]
        assert entries[-1].note is not None
        assert entries[-1].note["summary"] == "they looked for a book"


async def test_an_import_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    folder, state = a_folder(tmp_path / "there"), tmp_path / "state"
    await bring(folder, state)
    before = _everything(state)
    report = await bring(folder, state)
    assert (report.messages, report.transcripts_before) == (0, 1)
    assert _everything(state) == before


def _everything(state: Path) -> list[Any]:

    db = look_into(state / "crossclaw.sqlite")
    return [
        list(db.execute(f"SELECT * FROM {t}"))
        for t in ("sessions", "transcripts", "entries", "imports")
    ]


async def test_an_import_that_was_cut_off_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_ENTRIES", 2)
    folder, state = a_folder(tmp_path / "there"), tmp_path / "state"
    ledger = open_ledger(state / "crossclaw.sqlite", inline=True)

    class CutOff(Exception):
        pass

    def cut(done: int, _all: int, _report: ImportReport) -> None:
        if done > 400:
            raise CutOff

    with pytest.raises(CutOff):
        await Import(ledger, VirtualClock(), cut).run(folder)
    some = await ledger.last_seq(MAIN)
    await ledger.close()
    report = await bring(folder, state)
    assert 0 < some < 7
    assert report.messages + report.notes == 7 - some
    await bring(folder, tmp_path / "at once")
    ids = [[row[4] for row in _everything(each)[2]] for each in (state, tmp_path / "at once")]
    assert ids[0] == ids[1]


async def test_a_transcript_that_has_grown_there_brings_what_is_new(tmp_path: Path) -> None:
    folder, state = a_folder(tmp_path / "there"), tmp_path / "state"
    await bring(folder, state)
    with (folder / "agents/main/sessions" / f"{MAIN}.jsonl").open("ab") as file:
        file.write(lines(message(9, {"role": "user", "content": "And now?"})) + b"no JSON\n")
    newer = {**ENTRY, "updatedAt": ENTRY["updatedAt"] + 5, "totalTokens": 99}
    write(folder, {"agent:main:main": newer})
    report = await bring(folder, state)
    assert report.messages == 1
    assert (
        f"{MAIN}.jsonl:{len(LINES) + 2}: " in report.problems[0]
    )  # counted from the file's beginning
    ledger = open_ledger(state / "crossclaw.sqlite", inline=True)
    session = await ledger.find_session_by_id(MAIN)
    await ledger.close()
    assert session is not None
    assert (session.total_tokens, session.updated_at) == (99, newer["updatedAt"])


async def test_a_session_without_a_time_has_that_of_its_transcript(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "there")
    timeless = {name: value for name, value in ENTRY.items() if name != "updatedAt"}
    write(folder, {"agent:main:main": timeless})
    os.utime(folder / "agents/main/sessions" / f"{MAIN}.jsonl", (5, 1_234_567.5))
    await bring(folder, tmp_path / "state")
    ledger = open_ledger(tmp_path / "state" / "crossclaw.sqlite", inline=True)
    session = await ledger.find_session_by_id(MAIN)
    await ledger.close()
    assert session is not None
    assert session.updated_at == 1_234_567_500


async def test_a_session_that_was_talked_in_here_since_stays_as_it_is(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "there")
    await bring(folder, tmp_path / "state")
    async with open_gateway(tmp_path, ScriptedProvider(["here"])) as gateway:
        await call(gateway, "sessions.patch", key="main", sendPolicy=None, model=None)
        await say(gateway, "main", "hello", "r1")
        assert await gateway.ledger.last_seq(MAIN) == 9
    with (folder / "agents/main/sessions" / f"{MAIN}.jsonl").open("ab") as file:
        file.write(lines(message(9, {"role": "user", "content": "And now?"})))
    report = await bring(folder, tmp_path / "state")
    assert report.messages == 0
    assert "talked in here since" in report.remarks[0]


async def test_a_key_that_is_in_use_here_keeps_its_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["here"])) as gateway:
        await say(gateway, "main", "hello", "r1")
        mine = await gateway.ledger.find_session(SessionKey.main("main"))
    report = await bring(a_folder(tmp_path / "there"), tmp_path / "state")
    assert report.messages == 5
    assert "kept as a past transcript" in report.remarks[0]
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        assert await gateway.ledger.find_session(SessionKey.main("main")) == mine
        assert await gateway.ledger.last_seq(MAIN) == 7


async def test_what_cannot_be_read_is_told_with_its_line_and_the_rest_comes(tmp_path: Path) -> None:
    bad = [
        b'{"type":"message","id":"x"}\n',
        b"no json at all\n",
        b'{"type":"message","id":"y","message":{"role":"user","content":7}}\n',
        b"\xff\xfe\n",
    ]
    raw = lines(*LINES[:3]) + b"".join(bad) + lines(LINES[6]) + b'{"type":"mess'
    store = {
        "agent:main:main": ENTRY,
        "agent:main:broken": {"updatedAt": 3},
        "agent:main:unknown": {**ENTRY, "sessionId": CRON},
        "agent:main:evil": {**ENTRY, "sessionId": "../../etc/passwd"},
        "agent:main:gone": {**ENTRY, "sessionId": CRON, "label": "x"},
    }
    sessions = write(tmp_path / "there", store, **{MAIN: raw, "orphan": b"{}\n"})
    report = await bring(tmp_path / "there", tmp_path / "state")
    assert report.messages == 2
    told = [
        text.removeprefix(str(sessions / f"{MAIN}.jsonl")).partition(": ")[0]
        for text in report.problems
    ]
    assert [text for text in told if text.startswith(":")] == [":4", ":5", ":6", ":7", ":9"]
    assert report.unreadable == 8
    assert any("no transcript" in text for text in report.remarks)
    assert any("1 transcript that no session names" in text for text in report.remarks)
    again = await bring(tmp_path / "there", tmp_path / "state")
    assert (again.problems, again.messages, again.transcripts_before) == (report.problems, 0, 1)
    with (sessions / f"{MAIN}.jsonl").open("ab") as file:
        file.write(b'age"}\n')
    grown = await bring(tmp_path / "there", tmp_path / "state")
    assert sorted(
        text.partition(".jsonl:")[2][:2] for text in grown.problems if ".jsonl:" in text
    ) == [*("4:", "5:", "6:", "7:", "9:")]
    assert grown.unreadable == 8


class Counted(SqliteLedger):
    """Counts its commits."""

    commits = 0

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        self.commits += 1
        return await super().commit(*ops)

    async def do(self, op: Op[Any]) -> Any:
        (result,) = await self.commit(op)
        return result


async def test_many_short_sessions_take_one_look_at_the_folder_and_a_few_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself would list the whole folder and wait for the disk twice."""
    names = [f"{number:04}" for number in range(1_200)]
    store = {f"agent:main:s{name}": {"sessionId": name, "updatedAt": 5} for name in names}
    write(tmp_path / "there", store, **dict.fromkeys(names, lines(*LINES[:3])))
    looks: list[str] = []
    scandir = os.scandir

    def counted(path: Any = ".") -> Any:
        looks.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    ledger = Counted(tmp_path / "ledger.sqlite")
    report = await Import(ledger, VirtualClock(), lambda *_: None).run(tmp_path / "there")
    await ledger.close()

    assert (report.sessions, report.messages) == (1_200, 1_200)
    assert sum(look.endswith("/sessions") for look in looks) == 1
    assert ledger.commits <= 8


async def test_transcripts_of_topics_are_found_and_counted_as_named(tmp_path: Path) -> None:
    store = {
        "agent:main:a": {"sessionId": "aa", "updatedAt": 5},
        "agent:main:b": {"sessionId": "bb", "updatedAt": 5, "sessionFile": "/elsewhere/own.jsonl"},
    }
    some = lines(*LINES[:3])
    there = {"aa-topic-7": some, "aa-topic-9": some, "own": some, "aab": some, "cc-topic-1": some}
    write(tmp_path / "there", store, **there)
    report = await bring(tmp_path / "there", tmp_path / "state")

    assert report.messages == 2
    assert any("2 transcripts that no session names" in text for text in report.remarks)


@pytest.mark.spec("P1")
async def test_a_session_keeps_its_label_though_another_here_has_it(tmp_path: Path) -> None:
    store = {"agent:main:a": ENTRY, "agent:main:b": {**ENTRY, "sessionId": CRON}}
    write(tmp_path / "there", store, **{MAIN: lines(*LINES), CRON: lines(*LINES[:3])})
    report = await bring(tmp_path / "there", tmp_path / "state")
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        labels = [
            session.label
            for session in await gateway.ledger.list_sessions(limit=9, sight=EVERYTHING)
        ]

    assert labels == ["reading", "reading"]
    assert not any("label" in text for text in report.remarks)


async def test_runs_of_jobs_are_past_transcripts_of_their_session(tmp_path: Path) -> None:
    store = {
        "agent:main:cron:j1": {**ENTRY, "sessionId": MAIN},
        f"agent:main:cron:j1:run:{MAIN}": {**ENTRY, "sessionId": MAIN},
        f"agent:main:cron:j1:run:{CRON}": {**ENTRY, "sessionId": CRON},
        "telegram:group:7": {"sessionId": "g7", "updatedAt": 5},
    }
    write(tmp_path / "there", store, **{MAIN: lines(*LINES), CRON: lines(*LINES[:3]), "g7": b""})
    report = await bring(tmp_path / "there", tmp_path / "state")
    assert not [each for each in report.remarks if "in use here" in each]
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        keys = [
            session.key.text
            for session in await gateway.ledger.list_sessions(limit=9, sight=EVERYTHING)
        ]
        assert sorted(keys) == ["agent:main:telegram:group:7", "cron:j1"]
        assert (await gateway.ledger.last_seq(MAIN), await gateway.ledger.last_seq(CRON)) == (7, 2)


async def test_a_dry_run_reads_everything_and_a_folder_without_sessions_is_refused(
    tmp_path: Path,
) -> None:
    steps = list[tuple[int, int]]()
    telling = Import(None, VirtualClock(), lambda done, whole, _: steps.append((done, whole)))
    report = await telling.run(a_folder(tmp_path / "there"))
    assert report.messages == 5
    require_sessions(tmp_path / "there")
    assert (has_sessions(tmp_path / "there"), has_sessions(tmp_path)) == (True, False)
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1] > 0
    assert sorted(os.listdir(tmp_path)) == ["there"]
    with pytest.raises(Invalid, match="agents/<agent>/sessions"):
        await Import(None, VirtualClock(), lambda *_: None).run(tmp_path)


@pytest.mark.spec("C2")
async def test_damaged_values_are_told_and_keep_nothing_else_out(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.jsonl"
    outside.write_bytes(lines(message(1, {"role": "user", "content": "a secret of others"})))
    store = {
        "agent:main:good": {"sessionId": "s-good", "updatedAt": 5},
        "agent:main:late": {"sessionId": "s-late", "updatedAt": 1e30, "totalTokens": 10**30},
        "agent:main:long": {"sessionId": "s-long", "updatedAt": 5, "sessionFile": "x" * 5000},
        "agent:main:thief": {"sessionId": "s-thief", "updatedAt": 5, "sessionFile": str(outside)},
    }
    hello = lines(message(1, {"role": "user", "content": "hello", "timestamp": 1e300}))
    write(tmp_path / "from", store, **{"s-good": hello, "s-late": hello})
    report = await bring(tmp_path / "from", tmp_path / "state")

    assert report.sessions >= 3
    assert report.messages == 2
    assert any("s-long" in text or "agent:main:long" in text for text in report.remarks)


async def test_pictures_and_files_of_a_copy_of_ours_come_back_byte_for_byte(tmp_path: Path) -> None:
    """Its JSONL is complete: brought into another store it gives the same pictures and files, and its calls and costs."""
    png, pdf = b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"%PDF-1.4 a book"
    blocks: list[Image | Document] = [
        Image(carrying(MediaSource("stored", "image/png"), png)),
        Document(carrying(MediaSource("stored", "application/pdf"), pdf), "book.pdf"),
    ]
    told: list[Message] = [
        UserMessage([Text("look"), *blocks]),
        AssistantMessage(
            [ToolUse("c1", "read", {})], usage=Usage(5, 1, cost=0.25), stop_reason="tool_use"
        ),
        ToolResultMessage("c1", "read", [msgspec.to_builtins(blocks[0])]),
    ]
    written = [header_line(Export("main", MAIN, "agent:main:main", 1, 0, 0, 0))]
    entries = [
        Entry(session_id=MAIN, seq=n, entry_id=f"e{n}", at=1, type="message", message=each)
        for n, each in enumerate(told, 1)
    ]
    raw = written[0] + entry_lines(entries, None)
    write(tmp_path / "there", {"agent:main:main": ENTRY}, **{MAIN: raw})

    report = await bring(tmp_path / "there", tmp_path / "state")

    ledger = open_ledger(tmp_path / "state" / "crossclaw.sqlite", inline=True)
    stored = await ledger.list_entries(MAIN, limit=9)
    whole = await ledger.with_media(stored)
    await ledger.close()
    assert report.problems == []
    assert sum(entry.size for entry in stored) < len(raw)
    assert [entry.message for entry in whole] == told
    assert len(stored_in(stored[0].message)) == 2


async def test_a_store_that_somebody_edited_by_hand_is_read(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "there")
    store = folder / "agents" / "main" / "sessions" / "sessions.json"
    written = json.dumps({"agent:main:main": ENTRY})
    store.write_text(f"// mine\n{written[:-1]},}}")

    report = await bring(folder, tmp_path / "state")
    assert (report.sessions, report.problems) == (1, [])
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        (session,) = await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)
    assert session.label == "reading"


def test_what_has_no_column_of_ours_is_kept_by_its_name_unless_it_is_nothing() -> None:
    assert columns_of({"label": "a", "flavour": "mint", "nothing": None}) == {
        "label": "a",
        "overrides": {"flavour": "mint"},
    }


def test_where_a_session_was_last_spoken_in_is_read_as_the_newer_program_says_it_too() -> None:
    there = {"channel": "telegram", "to": "42", "accountId": "second", "threadId": 7}
    where = {"last_channel": "telegram", "last_to": "42", "last_account_id": "second", "last_thread_id": "7"}  # fmt: skip
    assert columns_of({"delivery": {"kind": "external", "context": there}}) == where
    assert columns_of({"deliveryContext": there, "delivery": {"context": {"to": "43"}}}) == where
    assert columns_of({"delivery": "external"}) == {}


def test_a_value_that_is_no_line_of_text_and_no_number_is_left_out_and_the_others_are_kept() -> (
    None
):
    entry = {"label": "two\nlines", "displayName": ["a"], "totalTokens": 10**30, "channel": "irc"}
    assert columns_of(entry) == {"channel": "irc"}


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"there is no folder .*nowhere"):
        await bring(tmp_path / "nowhere", tmp_path / "state")
