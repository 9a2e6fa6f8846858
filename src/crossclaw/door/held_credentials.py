"""HeldCredentials: credentials of one kind, held in memory as the ledger has them."""

from abc import ABC, abstractmethod

import anyio

from crossclaw.ledger.contract import Ledger
from crossclaw.policy.credentials import Credentials


class HeldCredentials(ABC):
    """`_changing` is held by whoever changes one, so that no reading of the ledger undoes it."""

    def __init__(self, ledger: Ledger, credentials: Credentials) -> None:
        self._ledger = ledger
        self._credentials = credentials
        self._changing = anyio.Lock()

    async def load(self) -> None:
        """Reads the credentials as the ledger has them; those that it has no longer are forgotten. Waits while one
        is changed here: what was read before that would undo it."""
        async with self._changing:
            await self._load()

    @abstractmethod
    async def _load(self) -> None: ...
