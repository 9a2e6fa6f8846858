"""Media in the ledger: the operation that keeps a picture or a file, and how to get it back.

Whoever has bytes puts `KeepMedia` into the step that stores the message, and names them in it by `Media.source`.
Whoever has base64 needs nothing of this: what a message carries is kept by its hash when the message is stored.
A name holds only in the session (or the delivery) that it was stored in: words of others that name a hash get
nothing. What nobody names any more is removed in the step that takes away its last name.
"""

import msgspec

from crossclaw.domain.media import Media
from crossclaw.ledger.operations import Op


class KeepMedia(Op[str], frozen=True):
    """Keep it, once. Answers its hash. The same step stores the message that names it; `holder` is for what is no
    message (`outbox:` and a delivery's key), and holds it until `DropMedia`."""

    media: Media
    agent_id: str
    at: int
    holder: str | None = None


class DropMedia(Op[None], frozen=True):
    """A holder is gone, and with it what only it has named."""

    holder: str


class DescribeMedia(Op[None], frozen=True):
    """Remember what a model has said about a picture, as long as that is kept."""

    sha256: str
    words: str
    model: str
    at: int


class MediaWords(msgspec.Struct, frozen=True):
    """What a model has said about a picture."""

    words: str
    model: str
