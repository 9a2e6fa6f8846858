"""Calls and streams that are open: each ends with the credential that it came by."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from crossclaw.domain.authority import Authority
from crossclaw.policy.credentials import Credentials


class OpenCalls:
    """Open calls and streams. Code that serves something lasting holds it here while it does."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._open: dict[anyio.CancelScope, Authority] = {}
        credentials.listen(self._look)

    @contextmanager
    def hold(self, authority: Authority) -> Generator[anyio.CancelScope]:
        """Cancels the block at once when a credential behind it ends."""
        with anyio.CancelScope() as scope:
            self._open[scope] = authority
            try:
                yield scope
            finally:
                del self._open[scope]

    def _look(self) -> None:
        for scope, authority in list(self._open.items()):
            if not self._credentials.stands(authority.made_by):
                scope.cancel()
