"""Waits between runs, and the circles they must not form.

A run that waits for another depends on every run that must end before it: the target itself and the
runs ahead of it in its lane. Only runs that were claimed can be waiting, and a lane has one of
those, so the question is between sessions: does the target's session wait, directly or through
others, for the session of the one that wants to wait?
"""

from crossclaw.domain.errors import NotFound
from crossclaw.domain.keys import SessionKey, key_of
from crossclaw.ledger.operations import BeginWait, EndWait
from crossclaw.ledger.sqlite.approvals import count_waiting_calls
from crossclaw.ledger.sqlite.entries import hold
from crossclaw.ledger.sqlite.runs import find_run
from crossclaw.ledger.sqlite.writer import Transaction


def begin_wait(transaction: Transaction, op: BeginWait) -> list[SessionKey]:
    agent_id = hold(transaction, op.fence).agent_id
    db = transaction.db
    waiter, target = find_run(db, op.fence.run_id), find_run(db, op.target_run_id)
    if target is None or waiter is None:
        raise NotFound(f"there is no run {op.target_run_id} to wait for")
    if target.ended:
        return []
    if circle := _road(transaction, target.key, waiter.key):
        return [waiter.key, *circle]
    db.execute(
        "INSERT INTO waits (run_id, target_run_id, agent_id, key, target_key, begun_at) "
        "VALUES (?,?,?,?,?,?) ON CONFLICT DO NOTHING",
        (waiter.run_id, target.run_id, agent_id, waiter.key.text, target.key.text, op.at),
    )
    db.execute("UPDATE runs SET status = 'waiting' WHERE run_id = ?", (waiter.run_id,))
    return []


def end_wait(transaction: Transaction, op: EndWait) -> None:
    hold(transaction, op.fence)
    db, run_id = transaction.db, op.fence.run_id
    db.execute(
        "DELETE FROM waits WHERE run_id = ? AND target_run_id = ?", (run_id, op.target_run_id)
    )
    more = db.execute("SELECT 1 FROM waits WHERE run_id = ?", (run_id,)).fetchone()
    if not more and not count_waiting_calls(db, run_id):
        db.execute("UPDATE runs SET status = 'running' WHERE run_id = ?", (run_id,))


def _road(transaction: Transaction, start: SessionKey, goal: SessionKey) -> list[SessionKey]:
    """The sessions from `start` to `goal` along open waits; empty if there is no such path."""
    roads: list[list[SessionKey]] = [[start]]
    seen = {start}
    while roads:
        road = roads.pop()
        if road[-1] == goal:
            return road
        rows = transaction.db.execute(
            "SELECT w.target_key, r.agent_id FROM waits w JOIN runs r ON r.run_id = w.target_run_id "
            "WHERE w.key = ?",
            (road[-1].text,),
        )
        for key in [key_of(text, agent_id) for text, agent_id in rows]:
            if key not in seen:
                seen.add(key)
                roads.append([*road, key])
    return []
