"""Accounts of budgets: opened by a run, reserved from before a model call, settled with its
answer."""

from collections.abc import Sequence
from typing import Any

import msgspec

from crossclaw.domain.budgets import Account, Allowance, Amount, BudgetShare, Grant
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import Reserve
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction
from crossclaw.policy.budget import decide_call

# The account and those around it, the innermost first. As deep as sends go, which have their limit.
_LINE = (
    "WITH RECURSIVE line (account_id, parent_id, depth) AS ("
    "SELECT account_id, parent_id, 0 FROM accounts WHERE account_id = ? "
    "UNION ALL SELECT a.account_id, a.parent_id, depth + 1 FROM accounts a "
    "JOIN line ON a.account_id = line.parent_id)"
)
_ACCOUNT = (
    "a.account_id, a.agent_id, a.parent_id, a.tokens_max, a.cost_max, a.ends_at, "
    "a.tokens_spent, a.cost_spent"
)
_HELD = (
    "SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0.0) FROM reservations r "
    "JOIN runs USING (run_id) WHERE r.account_id = ? AND runs.epoch = r.epoch "
    "AND runs.owner IS NOT NULL"
)


def open_account(transaction: Transaction, run: Run, allowance: Allowance, at: int) -> Run:
    """The run with its budget share. Only the first run of a tree opens an account, and a send or a
    spawn that reaches an agent with a budget of its own; all runs below share it."""
    outer = run.cause.purse
    if outer is not None and not _opens_within(outer, run, allowance):
        return run
    purse = _budget_share(run, allowance, at, outer)
    transaction.db.execute(
        "INSERT INTO accounts (account_id, agent_id, parent_id, tokens_max, cost_max, ends_at) "
        "VALUES (?,?,?,?,?,?)",
        (
            purse.account_id,
            purse.agent_id,
            outer and outer.account_id,
            allowance.tokens,
            allowance.cost_usd,
            purse.ends_at_ms,
        ),
    )
    cause = msgspec.structs.replace(run.cause, purse=purse)
    transaction.db.execute(
        "UPDATE runs SET account_id = ?, cause = ? WHERE run_id = ?",
        (purse.account_id, to_json(cause), run.run_id),
    )
    return msgspec.structs.replace(run, cause=cause)


def _opens_within(outer: BudgetShare, run: Run, allowance: Allowance) -> bool:
    another = outer.account_id != run.run_id and outer.agent_id != run.key.agent_id
    return allowance.own and another and run.kind in ("send", "spawn")


def _budget_share(
    run: Run, allowance: Allowance, at: int, outer: BudgetShare | None
) -> BudgetShare:
    """The budget share of a run. Its deadline is never later than that of the outer budget."""
    mine = BudgetShare(run.run_id, run.key.agent_id)
    if allowance.minutes is not None:
        ends_at = at + int(allowance.minutes * 60_000)
        mine = BudgetShare(run.run_id, run.key.agent_id, allowance.minutes, ends_at)
    if outer is None or outer.ends_at_ms is None:
        return mine
    if mine.ends_at_ms is not None and mine.ends_at_ms <= outer.ends_at_ms:
        return mine
    return msgspec.structs.replace(mine, minutes=outer.minutes, ends_at_ms=outer.ends_at_ms)


def set_aside(transaction: Transaction, op: Reserve, agent_id: str) -> Grant:
    """Reserves the cost of a call. The cost of an earlier call of the run is counted first, also if
    nothing more is granted."""
    db, fence = transaction.db, op.fence
    settle(transaction, fence.run_id, op.spent)
    line = line_of(db, op.account_id)
    grant = decide_call(line, op.fixed, op.output, now_ms=op.at, priced=op.priced)
    if grant.allowed:
        amount = grant.reserved
        db.executemany(
            "INSERT INTO reservations (account_id, run_id, agent_id, epoch, tokens, cost) "
            "VALUES (?,?,?,?,?,?)",
            [
                (a.account_id, fence.run_id, agent_id, fence.epoch, amount.tokens, amount.cost_usd)
                for a in line
            ],
        )
    return grant


def settle(transaction: Transaction, run_id: str, spent: Amount) -> None:
    """Replaces a call's reservation by what it cost."""
    db = transaction.db
    db.execute("DELETE FROM reservations WHERE run_id = ?", (run_id,))
    if not spent:
        return
    (account_id,) = transaction.get("SELECT account_id FROM runs WHERE run_id = ?", (run_id,))
    db.execute(
        f"{_LINE} UPDATE accounts SET tokens_spent = tokens_spent + ?, "
        "cost_spent = cost_spent + ? WHERE account_id IN (SELECT account_id FROM line)",
        (account_id, spent.tokens, spent.cost_usd),
    )


def line_of(db: Database, account_id: str) -> list[Account]:
    rows = db.execute(
        f"{_LINE} SELECT {_ACCOUNT} FROM line JOIN accounts a USING (account_id) ORDER BY depth",
        (account_id,),
    )
    return [_account(db, row) for row in list(rows)]


def find_account(db: Database, account_id: str) -> Account | None:
    return next(iter(line_of(db, account_id)), None)


def list_accounts(db: Database, keys: Sequence[SessionKey]) -> dict[SessionKey, Account]:
    """The account of the newest run of each session."""
    newest = f"SELECT {_ACCOUNT} FROM runs r JOIN accounts a USING (account_id) " + (
        "WHERE r.key = ? AND r.account_id IS NOT NULL ORDER BY r.id DESC LIMIT 1"
    )
    found = {key: db.execute(newest, (key.text,)).fetchone() for key in keys}
    return {key: _account(db, row) for key, row in found.items() if row is not None}


def _account(db: Database, row: tuple[Any, ...]) -> Account:
    held = db.execute(_HELD, (row[0],)).fetchone() or (0, 0.0)
    return Account(
        account_id=row[0],
        agent_id=row[1],
        parent_id=row[2],
        tokens_max=row[3],
        cost_max=row[4],
        ends_at_ms=row[5],
        spent=Amount(row[6], row[7]),
        reserved=Amount(*held),
    )
