"""Sealing: a stream of bytes that only a passphrase opens, and that shows if a part is missing or
changed.

It consists of pieces of a megabyte, each encrypted and authenticated by AES-256-GCM under a key
that scrypt makes from the passphrase. A piece's nonce is its number, and the last one is marked as
the last: pieces that are swapped, repeated or cut off are noticed.
"""

import io
import os
import struct
from hashlib import scrypt
from typing import IO, Any

from crossclaw.domain.errors import StoreError

PIECE_BYTES = 2**20
SALT_BYTES = 16
_TAG_BYTES = 16
_COST = {"n": 2**15, "r": 8, "p": 1, "maxmem": 64 * 2**20, "dklen": 32}  # 0.1 s and 32 MB a try
_MIDDLE, _LAST = b"\0", b"\1"


class WrongPassphrase(StoreError):
    """Raised if the seal does not open: a wrong passphrase or a damaged file; nobody can tell
    which."""


class SealedWriter(io.RawIOBase):
    """Writes into `file`; closing it writes the last piece and leaves the file open."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        salt = os.urandom(SALT_BYTES)
        file.write(salt)
        self._cipher = _cipher(passphrase, salt)
        self._file = file
        self._buffer = bytearray()
        self._number = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._buffer += data
        while len(self._buffer) > PIECE_BYTES:
            self._put(bytes(self._buffer[:PIECE_BYTES]), _MIDDLE)
            del self._buffer[:PIECE_BYTES]
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._put(bytes(self._buffer), _LAST)
        super().close()

    def _put(self, piece: bytes, which: bytes) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number), piece, which))
        self._number += 1


class SealedReader(io.RawIOBase):
    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        self._cipher = _cipher(passphrase, file.read(SALT_BYTES))
        self._file = file
        self._ready = b""
        self._number = 0
        self._ahead = file.read(PIECE_BYTES + _TAG_BYTES)
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            self._ready = self._next()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next(self) -> bytes:
        """Decrypts the next piece. All but the last are full, so whether one follows tells which
        this is."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  only for sealed files

        piece, self._ahead = self._ahead, self._file.read(PIECE_BYTES + _TAG_BYTES)
        self._ended = not self._ahead
        try:
            opened = self._cipher.decrypt(
                _nonce(self._number), piece, _LAST if self._ended else _MIDDLE
            )
        except InvalidTag:
            raise WrongPassphrase(
                "the passphrase does not open it, or the file is damaged or cut off"
            ) from None
        self._number += 1
        return bytes(opened)


def _cipher(passphrase: str, salt: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  only for sealed files

    return AESGCM(scrypt(passphrase.encode(), salt=salt, **_COST))


def _nonce(number: int) -> bytes:
    return struct.pack(">4xQ", number)
