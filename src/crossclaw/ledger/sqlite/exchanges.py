"""Exchange rows: begun with a send, moved on by the step that ends each of its runs."""

from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import PutExchange, SetExchange
from crossclaw.ledger.sqlite.cascades import check_runs
from crossclaw.ledger.sqlite.writer import Transaction

_COLUMNS = (
    "exchange_id, agent_id, requester_key, target_key, run_id, request, turns_max, created_at, "
    "state, turn, first_reply, latest_reply, announce, ended_at, root"
)


def put_exchange(transaction: Transaction, op: PutExchange) -> None:
    x = op.exchange
    transaction.db.execute(
        f"INSERT INTO exchanges ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        (
            x.exchange_id,
            x.agent_id,
            x.requester_key,
            x.target_key,
            x.run_id,
            x.request,
            x.turns_max,
            x.created_at,
            x.state,
            x.turn,
            x.first_reply,
            x.latest_reply,
            x.announce,
            x.ended_at,
            x.root,
        ),
    )
    if transaction.db.changes() and x.root is not None:
        check_runs(transaction.db, x.root, op.runs_max)


def set_exchange(transaction: Transaction, op: SetExchange) -> None:
    x = op.exchange
    transaction.db.execute(
        "UPDATE exchanges SET state = ?, turn = ?, first_reply = ?, latest_reply = ?, announce = ?, "
        "ended_at = ? WHERE exchange_id = ?",
        (x.state, x.turn, x.first_reply, x.latest_reply, x.announce, x.ended_at, x.exchange_id),
    )


def find_exchange(db: Database, exchange_id: str) -> Exchange | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM exchanges WHERE exchange_id = ?", (exchange_id,)
    ).fetchone()
    if row is None:
        return None
    names = _COLUMNS.split(", ")
    return Exchange(**dict(zip(names, row, strict=True)))


def have_talked(db: Database, one: SessionKey, other: SessionKey) -> bool:
    row = db.execute(
        "SELECT EXISTS (SELECT 1 FROM exchanges WHERE requester_key = ?1 AND target_key = ?2) "
        "OR EXISTS (SELECT 1 FROM exchanges WHERE requester_key = ?2 AND target_key = ?1)",
        (one.text, other.text),
    ).fetchone()
    return bool(row and row[0])
