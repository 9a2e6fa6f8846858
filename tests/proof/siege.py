"""A siege: strangers at every stage of a connection and guesses at the secret, as a program of its own.

    python -m tests.proof.siege PORT STRANGERS GUESSES_PER_SECOND SECONDS

The strangers come evenly over the time, from several addresses of this machine; each stays until it is cut off. The
last line says how many came, how many were there at once, and how the guesses were answered.
"""

import resource
import selectors
import socket
import sys
import time
from collections import Counter
from itertools import count

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
STAGES = (
    b"",
    b"GE",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    UPGRADE + b"Content-Length: 5\r\n\r\n",
    UPGRADE + b"\r\n",
    UPGRADE + b"\r\n\x81",
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
)
ADDRESSES = 8
FILES_LEFT = 100  # for Python itself


class Siege:
    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_LEFT
        self.came = self.most = 0
        self.answers: Counter[str] = Counter()

    def stranger(self, number: int) -> None:
        if len(self._selector.get_map()) < self._room:
            self.came += 1
            self._open(STAGES[number % len(STAGES)], f"127.0.0.{2 + number % ADDRESSES}", None)
            self.most = max(self.most, len(self._selector.get_map()))

    def guess(self, number: int) -> None:
        asked = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer guess-{number}\r\n\r\n"
        self._open(asked.encode(), "127.0.0.1", "guess")

    def _open(self, says: bytes, address: str, what: str | None) -> None:
        peer = socket.socket()
        try:
            peer.bind((address, 0))
            peer.connect(self._to)
            if says:
                peer.sendall(says)
        except OSError:
            peer.close()
            return
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ, what)

    def look(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._read(key)

    def _read(self, key: selectors.SelectorKey) -> None:
        peer: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            data = peer.recv(65536)
        except OSError:
            data = b""
        if key.data:
            self.answers[data[9:12].decode("ascii") or "dropped"] += 1
        if not data or key.data:
            self._selector.unregister(peer)
            peer.close()


def main() -> None:
    port, strangers, guesses, seconds = map(int, sys.argv[1:5])
    siege, began = Siege(port), time.monotonic()
    events = sorted(
        [(number * seconds / strangers, "stranger") for number in range(strangers)]
        + [(number / guesses, "guess") for number in range(guesses * seconds)]
    )
    print("it begins", flush=True)
    numbers = {"stranger": count(), "guess": count()}
    for at, what in events:
        siege.look(began + at)
        getattr(siege, what)(next(numbers[what]))
    print(f"{siege.came} came, {siege.most} at once, {dict(siege.answers)}", flush=True)


if __name__ == "__main__":
    main()
