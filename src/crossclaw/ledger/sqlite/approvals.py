"""Rows of approvals and of standing grants."""

from collections.abc import Sequence

import msgspec

from crossclaw.domain.approvals import Approval, ExecRule, ProposedCall, StandingGrant
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import Busy, Invalid, NotFound
from crossclaw.domain.keys import key_of
from crossclaw.ledger.approvals import (
    WAITING_MAX,
    AnswerApproval,
    AskApproval,
    ExpireApproval,
    PutGrants,
    RevokeGrant,
)
from crossclaw.ledger.database import Database
from crossclaw.ledger.gateways import APPROVALS
from crossclaw.ledger.sqlite.damage import StoredRow, read_rows
from crossclaw.ledger.sqlite.entries import hold
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction

APPROVAL = (
    "approval_id, run_id, tool_use_id, agent_id, key, wish, agents, authority, asked_at, "
    "expires_at, status, answered_at, answered_by, makers"
)
GRANT = (
    "grant_id, agent_id, tool, created_at, program, pattern, arguments, digest, rule, granted_by, "
    "makers, folder, sandboxed"
)
_wish = msgspec.json.Decoder(ProposedCall)
_words = msgspec.json.Decoder(tuple[str, ...])
_authority = msgspec.json.Decoder(Authority)
_makers = msgspec.json.Decoder(tuple[CredentialRef, ...])
_rule = msgspec.json.Decoder(ExecRule)


def ask_approval(transaction: Transaction, op: AskApproval) -> Approval:
    agent_id = hold(transaction, op.fence).agent_id
    db, new, run_id = transaction.db, op.new, op.fence.run_id
    of_call = f"SELECT {APPROVAL} FROM approvals WHERE run_id = ? AND tool_use_id = ?"
    row = db.execute(of_call, (run_id, new.tool_use_id)).fetchone()
    if row is None:
        waiting = db.execute("SELECT count(*) FROM approvals WHERE status = 'waiting'").get
        if waiting >= WAITING_MAX:
            raise Busy(f"{waiting} calls wait for a yes already; answer some of them first")
        key, authority = transaction.get(
            "SELECT key, authority FROM runs WHERE run_id = ?", (run_id,)
        )
        first = (new.approval_id, run_id, new.tool_use_id, agent_id, key)
        shown = (to_json(new.wish), to_json(new.agents), authority, op.at, new.expires_at)
        row = transaction.get(
            f"INSERT INTO approvals ({APPROVAL}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
            f"RETURNING {APPROVAL}",
            (*first, *shown, "waiting", None, None, "[]"),
        )
    found = approval_of(row)
    if found.status == "waiting":
        db.execute("UPDATE runs SET status = 'waiting' WHERE run_id = ?", (run_id,))
    return found


def answer_approval(transaction: Transaction, op: AnswerApproval) -> Approval:
    db = transaction.db
    before = find_approval(db, op.approval_id)
    if before is None or before.status != "waiting" or before.expires_at <= op.at:
        raise NotFound("unknown or expired approval id")
    if op.answer not in before.answers:
        why = before.wish.why_unlisted
        raise Invalid(f"it can be allowed only this once: it has {why}")
    row = transaction.get(
        "UPDATE approvals SET status = ?, answered_at = ?, answered_by = ?, makers = ? "
        f"WHERE approval_id = ? AND status = 'waiting' RETURNING {APPROVAL}",
        (op.answer, op.at, op.by, to_json(op.makers), op.approval_id),
    )
    if op.answer == "allow-always":
        put_grants(transaction, PutGrants(grants=op.grants, anew=True))
    _go_on(db, before.run_id)
    transaction.hint(APPROVALS, op.approval_id)
    return approval_of(row)


def expire_approval(transaction: Transaction, op: ExpireApproval) -> Approval | None:
    row = transaction.db.execute(
        "UPDATE approvals SET status = 'timeout', answered_at = ? WHERE approval_id = ? "
        f"AND status = 'waiting' AND expires_at <= ? RETURNING {APPROVAL}",
        (op.at, op.approval_id, op.at),
    ).fetchone()
    if row is None:
        return None
    expired = approval_of(row)
    _go_on(transaction.db, expired.run_id)
    return expired


def withdraw_approvals(db: Database, run_id: str, at: int) -> None:
    """Withdraws the open approvals of a run that has ended."""
    db.execute(
        "UPDATE approvals SET status = 'withdrawn', answered_at = ? "
        "WHERE run_id = ? AND status = 'waiting'",
        (at, run_id),
    )


def count_waiting_calls(db: Database, run_id: str) -> int:
    """How many calls of a run wait for approval."""
    sql = "SELECT count(*) FROM approvals WHERE run_id = ? AND status = 'waiting'"
    count: int = db.execute(sql, (run_id,)).get
    return count


def _go_on(db: Database, run_id: str) -> None:
    """Marks a run as running again, if it waits for nothing else."""
    others = db.execute("SELECT 1 FROM waits WHERE run_id = ?", (run_id,)).fetchone()
    if others is None and not count_waiting_calls(db, run_id):
        db.execute(
            "UPDATE runs SET status = 'running' WHERE run_id = ? AND status = 'waiting'", (run_id,)
        )


def put_grants(transaction: Transaction, op: PutGrants) -> int:
    made = 0
    for grant in op.grants:
        rule = None if grant.rule is None else to_json(grant.rule)
        arguments = None if grant.arguments is None else to_json(grant.arguments)
        same = (
            "agent_id = ? AND tool = ? AND pattern = ? AND program IS NOT DISTINCT FROM ? "
            "AND arguments IS NOT DISTINCT FROM ? AND digest IS NOT DISTINCT FROM ? "
            "AND rule IS NOT DISTINCT FROM ? AND folder IS NOT DISTINCT FROM ? AND sandboxed = ?"
        )
        of_it = (
            grant.agent_id,
            grant.tool,
            int(grant.pattern),
            grant.program,
            arguments,
            grant.digest,
            rule,
            grant.folder,
            int(grant.sandboxed),
        )
        known = transaction.db.execute(f"SELECT 1 FROM grants WHERE {same}", of_it).fetchone()
        if known and not op.anew:
            continue
        transaction.db.execute(f"DELETE FROM grants WHERE {same}", of_it)
        transaction.db.execute(
            f"INSERT INTO grants ({GRANT}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                grant.grant_id,
                grant.agent_id,
                grant.tool,
                grant.created_at,
                grant.program,
                int(grant.pattern),
                arguments,
                grant.digest,
                rule,
                grant.granted_by,
                to_json(grant.makers),
                grant.folder,
                int(grant.sandboxed),
            ),
        )
        made += not known
    return made


def revoke_grant(transaction: Transaction, op: RevokeGrant) -> StandingGrant | None:
    row = transaction.db.execute(
        f"DELETE FROM grants WHERE grant_id = ? RETURNING {GRANT}", (op.grant_id,)
    ).fetchone()
    return row and grant_of(row)


def find_approval(db: Database, approval_id: str) -> Approval | None:
    row = db.execute(
        f"SELECT {APPROVAL} FROM approvals WHERE approval_id = ?", (approval_id,)
    ).fetchone()
    return row and approval_of(row)


def list_waiting_approvals(db: Database) -> list[Approval]:
    sql = (
        f"SELECT {APPROVAL} FROM approvals WHERE status = 'waiting' ORDER BY asked_at, approval_id"
    )
    return read_rows(db, "approvals", sql, (), approval_of)


def list_grants(
    db: Database, *, agent_ids: Sequence[str] | None = None, limit: int
) -> list[StandingGrant]:
    where, of = "", tuple[str, ...]()
    if agent_ids is not None:
        where, of = f"WHERE agent_id IN ({','.join('?' * len(agent_ids))})", tuple(agent_ids)
    sql = f"SELECT {GRANT} FROM grants {where} ORDER BY created_at DESC, grant_id LIMIT ?"
    return read_rows(db, "grants", sql, (*of, limit), grant_of)


def approval_of(row: StoredRow) -> Approval:
    return Approval(
        approval_id=row[0],
        run_id=row[1],
        tool_use_id=row[2],
        key=key_of(row[4], row[3]),
        wish=_wish.decode(row[5]),
        agents=_words.decode(row[6]),
        authority=_authority.decode(row[7]),
        asked_at=row[8],
        expires_at=row[9],
        status=row[10],
        answered_at=row[11],
        answered_by=row[12],
        makers=_makers.decode(row[13]),
    )


def grant_of(row: StoredRow) -> StandingGrant:
    return StandingGrant(
        grant_id=row[0],
        agent_id=row[1],
        tool=row[2],
        created_at=row[3],
        program=row[4],
        pattern=bool(row[5]),
        arguments=None if row[6] is None else _words.decode(row[6]),
        digest=row[7],
        rule=None if row[8] is None else _rule.decode(row[8]),
        granted_by=row[9],
        makers=_makers.decode(row[10]),
        folder=row[11],
        sandboxed=bool(row[12]),
    )
