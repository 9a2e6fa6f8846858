"""Credential rows. A token is never here, only its digest."""

import apsw
import msgspec

from crossclaw.domain.credentials import Credential, Particulars
from crossclaw.domain.errors import NotFound
from crossclaw.ledger.operations import DeleteCredential, PutCredential
from crossclaw.ledger.sqlite.damage import Row, read_rows
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction

CREDENTIAL = (
    "credential_id, kind, subject, digest, role, scopes, epoch, created_at, used_at, revoked_at, "
    "details"
)
_scopes = msgspec.json.Decoder(tuple[str, ...])
_particulars = msgspec.json.Decoder(Particulars)


def put_credential(transaction: Transaction, op: PutCredential) -> None:
    each = op.credential
    transaction.db.execute(
        f"INSERT OR REPLACE INTO credentials ({CREDENTIAL}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (
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
        ),
    )


def delete_credential(transaction: Transaction, op: DeleteCredential) -> None:
    row = transaction.db.execute(
        "DELETE FROM credentials WHERE credential_id = ? RETURNING 1", (op.credential_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no credential {op.credential_id}")


def list_credentials(db: apsw.Connection) -> list[Credential]:
    sql = f"SELECT {CREDENTIAL} FROM credentials ORDER BY created_at, credential_id"
    return read_rows(db, "credentials", sql, (), credential_of)


def credential_of(row: Row) -> Credential:
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
