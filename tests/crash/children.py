"""The verdict on sub-agents: every spawn has one child, one report and one end, whatever died when."""

import msgspec

from crossclaw.domain.messages import words_of
from crossclaw.domain.sessions import Entry
from crossclaw.domain.spawns import Spawn
from crossclaw.sessions.spawn import SpawnResult
from tests.crash.finding import Finding, Findings
from tests.crash.record import Letter, Record
from tests.crash.store import Store


def spawns_are_made_once(store: Store, record: Record) -> Findings:
    for letter in record.letters:
        if letter.spawns is None or not store.users[letter.token]:
            continue
        run_id = store.users[letter.token][0].run_id or ""
        found = [spawn for spawn in store.spawns if spawn.run_id.startswith(f"{run_id}::")]
        if len(found) > 1:
            yield Finding("doubled", f"{letter.token} has {len(found)} children")
        elif found:
            yield from _was_told_of(store, record, letter, run_id, found[0])
        elif run_id not in record.excused:
            yield Finding("lost", f"{letter.token} has no child")
    known = {spawn.run_id for spawn in store.spawns}
    for run in store.runs.values():
        if run.plan.spawned and run.run_id.removesuffix("::announce") not in known:
            yield Finding("doubled", f"run {run.run_id} is of a child that nobody spawned")


def _was_told_of(
    store: Store, record: Record, letter: Letter, run_id: str, spawn: Spawn
) -> Findings:
    if letter.spawns not in spawn.task.split():
        yield Finding("untrue", f"the child of {letter.token} was given {spawn.task!r}")
    told = [msgspec.convert(result.content, SpawnResult) for result in store.results(run_id)]
    true = SpawnResult(status="accepted", run_id=spawn.run_id, child_session_key=spawn.child_key)
    if told != [true] and run_id not in record.excused:
        yield Finding("untrue", f"{letter.token} spawned and was told {told}")


def children_report_once(store: Store, record: Record) -> Findings:
    for spawn in store.spawns:
        steps = {spawn.run_id, f"{spawn.run_id}::announce"}
        runs = {run.run_id for run in store.runs.values() if run.key.text == spawn.child_key}
        for run_id in steps - runs:
            yield Finding("lost", f"there is no run {run_id}")
        for run_id in runs - steps:
            yield Finding("doubled", f"run {run_id} is one too many for its child")
        if spawn.state != "over":
            yield Finding("lost", f"spawn {spawn.run_id} is still {spawn.state}")
        reports = store.reports[spawn.child_key]
        if not reports:
            yield Finding("lost", f"the report of {spawn.run_id} is in no transcript")
        elif len(reports) > 1:
            yield Finding("doubled", f"the report of {spawn.run_id} is there {len(reports)} times")
        elif steps <= runs:
            yield from _report_came_home(store, record, spawn, reports[0], steps)


def _report_came_home(
    store: Store, record: Record, spawn: Spawn, report: Entry, steps: set[str]
) -> Findings:
    if store.key_of(report.session_id) != spawn.parent_key:
        yield Finding("lost", f"the report of {spawn.run_id} came to {report.session_id}")
    if steps & record.excused:
        return  # it tells of an error, in whatever words were left
    assert report.message is not None
    words = words_of(report.message)
    expected = f"Status: success\nResult: re {spawn.task.split()[-1]}\n"
    if not words.startswith(expected):
        yield Finding("untrue", f"{spawn.run_id} reported {words!r} instead of {expected!r}")
    posted = [d for d in store.deliveries if d.delivery_key == f"spawn:{spawn.run_id}"]
    if len(posted) < (spawn.reply_to is not None):
        yield Finding("lost", f"the report of {spawn.run_id} is not in the outbox")
    for delivery in posted:
        if delivery.text != words or delivery.address != spawn.reply_to:
            yield Finding("untrue", f"{spawn.run_id} was posted as {delivery}")


def children_are_archived(store: Store, record: Record) -> Findings:
    """The deleted ones once, with one copy beside; of the others each has its timer."""
    for spawn in store.spawns:
        there = spawn.child_key in {export.key for export in store.exports}
        if spawn.cleanup == "keep":
            if not there:
                yield Finding("lost", f"child {spawn.child_key} was to be kept and is gone")
            if f"archive:{spawn.child_key}" not in store.timers:
                yield Finding("lost", f"nothing will archive child {spawn.child_key}")
        elif there or f"cleanup:{spawn.child_key}" in store.timers:
            yield Finding("stuck", f"child {spawn.child_key} was to be deleted")
        elif (run := store.runs.get(spawn.run_id)) is not None:
            kept = len(list(store.sessions.rglob(f"{run.session_id}.jsonl.deleted.*")))
            if kept != 1:
                yield Finding("torn", f"of {run.session_id}, deleted, {kept} copies were kept")
