"""Rows of MCP tools that the owner has agreed to."""

from crossclaw.ledger.agreed import AgreeTool, HeldTool, SeeTools
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.writer import Transaction

NOTHING = ""  # the digest that is agreed to of a tool that came later: none


def see_tools(transaction: Transaction, op: SeeTools) -> list[str]:
    db, held = transaction.db, list[str]()
    known = db.execute("SELECT 1 FROM agreed_tools WHERE server = ? LIMIT 1", (op.server,))
    is_first_sight = known.fetchone() is None
    for tool, (digest, words) in op.tools.items():
        row = db.execute(
            "SELECT digest FROM agreed_tools WHERE server = ? AND tool = ?", (op.server, tool)
        ).fetchone()
        agreed = row[0] if row else digest if is_first_sight else NOTHING
        if row is None:
            db.execute(
                "INSERT INTO agreed_tools (server, tool, digest, words, seen_at) VALUES (?,?,?,?,?)",
                (op.server, tool, agreed, words if agreed else "", op.at),
            )
        changed = agreed != digest
        db.execute(
            "UPDATE agreed_tools SET new_digest = ?, new_words = ? WHERE server = ? AND tool = ?",
            (digest if changed else None, words if changed else None, op.server, tool),
        )
        held += [tool] if changed else []
    return held


def agree_tool(transaction: Transaction, op: AgreeTool) -> bool:
    row = transaction.db.execute(
        "UPDATE agreed_tools SET digest = new_digest, words = new_words, seen_at = ?, "
        "new_digest = NULL, new_words = NULL "
        "WHERE server = ? AND tool = ? AND new_digest = ? RETURNING 1",
        (op.at, op.server, op.tool, op.digest),
    ).fetchone()
    return row is not None


def list_held_tools(db: Database) -> list[HeldTool]:
    rows = db.execute(
        "SELECT server, tool, words, new_words, new_digest, digest = ? FROM agreed_tools "
        "INDEXED BY agreed_tools_held WHERE new_digest IS NOT NULL ORDER BY server, tool",
        (NOTHING,),
    )
    return [HeldTool(*row[:5], *map(bool, row[5:])) for row in rows]
