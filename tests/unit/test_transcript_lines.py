"""Lines of a transcript: what is written, and what is told about a file that was not left alone."""

import json

import pytest

from crossclaw.domain.messages import (
    AssistantMessage,
    Image,
    MediaSource,
    Message,
    Provenance,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
    encode_message,
)
from crossclaw.domain.sessions import Entry, EntryType
from crossclaw.ledger.operations import Export
from crossclaw.transcripts.jsonl import (
    Damage,
    HeaderLine,
    MessageLine,
    entry_line,
    entry_lines,
    header_line,
    iso_time,
    read_lines,
)

AT = 1_767_268_800_123
EXPORT = Export("main", "s1", "agent:main:ana", AT, 0, 0, 0)

CALL = AssistantMessage(
    [Thinking("hm", signature="sig"), Text("I look."), ToolUse("t1", "read", {"path": "a.txt"})],
    timestamp=AT,
    provider="anthropic",
    model="claude",
    usage=Usage(10, 5, 3, 2, cost=0.25),
    stop_reason="tool_use",
)
RESULT = ToolResultMessage("t1", "read", [{"type": "text", "text": "A"}], True, 12, AT)
ASKED = UserMessage(
    [
        Text("see\nthis\u2028\x00"),
        Image(MediaSource("base64", "image/png", "AAAA")),
        ToolResult("t0", {"rows": [1, 2]}),
    ],
    provenance=Provenance("inter_session", source_session_key="agent:ops:main"),
)


def entry(seq: int, message: Message | None = None, run_id: str | None = None) -> Entry:
    return Entry(
        session_id="s1",
        seq=seq,
        entry_id=f"e{seq}",
        at=AT + seq,
        type="message",
        run_id=run_id,
        message=message or UserMessage(f"no {seq}"),
    )


def transcript(count: int) -> list[bytes]:
    lines = header_line(EXPORT) + entry_lines([entry(seq + 1) for seq in range(count)], None)
    return lines.splitlines(keepends=True)


def damage_in(lines: list[bytes]) -> list[Damage]:
    return [line for line in read_lines(lines) if isinstance(line, Damage)]


@pytest.mark.spec("M4")
def test_the_header_names_the_session() -> None:
    assert json.loads(header_line(EXPORT)) == {
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": "2026-01-01T12:00:00.123Z",
        "key": "agent:main:ana",
        "agentId": "main",
    }


@pytest.mark.spec("M3", "M4")
@pytest.mark.parametrize("message", [ASKED, CALL, RESULT], ids=["user", "assistant", "toolResult"])
def test_a_message_is_written_as_it_is_stored(message: Message) -> None:
    line = entry_line(entry(4, message, run_id="r1"), "e3")

    written = json.loads(line)
    assert list(written) == ["type", "id", "parentId", "seq", "timestamp", "runId", "message"]
    assert written["message"] == json.loads(encode_message(message))
    assert (written["id"], written["parentId"], written["runId"]) == ("e4", "e3", "r1")
    assert (written["seq"], written["timestamp"]) == (4, "2026-01-01T12:00:00.127Z")
    assert line.count(b"\n") == 1


@pytest.mark.spec("M4")
def test_a_line_tells_tokens_cost_model_stop_reason_and_provenance() -> None:
    answer = json.loads(entry_line(entry(1, CALL), None))["message"]
    asked = json.loads(entry_line(entry(2, ASKED), "e1"))["message"]

    assert answer["usage"] == {
        "input": 10,
        "output": 5,
        "cacheRead": 3,
        "cacheWrite": 2,
        "cost": 0.25,
    }
    assert (answer["model"], answer["stopReason"]) == ("claude", "tool_use")
    assert answer["content"][2]["input"] == {"path": "a.txt"}
    assert asked["provenance"]["sourceSessionKey"] == "agent:ops:main"


@pytest.mark.spec("M4")
@pytest.mark.parametrize("kind", ["note", "compaction"])
def test_what_is_no_message_carries_data(kind: EntryType) -> None:
    note = Entry(session_id="s1", seq=1, entry_id="e1", at=AT, type=kind, note={"a": [1]})

    line = json.loads(entry_line(note, None))

    assert (line["type"], line["data"]) == (kind, {"a": [1]})
    assert line["parentId"] is line["runId"] is None
    assert "message" not in line


def test_many_entries_give_the_same_lines_as_each_alone() -> None:
    entries = [entry(1), entry(2, CALL), entry(3, RESULT)]

    assert entry_lines(entries, "e0") == b"".join(
        entry_line(each, f"e{each.seq - 1}") for each in entries
    )
    assert entry_lines([], "e0") == b""


def test_a_clock_gone_mad_still_gives_a_time() -> None:
    assert iso_time(-5) == "1970-01-01T00:00:00.000Z"
    assert iso_time(10**18) == "9999-12-31T23:59:59.999Z"


def test_what_was_written_reads_back() -> None:
    header, first, second = read_lines(transcript(2))

    assert header == HeaderLine(3, "s1", iso_time(AT), "agent:main:ana", "main")
    assert isinstance(first, MessageLine)
    assert isinstance(second, MessageLine)
    assert (first.message, second.parent_id) == (UserMessage("no 1"), "e1")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (transcript(3), []),
        ([*transcript(3)[:3], transcript(3)[3][:-9]], [Damage("torn", 4)]),
        ([*transcript(3)[:2], *transcript(3)[3:]], [Damage("hole", 3)]),
        (transcript(3)[1:], [Damage("hole", 1)]),
        ([*transcript(2), transcript(2)[1]], [Damage("repeated", 4)]),
        ([*transcript(1), transcript(1)[0]], [Damage("repeated", 3)]),
        ([*transcript(1), b"\xff\xfe\n"], [Damage("unreadable", 3)]),
        ([*transcript(1), b"\n"], [Damage("unreadable", 3)]),
        ([*transcript(1), b'{"type":"custom"}\n'], [Damage("foreign", 3)]),
        ([*transcript(1), entry_line(entry(2), "elsewhere")], [Damage("foreign", 3)]),
    ],
)
def test_damage_is_told_by_its_kind_and_line(lines: list[bytes], told: list[Damage]) -> None:
    assert damage_in(lines) == told


def test_sound_lines_after_damage_are_still_read() -> None:
    lines = transcript(4)
    lines[2] = b"ouch\n"

    seqs = [line.seq for line in read_lines(lines) if isinstance(line, MessageLine)]

    assert seqs == [1, 3, 4]
    assert [str(each) for each in damage_in(lines)] == [
        "line 3: no JSON",
        "line 4: entries are missing before it",
    ]
