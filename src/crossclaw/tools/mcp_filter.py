"""Stands between an MCP server's output and the gateway, as a program of its own: a message that is too large, or made
of too many parts, never reaches the gateway's parser. Whoever asked gets an error in its place.

    python mcp_filter.py <program> [argument …]

Nothing but the standard library is imported: it is started for every server.
"""

import json
import os
import re
import signal
import subprocess
import sys

MESSAGE_BYTES_MAX = 10 * 1024 * 1024  # three large pictures; what a model could use is far less
PARTS_MAX = 10_000  # objects in one message: each costs the gateway some ten microseconds
KEPT_BYTES = 4_096  # of a message that is too large: where its id is looked for
READ_BYTES = 65_536
NO_SUCH_PROGRAM = 127  # as shells say it

_OBJECT = re.compile(rb'\{\s*["}]')
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{0,200}")')


class MessageFilter:
    """Bytes in, whole messages out."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._size = 0
        """The size of the line so far, also of what is not kept of it."""

    def take(self, data: bytes) -> bytes:
        *whole, rest = data.split(b"\n")
        passed = []
        for part in whole:
            self._add(part)
            passed.append(self._end())
        self._add(rest)
        return b"".join(passed)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= MESSAGE_BYTES_MAX:
            self._line += part
        else:
            del self._line[KEPT_BYTES:]

    def _end(self) -> bytes:
        line, size = bytes(self._line), self._size
        self._line, self._size = bytearray(), 0
        if size > MESSAGE_BYTES_MAX:
            return _refusal(line, f"it has {size} bytes, and at most {MESSAGE_BYTES_MAX} are read")
        if (parts := count_parts(line)) > PARTS_MAX:
            return _refusal(line, f"it has {parts} parts, and at most {PARTS_MAX} are read")
        return line + b"\n"


def count_parts(data: bytes) -> int:
    """The number of objects in a message. Inside of a text a quotation mark is escaped, so those there are
    hardly ever counted."""
    return sum(1 for _ in _OBJECT.finditer(data))


def _refusal(line: bytes, why: str) -> bytes:
    """An error for the request that waits for this answer; empty if none does."""
    found = _ID.search(line[:KEPT_BYTES])
    if found is None:
        return b""
    error = {"code": -32603, "message": f"the server's answer is too large: {why}"}
    answer = {"jsonrpc": "2.0", "id": json.loads(found[1]), "error": error}
    return json.dumps(answer).encode() + b"\n"


def main(command: list[str]) -> int:
    try:
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        return NO_SUCH_PROGRAM
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    assert server.stdout is not None
    sieve = MessageFilter()
    try:
        while data := os.read(server.stdout.fileno(), READ_BYTES):
            if passed := sieve.take(data):
                _write(passed)
    except BrokenPipeError:
        server.terminate()
    return server.wait()


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
