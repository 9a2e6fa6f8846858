"""The file with the private keys of one device: one process at a time has it open, and keys that went on elsewhere are not used.

Keys change with every message, so a copy of the file is soon outdated, and whoever goes on from an outdated one breaks the
device for everybody it talks with. Each opening therefore leaves a new mark, in the file and in the ledger; a file without the
ledger's mark is a copy from which another gateway has gone on, or an old backup. Older marks stay in the file, so that a
ledger that comes from a backup accepts it.
"""

import fcntl
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nio.store

from crossclaw.disk.private import FILE_MODE, make_file
from crossclaw.domain.errors import AccountBroken, ChannelDown

MARKS_MAX = 1_000  # openings that a backup of the ledger may be behind
BUSY = (
    "the keys of this account's device are open in another process, as of a gateway that was stopped and still lives; it "
    "is tried again until that one has ended"
)


class KeyFile:
    def __init__(self, folder: Path, user_id: str, device_id: str) -> None:
        self._folder = folder
        self._user_id, self._device_id = user_id, device_id
        self._lock: int | None = None
        self.store: Any = None

    def open(self, uploaded: str | None, mark: str | None) -> str:
        """Opens the file. `uploaded`: the device's key as the homeserver has it, `mark`: the ledger's; None
        where there is none. Returns the new mark, which the ledger has to have before the keys are used."""
        name = store_name(self._user_id, self._device_id)
        self._take_lock(self._folder / f"{name}.lock")
        make_file(self._folder / name)
        (self._folder / name).chmod(FILE_MODE)
        self._open_store(name)
        if uploaded is None and self._is_outdated(mark):  # nobody knows them any more
            self.store.database.close()
            (self._folder / name).rename(self._folder / f"{name}.outdated")
            make_file(self._folder / name)
            self._open_store(name)
        self._refuse_others(uploaded, mark)
        return self._put_mark(mark)

    def _open_store(self, name: str) -> None:
        self.store = nio.store.SqliteStore(
            self._user_id, self._device_id, str(self._folder), database_name=name
        )
        database = self.store.database
        database.execute_sql("PRAGMA synchronous=FULL")
        database.execute_sql(
            "CREATE TABLE IF NOT EXISTS crossclaw_read (session TEXT, number INTEGER, "
            "event_id TEXT, at INTEGER, UNIQUE (session, number))"
        )
        database.execute_sql("CREATE TABLE IF NOT EXISTS crossclaw_marks (mark TEXT NOT NULL)")

    def close(self) -> None:
        if self.store is not None:
            self.store.database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, path: Path) -> None:
        make_file(path)
        self._lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ChannelDown(BUSY) from None
        except OSError as error:  # a file system without locks
            raise AccountBroken(
                f"{self._folder} cannot be locked ({error}): two gateways could use its keys at once, so it has to be on "
                "another file system"
            ) from None

    def _refuse_others(self, uploaded: str | None, mark: str | None) -> None:
        account = self.store.load_account()
        ours = None if account is None else account.identity_keys["ed25519"]
        if uploaded is not None and ours != uploaded:
            raise AccountBroken(self._refusal("are not on this gateway"))
        if self._is_outdated(mark):
            raise AccountBroken(
                self._refusal("have changed since this gateway had them, on another gateway")
            )

    def _refusal(self, why: str) -> str:
        return (
            f"the keys of this account's device {self._device_id} {why}. They are in the folder channels/matrix/<account> of "
            f"the gateway that had the account last: bring it here as {self._folder}, by a file system that both have or by a "
            "copy that is made while no gateway has the account open. If the keys are lost, log in anew for another token (with "
            "a password: sign that device out in another client). Until then this gateway leaves the account to others, and "
            "messages wait at the homeserver. (Two accounts of the config cannot have one token.)"
        )

    def _is_outdated(self, mark: str | None) -> bool:
        """Whether there are keys here, and the ledger says that they went on elsewhere."""
        rows = self.store.database.execute_sql("SELECT mark FROM crossclaw_marks").fetchall()
        has_keys = self.store.load_account() is not None
        return has_keys and mark is not None and mark not in {row[0] for row in rows}

    def _put_mark(self, mark: str | None) -> str:
        """Adds a new mark behind the ledger's, which counts until the new one is there."""
        made = secrets.token_hex(16)
        database = self.store.database
        with database.atomic():
            database.execute_sql("DELETE FROM crossclaw_marks WHERE mark = ?", (mark,))
            for each in filter(None, (mark, made)):
                database.execute_sql("INSERT INTO crossclaw_marks VALUES (?)", (each,))
            database.execute_sql(
                "DELETE FROM crossclaw_marks WHERE rowid NOT IN "
                "(SELECT rowid FROM crossclaw_marks ORDER BY rowid DESC LIMIT ?)",
                (MARKS_MAX,),
            )
        return made


def store_name(user_id: str, device_id: str) -> str:
    """The name of a device's key file. Both ids are the homeserver's words, and no path."""
    return quote(f"{user_id}_{device_id}.db", safe="@:=+,()")
