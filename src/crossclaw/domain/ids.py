"""Ids are handed in, so that tests can name them."""

import os
import re
import time
import uuid
from hashlib import sha256
from typing import Protocol

ENTRY_ID_BYTES = (
    8  # of four, two in a transcript of 100,000 entries are the same more often than not
)
POOL_BYTES = 4096  # one system call for some 250 ids; each gives up the interpreter lock


class Ids(Protocol):
    def new(self) -> str:
        """A fresh UUID, for sessions, runs and children."""
        ...

    def short(self) -> str:
        """Sixteen hex digits: the id of an entry. It does not reveal how many others there are, and a million
        of them in one transcript are still all different."""
        ...


def entry_id_of(what: str, run_id: str) -> str:
    """The id of the one entry of its kind that a run has. It is the same when the step is done again."""
    return sha256(f"{what} of {run_id}".encode()).hexdigest()[: 2 * ENTRY_ID_BYTES]


FOLLOWS = "::"
"""The separator between a run's id and the name of what follows from it. No client may write it, so nobody
can take the id of a round, an announce or a tool's send in advance."""
ID_REFUSED = f"an idempotency key must not contain {FOLLOWS!r}; use another one"

_SESSION_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?:-\d{1,6})?", re.I)
_OWN_NAME = re.compile(r"announce|wake|round-\d+|call-.*")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_session_id(text: str) -> bool:
    """Whether it reads like a session's id: a UUID; with a number after it where an import has split a transcript
    at its resets."""
    return _SESSION_ID.fullmatch(text) is not None


def follower_id(run_id: str, name: str) -> str:
    return f"{run_id}{FOLLOWS}{name}"


def call_follower_id(run_id: str, call_id: str) -> str:
    """The id of a run that a tool call begins. The call's id is the model's, which may be any text."""
    if _PLAIN.fullmatch(call_id) and not _OWN_NAME.fullmatch(call_id):
        return follower_id(run_id, call_id)
    return follower_id(run_id, f"call-{sha256(call_id.encode()).hexdigest()[:32]}")


class RandomIds:
    """UUIDs that begin with the time (version 7): rows made together lie together in an index, which
    halves the pages that a commit has to write. They are names, not secrets."""

    def __init__(self) -> None:
        self._pool = b""

    def new(self) -> str:
        milliseconds = time.time_ns() // 1_000_000
        number = int.from_bytes(self._random(10)) | milliseconds << 80
        number = number & ~(0xF << 76) | 7 << 76
        number = number & ~(0x3 << 62) | 2 << 62
        return str(uuid.UUID(int=number))

    def short(self) -> str:
        return self._random(ENTRY_ID_BYTES).hex()

    def _random(self, count: int) -> bytes:
        if len(self._pool) < count:
            self._pool = os.urandom(POOL_BYTES)
        taken, self._pool = self._pool[:count], self._pool[count:]
        return taken
