"""The queue of a lane: which run is next, alone or together with those behind it.

Only neighbours in the queue are answered together, so the transcript keeps the order in which
messages were accepted. The run that came first carries the others; they end with it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage, decode_message, encode_message
from crossclaw.domain.queueing import (
    STEERING,
    Batch,
    Queueing,
    dropped_because,
    next_batch,
    reminder_of,
    summary_of,
)
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.runtime import with_runtime
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.ledger.operations import Claim, Claimed, EndOpenRun, Join, Joined, NotYet
from crossclaw.ledger.sqlite.accounts import open_account
from crossclaw.ledger.sqlite.entries import hold, put_entry, session_of_key
from crossclaw.ledger.sqlite.memory import list_obligations
from crossclaw.ledger.sqlite.rows import RUN, run_of, to_json
from crossclaw.ledger.sqlite.runs import end, take_inbox_message
from crossclaw.ledger.sqlite.writer import Transaction

_LANE = "FROM runs INDEXED BY runs_open WHERE key = ? AND ended_at IS NULL"


class _WaitingRun(NamedTuple):
    run: Run
    number: int
    not_before: int


def claim(transaction: Transaction, op: Claim) -> Claimed | NotYet | None:
    # The index is by key and id, so its first rows are the lane's; an ORDER BY would say so at three
    # times the price.
    lane: list[tuple[Any, ...]] = transaction.db.execute(
        f"SELECT id, status, not_before, owner {_LANE} LIMIT 2", (op.key.text,)
    ).fetchall()
    if not lane or lane[0][1] != "queued":
        return None
    number, _, not_before, kept_for = lane[0]
    if kept_for is not None and kept_for != op.owner:  # a suspect: another gateway lets it begin
        return None
    if len(lane) == 1 and not_before <= op.at:
        return _take(transaction, op, number)
    return _take_first(transaction, op)


def _take(transaction: Transaction, op: Claim, number: int) -> Claimed:
    """Claims one run, and moves its message into the transcript if it has not begun before."""
    agent_id, session_id = session_of_key(transaction, op.key)
    run = _begin(transaction, op, number, session_id)
    inbox_entry = take_inbox_message(transaction, run.run_id)
    if inbox_entry is None:
        _follow_epoch(transaction, run)
        return Claimed(run, None)
    where = _TargetTranscript(transaction, agent_id, run.session_id, op.at, op.now)
    return Claimed(run, where.put(run.run_id, where.addressed(inbox_entry, run, first=True)))


def _begin(transaction: Transaction, op: Claim, number: int, session_id: str) -> Run:
    row = transaction.get(
        "UPDATE runs SET status = 'running', owner = ?, epoch = epoch + 1, attempt = attempt + 1, "
        "session_id = CASE WHEN started_at IS NULL THEN ? ELSE session_id END, "
        f"started_at = coalesce(started_at, ?) WHERE id = ? AND status = 'queued' RETURNING {RUN}",
        (op.owner, session_id, op.at, number),
    )
    run = run_of(row)
    return run if op.allowance is None else open_account(transaction, run, op.allowance, op.at)


def _follow_epoch(transaction: Transaction, carrier: Run) -> None:
    """Gives the runs that it carries its new epoch: events of a run are numbered from its epoch,
    theirs too."""
    transaction.db.execute(
        "UPDATE runs SET epoch = ? WHERE merged_into = ? AND ended_at IS NULL",
        (carrier.epoch, carrier.run_id),
    )


def _take_first(transaction: Transaction, op: Claim) -> Claimed | NotYet:
    """Claims the first run with those behind it that it answers too, or says how long to wait for
    more."""
    group = list(_alike(_open_runs(transaction, op.key)))
    settings = group[0].run.plan.queue
    if settings is None or group[0].run.started_at is not None:
        return _take(transaction, op, group[0].number)
    batch = next_batch(len(group), settings)
    until = max(group[place].not_before for place in batch.taken)
    clock_is_sane = all(each.run.created_at <= op.at for each in group)
    if op.at < until and len(group) < settings.cap and clock_is_sane:
        return NotYet(until)
    return _take_batch(transaction, op, group, settings, batch)


def _open_runs(transaction: Transaction, key: SessionKey) -> Iterator[_WaitingRun]:
    rows = transaction.db.execute(f"SELECT {RUN}, id, not_before {_LANE}", (key.text,))
    return (_WaitingRun(run_of(row), row[-2], row[-1]) for row in rows)


def _alike(waiting: Iterator[_WaitingRun]) -> Iterator[_WaitingRun]:
    """The first run, and those right behind it with the same rules."""
    first = next(waiting)
    yield first
    for each in waiting:
        if not (_fit(first.run, each.run) and first.run.plan.queue == each.run.plan.queue):
            return
        yield each


def _fit(one: Run, other: Run) -> bool:
    """Whether one answer serves both: same destination, rights and settings."""
    return (
        one.kind == other.kind == "chat"
        and other.plan.queue is not None
        and one.authority == other.authority
        and _shared_plan(one) == _shared_plan(other)
    )


def _shared_plan(run: Run) -> object:
    """The parts of a plan that must be equal for one answer. Which message each answers, and its
    queue settings, do not matter."""
    return msgspec.structs.replace(run.plan, queue=None, answers=None, joined=False)


def _take_batch(
    transaction: Transaction, op: Claim, group: list[_WaitingRun], settings: Queueing, batch: Batch
) -> Claimed:
    agent_id, session_id = session_of_key(transaction, op.key)
    where = _TargetTranscript(transaction, agent_id, session_id, op.at, op.now)
    dropped = [where.drop(group[place].run, settings) for place in batch.dropped]
    short = [group[place] for place in batch.summarised]
    taken = [group[place] for place in batch.taken]
    carrier, *others = [*short, *taken]
    run = _begin(transaction, op, carrier.number, session_id)
    entries = [*where.shorten(run, short, settings), *where.enter(taken, run)]
    runs = [where.merge(each, run) for each in others]
    joined = Joined(tuple(runs), tuple(entries[1:])) if runs else None
    return Claimed(run, entries[0], joined, tuple(dropped))


class _TargetTranscript(NamedTuple):
    """The transcript into which waiting messages are moved."""

    transaction: Transaction
    agent_id: str
    session_id: str
    at: int
    now: str | None = None

    def addressed(self, new: NewEntry, run: Run, *, first: bool) -> NewEntry:
        """The message with the runtime's words to the model of the run that answers it. What the
        session has under way is said with the first message of a run."""
        under_way = list_obligations(self.transaction.db, run.key) if first and self.now else ()
        message = with_runtime(new.message, run, self.now, under_way)
        return msgspec.structs.replace(new, message=message)

    def put(self, run_id: str, new: NewEntry) -> Entry:
        return put_entry(self.transaction, self.agent_id, self.session_id, run_id, new, self.at)

    def enter(self, waiting: Sequence[_WaitingRun], carrier: Run | None = None) -> list[Entry]:
        entries: list[Entry] = []
        for each in waiting:
            inbox_entry = take_inbox_message(self.transaction, each.run.run_id)
            if inbox_entry is not None:
                first = carrier is not None and each.run.run_id == carrier.run_id
                entries.append(
                    self.put(each.run.run_id, self.addressed(inbox_entry, each.run, first=first))
                )
        return entries

    def merge(self, waiting: _WaitingRun, carrier: Run) -> Run:
        row = self.transaction.get(
            "UPDATE runs SET status = 'running', merged_into = ?1, session_id = ?2, "
            "started_at = ?3, epoch = ?4 "
            f"WHERE id = ?5 RETURNING {RUN}",
            (carrier.run_id, self.session_id, self.at, carrier.epoch, waiting.number),
        )
        return run_of(row)

    def drop(self, run: Run, settings: Queueing) -> Run:
        """Ends a run because too many waited. People still find its message in the transcript; no
        model does."""
        self._keep_for_people(run.run_id, take_inbox_message(self.transaction, run.run_id))
        outcome = Outcome("error", error=dropped_because(settings))
        over = EndOpenRun(run_id=run.run_id, outcome=outcome, at=self.at)
        return end(self.transaction, run.run_id, run.epoch, over)[0]

    def shorten(self, carrier: Run, short: list[_WaitingRun], settings: Queueing) -> list[Entry]:
        """Puts one summary in place of the messages that were too many; people still find them
        whole."""
        if not short:
            return []
        inbox_entries = [take_inbox_message(self.transaction, each.run.run_id) for each in short]
        messages = [
            _message_of(inbox_entry) for inbox_entry in inbox_entries if inbox_entry is not None
        ]
        summary = summary_of(messages, settings.cap, self.at)
        new = NewEntry(entry_id=entry_id_of("summary", carrier.run_id), message=summary)
        entry = self.put(carrier.run_id, self.addressed(new, carrier, first=True))
        for each, inbox_entry in zip(short, inbox_entries, strict=True):
            self._keep_for_people(each.run.run_id, inbox_entry)
        return [entry]

    def _keep_for_people(self, run_id: str, inbox_entry: NewEntry | None) -> None:
        if inbox_entry is not None:
            note = {"kind": "queue-overflow", "message": msgspec.to_builtins(inbox_entry.message)}
            self.put(run_id, NewEntry(entry_id=inbox_entry.entry_id, note=note, type="note"))

    def enter_early(self, waiting: _WaitingRun) -> Entry:
        """Puts the message into the transcript now; its own run follows, which begins with a
        reminder."""
        db, run = self.transaction.db, waiting.run
        (body,) = self.transaction.get("SELECT message FROM inbox WHERE run_id = ?", (run.run_id,))
        message = decode_message(body)
        assert isinstance(message, UserMessage)
        reminder = encode_message(reminder_of(message, self.at))
        db.execute("UPDATE inbox SET message = ? WHERE run_id = ?", (reminder, run.run_id))
        assert run.plan.queue is not None
        later = msgspec.structs.replace(run.plan.queue, mode="backlog")
        plan = msgspec.structs.replace(run.plan, queue=later)
        db.execute("UPDATE runs SET plan = ? WHERE id = ?", (to_json(plan), waiting.number))
        early = NewEntry(entry_id=entry_id_of("early", run.run_id), message=message)
        return self.put(run.run_id, self.addressed(early, run, first=False))


def join(transaction: Transaction, op: Join) -> Joined:
    held = hold(transaction, op.fence)
    row = transaction.get(f"SELECT {RUN} FROM runs WHERE run_id = ?", (op.fence.run_id,))
    carrier = run_of(row)
    if session_of_key(transaction, carrier.key)[1] != held.session_id:
        return Joined()  # the session was begun anew: what comes now belongs there
    where = _TargetTranscript(transaction, held.agent_id, held.session_id, op.at, op.now)
    runs, entries = list[Run](), list[Entry]()
    for each in _steering(list(_open_runs(transaction, carrier.key)), carrier):
        if _mode(each.run) == "steer-backlog":
            entries.append(where.enter_early(each))
        else:
            entries += where.enter([each])
            runs.append(where.merge(each, carrier))
    return Joined(tuple(runs), tuple(entries))


def _steering(lane: list[_WaitingRun], carrier: Run) -> Iterator[_WaitingRun]:
    """The waiting runs right behind a run and those it has taken along."""
    for each in lane:
        run = each.run
        if carrier.run_id in (run.run_id, run.merged_into) or _mode(run) == "backlog":
            continue
        if _mode(run) not in STEERING or not _fit(carrier, run):
            return
        yield each


def _mode(run: Run) -> str | None:
    return None if run.plan.queue is None else run.plan.queue.mode


def _message_of(inbox_entry: NewEntry) -> UserMessage:
    assert isinstance(inbox_entry.message, UserMessage)
    return inbox_entry.message
