"""Media in the ledger: the operation that stores a picture or a file, and how it is read back.

Whoever has bytes puts `KeepMedia` into the step that stores the message, and refers to them in it
by `Media.source`. Whoever has base64 needs nothing of this: what a message carries is stored by its
hash with the message. A reference is valid only in the session (or the delivery) that it was stored
in: a message of others that contains a hash gets nothing. Media without references are removed in
the step that removes the last one.
"""

import msgspec

from crossclaw.domain.media import Media
from crossclaw.ledger.operations import Op


class KeepMedia(Op[str], frozen=True):
    """Store media, once. The result is the hash. The same step stores the message that refers to
    it; `holder` is for what is no message (`outbox:` and a delivery's key), and holds it until
    `DropMedia`."""

    media: Media
    agent_id: str
    at: int
    holder: str | None = None


class DropMedia(Op[None], frozen=True):
    """Remove a holder, and media that nothing else refers to."""

    holder: str


class DescribeMedia(Op[None], frozen=True):
    """Store a model's description of a picture, for as long as the picture is kept."""

    sha256: str
    words: str
    model: str
    at: int


class MediaWords(msgspec.Struct, frozen=True):
    """A model's description of a picture."""

    words: str
    model: str
