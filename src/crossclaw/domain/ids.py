"""Ids are handed in, so that tests can name them."""

import uuid
from typing import Protocol


class Ids(Protocol):
    def new(self) -> str:
        """A fresh UUID, for sessions, runs and children."""
        ...

    def short(self) -> str:
        """Eight hex digits, unique within one transcript: the id of an entry."""
        ...


class RandomIds:
    def new(self) -> str:
        return str(uuid.uuid4())

    def short(self) -> str:
        return uuid.uuid4().hex[:8]
