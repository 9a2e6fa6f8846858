"""Millions of sessions at rest, and runs that wait: made by the ledger's own steps once, then copied row by row."""

import apsw

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import NewRun
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.operations import EnsureSession, Submit
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.writer import SqliteTransaction

_ROUND = 500_000  # rows that one statement makes: its transaction stays small


def key_of_session(number: int) -> SessionKey:
    return SessionKey.named("main", f"s{number}")


def session_of(number: int) -> str:
    return f"id{number}"


def seed(db: apsw.Connection, sessions: int, waiting: int, at: int) -> None:
    """The first sessions are those with a run that waits."""
    transaction, key = SqliteTransaction(db), key_of_session(0)
    new = NewRun(run_id="r0", key=key, kind="chat", message=UserMessage("hello", timestamp=at))
    for op in (
        EnsureSession(new=NewSession(key=key, session_id=session_of(0)), at=at),
        Submit(new=new, at=at),
    ):
        HANDLERS[type(op)](transaction, op)
    own = {"key": f"'{key.text[:-1]}' || n", "session_id": "'id' || n", "run_id": "'r' || n"}
    for table, count in (
        ("transcripts", sessions),
        ("sessions", sessions),
        ("runs", waiting),
        ("inbox", waiting),
    ):
        _copy(db, table, own, count)


def _copy(db: apsw.Connection, table: str, own: dict[str, str], count: int) -> None:
    names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})") if name != "id"]
    values = ", ".join(own.get(name, name) for name in names)
    for first in range(1, count, _ROUND):
        db.execute(
            f"INSERT INTO {table} ({', '.join(names)}) WITH RECURSIVE c(n) AS "
            "(SELECT ?1 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < ?2) "
            f"SELECT {values} FROM c, (SELECT * FROM {table} LIMIT 1)",
            (first, min(first + _ROUND, count)),
        )
