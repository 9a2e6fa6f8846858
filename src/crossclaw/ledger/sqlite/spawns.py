"""Spawn rows: made with the child's first run, moved on by the step that ends each of its runs."""

from typing import Any

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Outcome
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import PutSpawn, SetSpawn
from crossclaw.ledger.sqlite.cascades import check_children, check_runs
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction

SPAWN = (
    "child_key, agent_id, parent_key, run_id, task, cleanup, created_at, label, state, ended_at, "
    "announced_at, root, wakes, reply_to, outcome"
)
_address = msgspec.json.Decoder(Address)
_outcome = msgspec.json.Decoder(Outcome)


def put_spawn(transaction: Transaction, op: PutSpawn) -> None:
    x = op.spawn
    transaction.db.execute(
        f"INSERT INTO spawns ({SPAWN}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
        (
            x.child_key,
            x.agent_id,
            x.parent_key,
            x.run_id,
            x.task,
            x.cleanup,
            x.created_at,
            x.label,
            x.state,
            x.ended_at,
            x.announced_at,
            x.root,
            x.wakes,
            x.reply_to and to_json(x.reply_to),
            x.outcome and to_json(x.outcome),
        ),
    )
    if transaction.db.changes():
        check_children(transaction.db, x.parent_key, op.children_max)
        check_runs(transaction.db, x.root or x.run_id, op.runs_max)


def set_spawn(transaction: Transaction, op: SetSpawn) -> None:
    x = op.spawn
    transaction.db.execute(
        "UPDATE spawns SET state = ?, outcome = ?, ended_at = ?, announced_at = ? "
        "WHERE child_key = ?",
        (x.state, x.outcome and to_json(x.outcome), x.ended_at, x.announced_at, x.child_key),
    )


def find_spawn(db: Database, child_key: SessionKey) -> Spawn | None:
    row = db.execute(
        f"SELECT {SPAWN} FROM spawns WHERE child_key = ?", (child_key.text,)
    ).fetchone()
    return row and spawn_of(row)


def list_spawns(db: Database, parent_key: SessionKey, *, open_only: bool = False) -> list[Spawn]:
    only = "AND state != 'over' " if open_only else ""
    sql = f"SELECT {SPAWN} FROM spawns WHERE parent_key = ? {only}ORDER BY created_at, child_key"
    return read_rows(db, "spawns", sql, (parent_key.text,), spawn_of)


def spawn_of(row: tuple[Any, ...]) -> Spawn:
    fields = dict(zip(SPAWN.split(", "), row, strict=True))
    fields["reply_to"] = fields["reply_to"] and _address.decode(fields["reply_to"])
    fields["wakes"] = bool(fields["wakes"])
    fields["outcome"] = fields["outcome"] and _outcome.decode(fields["outcome"])
    return Spawn(**fields)
