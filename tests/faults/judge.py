"""The verdict: what the database holds, against what the rig itself has seen and what gateways have left in the world.

lost      acknowledged, and not answered          doubled   a message, a reply, a delivery or a tool call twice
order     answered in another order than sent     torn      a transcript with holes
untrue    an end that was told and is not so      late      stored by a gateway that had lost its place
circle    transactions waited for each other      both      two gateways had the chat account at a time
stuck     not over, and nothing goes on           gone      a gateway that does not come back
still     nothing went on beside a gateway that stood still
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crossclaw.domain.messages import AssistantMessage, UserMessage, decode_message, words_of
from tests.databases import ServedStore

TOKEN = re.compile(r"\bc\d+x\d+\b")
BOTH_S = 2.0  # how long a busy machine may take to close an account whose lease is over

# An independent log in the server: who stores something after its row was taken away. Each transaction that does so
# writes its number; whoever only asks what became of its last one does not.
WATCH = """
CREATE SCHEMA rig;
CREATE TABLE rig.gone (incarnation text);
CREATE TABLE rig.late (writer text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION rig.note_gone() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO rig.gone VALUES (OLD.incarnation); RETURN NULL; END $$;
CREATE FUNCTION rig.note_late() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    INSERT INTO rig.late (writer) SELECT incarnation FROM rig.gone WHERE incarnation = NEW.writer;
    RETURN NULL;
  END $$;
CREATE TRIGGER gone AFTER DELETE ON crossclaw.gateways FOR EACH ROW EXECUTE FUNCTION rig.note_gone();
CREATE TRIGGER late_first AFTER INSERT ON crossclaw.batches FOR EACH ROW EXECUTE FUNCTION rig.note_late();
CREATE TRIGGER late AFTER UPDATE ON crossclaw.batches FOR EACH ROW
  WHEN (OLD.number <> NEW.number) EXECUTE FUNCTION rig.note_late();
"""


@dataclass(slots=True, eq=False)
class FaultLetter:
    token: str
    client: str
    session: str
    acknowledged: bool = False
    runs: set[str] = field(default_factory=set)
    ended: str | None = None
    """How it was told to have ended."""
    kills: bool = False
    """It ends every process that begins it: it must be given up, and nothing else."""


@dataclass(slots=True)
class FaultRecord:
    """What the rig has seen."""

    letters: list[FaultLetter] = field(default_factory=list)
    trials: int = 0
    noted: list[str] = field(default_factory=list)
    given_up: int = 0
    uncertain: int = 0

    @property
    def acknowledged(self) -> int:
        return sum(letter.acknowledged for letter in self.letters)


@dataclass(slots=True)
class Evidence:
    """What there is in the end."""

    url: str
    world: Path
    server_logs: Sequence[Path]
    stops: bool
    """Whether processes were stopped: one that is cannot close its account."""


def judge(record: FaultRecord, evidence: Evidence) -> list[str]:
    store = _Store(evidence.url)
    chats = Counter(TOKEN.findall(_read(evidence.world / "wall.txt")))
    found = list(record.noted)
    for letter in record.letters:
        found += _letter(record, letter, store, chats)
    found += _order(record, store, _read(evidence.world / "asked.txt").split())
    found += _numbers(store.numbers)
    found += [f"late: a gateway without its place stored something {at}" for at in store.late]
    found += _twice(_read(evidence.world / "stamps.txt").splitlines())
    found += _circles(evidence.server_logs)
    if not evidence.stops:
        found += _both(_read(evidence.world / "opened.txt").splitlines())
    return found


class _Store:
    """As it is in the end."""

    def __init__(self, url: str) -> None:
        with ServedStore(url) as db:
            self.numbers: list[tuple[str, int]] = db.execute(
                "SELECT session_id, seq FROM entries ORDER BY 1, 2"
            ).fetchall()
            self.runs: dict[str, tuple[str, str | None, str | None]] = {
                run_id: (status, reply, error)
                for run_id, status, reply, error in db.execute(
                    "SELECT run_id, status, reply, error FROM runs"
                )
            }
            self.outbox: dict[str, str] = {
                TOKEN.findall(text)[-1]: state
                for text, state in db.execute("SELECT text, state FROM outbox")
                if TOKEN.search(text)
            }
            self.late = [at for (at,) in db.execute("SELECT at::text FROM rig.late")]
            rows = db.execute(
                "SELECT session_id, seq, run_id, body FROM entries WHERE type = 'message' "
                "ORDER BY session_id, seq"
            ).fetchall()
        self.asked: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.replies: Counter[str] = Counter()
        for session_id, seq, run_id, body in rows:
            message = decode_message(body)
            if isinstance(message, UserMessage):
                for token in TOKEN.findall(words_of(message))[-1:]:
                    self.asked[token].append((session_id, seq))
            elif isinstance(message, AssistantMessage) and not message.tool_calls:
                self.replies[run_id] += 1


def _letter(
    record: FaultRecord, letter: FaultLetter, store: _Store, chats: Counter[str]
) -> Iterator[str]:
    found = store.asked.get(letter.token, [])
    if len(found) > 1 or len(letter.runs) > 1:
        yield f"doubled: {letter.token} is there {len(found)} times, as {sorted(letter.runs)}"
        return
    if chats[letter.token] > 1:
        yield f"doubled: the reply to {letter.token} was said {chats[letter.token]} times"
    if not letter.acknowledged:
        return
    (run_id,) = letter.runs
    status, reply, error = store.runs.get(run_id, ("nowhere", None, None))
    if status in ("queued", "running", "waiting"):
        yield f"stuck: the run of {letter.token} is still {status}"
    elif letter.kills:
        if status != "error":
            yield f"untrue: {letter.token} ends every process, and is {status}"
    elif status == "error" and error and error.startswith("given up after"):
        record.given_up += 1
    elif status != "ok" or reply != f"re {letter.token}" or not found:
        yield f"lost: {letter.token} is {status}, answered {reply!r} ({error}), {len(found)} times there"
    elif store.replies[run_id] != 1:
        yield f"doubled: {letter.token} was answered {store.replies[run_id]} times"
    elif letter.session.startswith("wall"):
        yield from _delivery(record, letter.token, store.outbox.get(letter.token), chats)
    if letter.ended is not None and letter.ended != status:
        yield f"untrue: {letter.token} was told to be {letter.ended}, and is {status}"


def _delivery(
    record: FaultRecord, token: str, state: str | None, chats: Counter[str]
) -> Iterator[str]:
    if state == "uncertain":
        record.uncertain += 1
    elif state != "delivered" or not chats[token]:
        yield f"lost: the reply to {token} was said {chats[token]} times, and is {state}"


def _order(record: FaultRecord, store: _Store, asked: Sequence[str]) -> Iterator[str]:
    """Of each sender's messages, and of those that the model was asked about."""
    by_sender: dict[tuple[str, str], list[int]] = defaultdict(list)
    for letter in record.letters:
        for _, seq in store.asked.get(letter.token, [])[:1]:
            by_sender[letter.client, letter.session].append(seq)
    sessions: dict[str, list[int]] = defaultdict(list)
    for token in dict.fromkeys(asked):
        for session_id, seq in store.asked.get(token, [])[:1]:
            sessions[session_id].append(seq)
    for who, places in (*by_sender.items(), *sessions.items()):
        if places != sorted(places):
            yield f"order: the messages of {who} stand at {places}"


def _numbers(numbers: Iterable[tuple[str, int]]) -> Iterator[str]:
    sessions: dict[str, list[int]] = defaultdict(list)
    for session_id, seq in numbers:
        sessions[session_id].append(seq)
    for session_id, found in sessions.items():
        if found != list(range(1, len(found) + 1)):
            yield f"torn: session {session_id} has holes, or numbers twice"


def _twice(stamps: Iterable[str]) -> Iterator[str]:
    for line, count in Counter(stamps).items():
        if count > 1:
            yield f"doubled: the tool call {line} was carried out {count} times"


def _circles(logs: Sequence[Path]) -> Iterator[str]:
    count = sum(_read(log).count("deadlock detected") for log in logs)
    if count:
        yield f"circle: {count} transactions were ended because they waited for each other"


def _both(lines: Iterable[str]) -> Iterator[str]:
    """Who had the account is written down when it begins and when it ends; of one that was killed, the rig writes it."""
    open_since: dict[str, float] = {}
    for line in lines:
        what, who, at = line.split()
        if what == "end":
            since = open_since.pop(who, None)
            others = [start for start in open_since.values() if since is not None]
            if since is not None and any(
                float(at) - max(start, since) > BOTH_S for start in others
            ):
                yield f"both: {who} and another gateway had the account at the same time"
        else:
            open_since[who] = float(at)
    if len(open_since) > 1:
        yield f"both: {sorted(open_since)} have the account in the end"


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
