"""Authentication between gateways that share a ledger: each proves that it has the secret which all of them
have, and reveals it to nobody.

The others' addresses are read from the ledger, and whoever can write there must not become the owner by it: so
what one asks another is also encrypted, as it may have a platform's secret in it.
"""

import hmac
import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from crossclaw.domain.secret import Secret

LIFE_MS = 60_000  # clocks of two machines differ, and a request takes a moment
_HEAD = "link"
_NONCE_BYTES = 12

Side = Literal["question", "reply"]


class LinkKey:
    """The secret that all gateways of a ledger share, as it is now."""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret

    def take_secret(self, secret: Secret) -> None:
        """Puts another secret in place of the present one."""
        self.secret = secret

    def ticket(self, to: str, now_ms: int) -> "LinkTicket":
        return make_ticket(self.secret, to, now_ms)

    def answer(self, own: str, text: str, now_ms: int) -> str | None:
        return answer_ticket(self.secret, own, text, now_ms)

    def seal(self, side: Side, to: str, ticket: str, body: bytes) -> bytes:
        """Encrypts a question or an answer for its ticket, as JSON: whoever carries it between the two can
        neither read nor change it, nor put another in its place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        about = f"{side} {to} {ticket}".encode("utf-8", "replace")
        return msgspec.json.encode(nonce + self._cipher(ticket).encrypt(nonce, body, about))

    def unseal(self, side: Side, to: str, ticket: str, sealed: bytes) -> bytes | None:
        """Decrypts a question or an answer; None: no gateway has written this for this ticket."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  as below

        about = f"{side} {to} {ticket}".encode("utf-8", "replace")
        try:
            found = msgspec.json.decode(sealed, type=bytes)
            nonce, rest = found[:_NONCE_BYTES], found[_NONCE_BYTES:]
            return bytes(self._cipher(ticket).decrypt(nonce, rest, about))
        except (InvalidTag, ValueError):  # what is no JSON is a ValueError too
            return None

    def _cipher(self, ticket: str) -> Any:
        """A cipher with a key for one question and its answer."""
        return load_cipher()(bytes.fromhex(_mac(self.secret, f"cipher {ticket}")))


def load_cipher() -> Any:
    """Imports the cipher. Slow the first time: call it in a thread before anybody is asked."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  only where gateways ask each other

    return AESGCM


class LinkTicket(NamedTuple):
    """A short-lived proof that is shown to one gateway."""

    text: str
    answer: str
    """The answer that only a gateway with the same secret can give."""


def make_ticket(secret: Secret, to: str, now_ms: int) -> LinkTicket:
    """Makes a ticket. `to` names the start of the gateway that it is for."""
    nonce = secrets.token_hex(16)
    mac = _mac(secret, f"ask {to} {now_ms} {nonce}")
    return LinkTicket(f"{_HEAD}.{now_ms}.{nonce}.{mac}", _mac(secret, f"answer {to} {nonce}"))


def answer_ticket(secret: Secret, own: str, text: str, now_ms: int) -> str | None:
    """The proof for whoever asked; None: it is no ticket for this gateway, or an old one."""
    head, _, rest = text.partition(".")
    at, _, rest = rest.partition(".")
    nonce, _, mac = rest.partition(".")
    if head != _HEAD or not at.isascii() or not at.isdecimal() or len(at) > 15:
        return None
    if not hmac.compare_digest(_mac(secret, f"ask {own} {at} {nonce}").encode(), mac.encode()):
        return None
    return _mac(secret, f"answer {own} {nonce}") if abs(now_ms - int(at)) <= LIFE_MS else None


class UsedTickets:
    """The tickets used so far: a question is accepted once, so one that was recorded on its way cannot be
    replayed."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, int] = OrderedDict()

    def use(self, ticket: str, now_ms: int) -> bool:
        """Marks a ticket as used; False if it was before. Tickets that are too old to be accepted are forgotten."""
        while self._used and next(iter(self._used.values())) < now_ms - 2 * LIFE_MS:
            self._used.popitem(last=False)
        if ticket in self._used:
            return False
        self._used[ticket] = now_ms
        return True


def _mac(secret: Secret, words: str) -> str:
    key = f"crossclaw link {secret.reveal()}".encode()
    return hmac.new(key, words.encode("utf-8", "replace"), sha256).hexdigest()
