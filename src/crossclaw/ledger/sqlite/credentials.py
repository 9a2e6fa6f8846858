"""Credential rows. A token is never here, only its digest."""

from typing import Any

import msgspec

from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import Fenced, NotFound
from crossclaw.ledger.database import Database
from crossclaw.ledger.gateways import CREDENTIALS
from crossclaw.ledger.operations import DeleteCredential, PutCredential
from crossclaw.ledger.sqlite.damage import StoredRow, read_rows
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction

CREDENTIAL = (
    "credential_id, kind, subject, digest, role, scopes, epoch, created_at, used_at, revoked_at, "
    "details"
)
_scopes = msgspec.json.Decoder(tuple[str, ...])
_particulars = msgspec.json.Decoder(DeviceDescription)


_PUT = f"INSERT INTO credentials ({CREDENTIAL}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_REPLACE = (
    f"{_PUT} ON CONFLICT (credential_id) DO UPDATE SET kind = excluded.kind, "
    "subject = excluded.subject, digest = excluded.digest, role = excluded.role, "
    "scopes = excluded.scopes, epoch = excluded.epoch, created_at = excluded.created_at, "
    "used_at = excluded.used_at, revoked_at = excluded.revoked_at, details = excluded.details"
)
_CHANGE = (
    "UPDATE credentials SET credential_id = ?, kind = ?, subject = ?, digest = ?, role = ?, "
    "scopes = ?, epoch = ?, created_at = ?, used_at = ?, revoked_at = ?, details = ? "
    "WHERE credential_id = ? AND epoch = ? RETURNING 1"
)


def put_credential(transaction: Transaction, op: PutCredential) -> None:
    """Stores a credential in one statement: of two who have read the same epoch, one writes."""
    db, values, over = transaction.db, _columns(op.credential), op.over
    transaction.hint(CREDENTIALS, op.credential.credential_id)
    if over is None:
        db.execute(_REPLACE, values)
        return
    if over == 0:
        made = db.execute(f"{_PUT} ON CONFLICT DO NOTHING RETURNING 1", values).fetchone()
    else:
        made = db.execute(_CHANGE, (*values, values[0], over)).fetchone()
    if made is None:
        raise Fenced(f"credential {op.credential.credential_id} has been changed meanwhile")


def _columns(each: Credential) -> tuple[Any, ...]:
    return (
        each.credential_id,
        each.kind,
        each.subject,
        " ".join(each.digests),
        each.role,
        to_json(each.scopes),
        each.epoch,
        each.created_at,
        each.used_at,
        each.revoked_at,
        to_json(each.particulars),
    )


def delete_credential(transaction: Transaction, op: DeleteCredential) -> None:
    transaction.hint(CREDENTIALS, op.credential_id)
    row = transaction.db.execute(
        "DELETE FROM credentials WHERE credential_id = ? RETURNING 1", (op.credential_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no credential {op.credential_id}")


def list_credentials(db: Database) -> list[Credential]:
    sql = f"SELECT {CREDENTIAL} FROM credentials ORDER BY created_at, credential_id"
    return read_rows(db, "credentials", sql, (), credential_of)


def credential_of(row: StoredRow) -> Credential:
    return Credential(
        credential_id=row[0],
        kind=row[1],
        subject=row[2],
        digests=tuple(row[3].split()),
        role=row[4],
        scopes=_scopes.decode(row[5]),
        epoch=row[6],
        created_at=row[7],
        used_at=row[8],
        revoked_at=row[9],
        particulars=_particulars.decode(row[10]),
    )
