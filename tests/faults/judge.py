"""The verdict: what the database holds, against what the rig itself has seen and what tools have left in the world."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crossclaw.domain.messages import AssistantMessage, UserMessage, decode_message, words_of
from tests.databases import ServedStore


@dataclass(slots=True, eq=False)
class FaultLetter:
    token: str
    client: str
    session: str
    acknowledged: bool = False
    runs: set[str] = field(default_factory=set)
    ended: str | None = None
    """How it was told to have ended."""


@dataclass(slots=True)
class FaultRecord:
    letters: list[FaultLetter] = field(default_factory=list)
    trials: int = 0

    @property
    def acknowledged(self) -> int:
        return sum(letter.acknowledged for letter in self.letters)


def judge(url: str, stamps: Path, record: FaultRecord) -> Iterator[str]:
    db = ServedStore(url)
    try:
        rows = db.execute(
            "SELECT e.session_id, e.seq, e.run_id, e.body FROM entries e WHERE e.type = 'message' "
            "ORDER BY e.session_id, e.seq"
        ).fetchall()
        numbers = db.execute("SELECT session_id, seq FROM entries ORDER BY 1, 2").fetchall()
        runs = {
            run_id: (status, reply)
            for run_id, status, reply in db.execute("SELECT run_id, status, reply FROM runs")
        }
    finally:
        db.close()
    asked, replies = _sort(rows)
    yield from _letters(record, asked, replies, runs)
    yield from _order(record, asked)
    yield from _numbers(numbers)
    yield from _effects(stamps)


Asked = dict[str, list[tuple[str, int, str]]]


def _sort(rows: list[tuple[str, int, str, bytes]]) -> tuple[Asked, Counter[str]]:
    asked: Asked = defaultdict(list)
    replies: Counter[str] = Counter()
    for session_id, seq, run_id, body in rows:
        message = decode_message(body)
        if isinstance(message, UserMessage):
            asked[words_of(message).split()[-1]].append((session_id, seq, run_id))
        elif isinstance(message, AssistantMessage) and not message.tool_calls:
            replies[run_id] += 1
    return asked, replies


def _letters(
    record: FaultRecord,
    asked: Asked,
    replies: Counter[str],
    runs: dict[str, tuple[str, str | None]],
) -> Iterator[str]:
    for letter in record.letters:
        found = asked.get(letter.token, [])
        if len(found) > 1 or len(letter.runs) > 1:
            yield f"doubled: {letter.token} is there {len(found)} times, as {sorted(letter.runs)}"
            continue
        if not letter.acknowledged:
            continue
        (run_id,) = letter.runs
        status, reply = runs.get(run_id, ("nowhere", None))
        if status in ("queued", "running", "waiting"):
            yield f"stuck: the run of {letter.token} is still {status}"
        elif status != "ok" or reply != f"re {letter.token}" or not found:
            yield f"lost: {letter.token} is {status}, answered {reply!r}, {len(found)} times there"
        elif replies[run_id] != 1:
            yield f"doubled: {letter.token} was answered {replies[run_id]} times"
        if letter.ended is not None and letter.ended != status:
            yield f"untrue: {letter.token} was told to be {letter.ended}, and is {status}"


def _order(record: FaultRecord, asked: Asked) -> Iterator[str]:
    by_sender: dict[tuple[str, str], list[int]] = defaultdict(list)
    for letter in record.letters:
        for _, seq, _ in asked.get(letter.token, [])[:1]:
            by_sender[letter.client, letter.session].append(seq)
    for sender, places in by_sender.items():
        if places != sorted(places):
            yield f"order: the messages of {sender} stand at {places}"


def _numbers(numbers: list[tuple[str, int]]) -> Iterator[str]:
    sessions: dict[str, list[int]] = defaultdict(list)
    for session_id, seq in numbers:
        sessions[session_id].append(seq)
    for session_id, found in sessions.items():
        if found != list(range(1, len(found) + 1)):
            yield f"torn: session {session_id} has holes, or numbers twice"


def _effects(stamps: Path) -> Iterator[str]:
    lines = Counter(stamps.read_text().splitlines()) if stamps.exists() else Counter[str]()
    for line, count in lines.items():
        if count > 1:
            yield f"doubled: the tool call {line} was carried out {count} times"
