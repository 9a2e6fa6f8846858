"""The listener: receives what other gateways on the same database have done, as hints.

Everybody also looks each second, since a hint can be lost among many others.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from crossclaw.domain.aliases import Hints
from crossclaw.ledger.hints import LANES
from crossclaw.ledger.operations import Claimed
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.threads import loop_poster

log = logging.getLogger(__name__)

CHANNEL = "crossclaw"
LOOK_S = 1.0  # how late somebody acts whose hint was lost
PAYLOAD_BYTES_MAX = 7_000  # PostgreSQL takes 8,000


def without_claimed(hints: set[tuple[str, str]], results: Sequence[Any]) -> set[tuple[str, str]]:
    """The hints without lanes whose run was claimed in the step that accepted it: others have
    nothing to look for there."""
    taken = {(LANES, each.run.key.text) for each in results if isinstance(each, Claimed)}
    return hints - taken if taken else hints


def payload_of(writer: str, hints: set[tuple[str, str]]) -> bytes:
    """The notification about a transaction. If it has done very much, it only says so."""
    by_kind: dict[str, Any] = {}
    for kind, value in sorted(hints):
        by_kind.setdefault(kind, []).append(value)
    payload = msgspec.json.encode({"by": writer, "hints": by_kind})
    if len(payload) > PAYLOAD_BYTES_MAX:
        return msgspec.json.encode({"by": writer, "hints": None})
    return payload


class _HintMessage(msgspec.Struct):
    by: str
    hints: dict[str, list[str]] | None


class HintListener:
    """A thread with one connection. Reports in the event loop: hints of others, or None if some may
    be missing."""

    def __init__(
        self,
        connect: Callable[[], PgWire],
        writer: str,
        on_hints: Callable[[Mapping[str, Hints] | None], None],
    ) -> None:
        self._connect, self._writer, self._on_hints = connect, writer, on_hints
        self._post = loop_poster()
        self._wake, self._waker = os.pipe()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="ledger listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes the listener. Blocks until the thread has ended: a moment."""
        self._closed = True
        os.write(self._waker, b"x")
        self._thread.join()
        os.close(self._wake)
        os.close(self._waker)

    def _serve(self) -> None:
        while not self._closed:
            try:
                wire = self._connect()
            except (ConnectionLost, ServerTrouble) as error:
                log.debug("hints of other gateways cannot be heard: %s", error)
                self._tell(None)
                self._wait(-1, LOOK_S)
                continue
            try:
                wire.script(f"LISTEN {CHANNEL}")
                self._tell(None)
                self._listen(wire)
            except (ConnectionLost, ServerTrouble) as error:
                log.debug("hints of other gateways are not heard any more: %s", error)
            finally:
                wire.close()

    def _listen(self, wire: PgWire) -> None:
        """Reads notifications until it is closed, or the connection is lost."""
        look_at = time.monotonic() + LOOK_S
        while not self._closed:
            heard = self._wait(wire.descriptor, look_at - time.monotonic())
            said = wire.notifications() if heard else []
            for payload in said:
                self._on_notification(payload)
            if time.monotonic() >= look_at:
                self._tell(None)
                look_at = time.monotonic() + LOOK_S
            if heard and not said and not wire.is_open:
                raise ConnectionLost("the server has closed the connection")

    def _wait(self, descriptor: int, within_s: float) -> bool:
        """Waits for so many seconds; returns whether there is something to read."""
        watched = select.poll()
        watched.register(self._wake, select.POLLIN)
        if descriptor >= 0:
            watched.register(descriptor, select.POLLIN)
        return bool(watched.poll(max(within_s, 0) * 1000))

    def _on_notification(self, payload: str) -> None:
        try:
            message = msgspec.json.decode(payload, type=_HintMessage)
        except msgspec.MsgspecError:  # of another release, or of somebody else
            self._tell(None)
            return
        if message.by == self._writer:
            return
        if message.hints is None:
            self._tell(None)
        else:
            self._tell({kind: frozenset(values) for kind, values in message.hints.items()})

    def _tell(self, hints: Mapping[str, Hints] | None) -> None:
        self._post(lambda: self._on_hints(hints))
