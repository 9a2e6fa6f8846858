"""Which client speaks for a guest: of several under one name and one credential, the one that waits.

A name is its client's from its first wait until it says that it leaves, until its connection ends while it
waits, or until it has been silent for so long that the guest has left. Others under the name may use tools
meanwhile, but neither receive nor answer what is sent to it.
"""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from crossclaw.domain.errors import Busy
from crossclaw.domain.keys import SessionKey
from crossclaw.sessions.guest_run import AT_WORK_S, AWAY_S

CLIENT_ID_CHARS_MAX = 128


class _Client:
    """A guest's client. One without an id to recognise it by is present while its call lasts, and while it
    has a message to answer, which no other client gets."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self.calls = 0
        self.heard_at = anyio.current_time()
        self.has_message = False

    @property
    def is_here(self) -> bool:
        if self.calls:
            return True
        silent_s = anyio.current_time() - self.heard_at
        if self.has_message:
            return silent_s < AT_WORK_S
        return self.client_id is not None and silent_s < AWAY_S


class GuestClients:
    def __init__(self) -> None:
        self._clients: dict[SessionKey, _Client] = {}
        """The clients of the guests, at most one each."""

    @contextmanager
    def waiting(self, key: SessionKey, client_id: str | None) -> Generator[None]:
        """Holds the guest's name while this client waits for its messages."""
        client = self._clients.get(key)
        unknown_waits = client_id is None and client is not None and client.calls > 0
        if unknown_waits or self.is_other(key, client_id):
            raise _taken(key)
        if client is None or client_id is None or client.client_id != client_id:
            client = self._clients[key] = _Client(client_id)
        client.calls += 1
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._leave(key, client)  # its connection has ended
            raise
        finally:
            client.calls -= 1
            client.heard_at = anyio.current_time()

    def require(self, key: SessionKey, client_id: str | None) -> None:
        """Raises if another client already speaks for this guest."""
        if self.is_other(key, client_id):
            raise _taken(key)

    def is_other(self, key: SessionKey, client_id: str | None) -> bool:
        client = self._clients.get(key)
        return client is not None and client.is_here and client.client_id != client_id

    def heard(self, key: SessionKey, client_id: str | None, *, has_message: bool) -> None:
        client = self._clients.get(key)
        if client is not None and client.client_id == client_id:
            client.heard_at = anyio.current_time()
            client.has_message = has_message

    def left(self, client_id: str) -> None:
        """Releases the names of a client that has said it leaves."""
        for key, client in list(self._clients.items()):
            if client.client_id == client_id:
                self._leave(key, client)

    def _leave(self, key: SessionKey, client: _Client) -> None:
        if self._clients.get(key) is client:
            del self._clients[key]


def _taken(key: SessionKey) -> Busy:
    return Busy(
        f"another client waits for messages under the name {key.text.rpartition(':')[2]}, and only one can: "
        "connect under another name (/mcp?name=…, or crossclaw mcp --name …), or end that client first"
    )
