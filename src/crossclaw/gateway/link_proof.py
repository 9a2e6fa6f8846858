"""How gateways that share a ledger know each other: each proves that it has the secret which all of them have, and shows it
to nobody. Where the others are is read from the ledger, and whoever can write there must not become the owner by it.
"""

import hmac
import secrets
from hashlib import sha256
from typing import NamedTuple

from crossclaw.domain.secret import Secret

LIFE_MS = 60_000  # clocks of two machines differ, and a request takes a moment
_HEAD = "link"


class LinkKey:
    """The secret that all gateways of a ledger have, as it is now."""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret

    def ticket(self, to: str, now_ms: int) -> "LinkTicket":
        return make_ticket(self.secret, to, now_ms)

    def answer(self, own: str, text: str, now_ms: int) -> str | None:
        return answer_ticket(self.secret, own, text, now_ms)


class LinkTicket(NamedTuple):
    """What is shown to one gateway, for a moment."""

    text: str
    answer: str
    """What only a gateway with the same secret can say to it."""


def make_ticket(secret: Secret, to: str, now_ms: int) -> LinkTicket:
    """`to` names the start of the gateway that it is for."""
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


def _mac(secret: Secret, words: str) -> str:
    key = f"crossclaw link {secret.reveal()}".encode()
    return hmac.new(key, words.encode("utf-8", "replace"), sha256).hexdigest()
