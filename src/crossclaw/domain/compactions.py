"""Compactions: how much of a transcript its model still sees as it was.

Each is complete by itself: only the newest one counts. The transcript keeps everything.
"""

from typing import Literal

import msgspec

from crossclaw.domain.messages import Usage
from crossclaw.domain.sessions import Entry, NewEntry

CompactionReason = Literal["threshold", "overflow", "manual", "refused"]


# A kept message longer than this would fill small windows for ever; it is shown without its rest.
KEPT_CHARS_MAX = 16_000


class Compaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    """The tokens after it; both numbers are estimates."""
    cleared_through: int = 0
    """Results of tools up to this seq are left out."""
    summary: str | None = None
    first_kept_seq: int = 0
    first_kept_entry_id: str | None = None
    """The first entry that is kept, if there is a summary: what is older is in it, but for pins and `keep`."""
    first_request: int = 0
    asked: int = 0
    """Seqs of older messages that stay as they are: the first request of all, shown before the
    summary, and the one of the run that made this, shown after it."""
    asked_with: tuple[int, ...] = ()
    """Requests that the same run answers together with `asked`: they waited, or came while it worked."""
    without_pictures: tuple[int, ...] = ()
    """Seqs of messages whose pictures a model has refused: a note stands in their place."""
    left_out: tuple[int, ...] = ()
    """Seqs of messages that a service has refused as a whole: a note stands in their place."""
    kept_chars: int = KEPT_CHARS_MAX
    """How much is shown of each message that stays although it is older."""
    without_files: bool = False
    """Whether the files of the messages that stay had to make room as well."""
    under_way: str = ""
    """What the session had under way when this was made."""
    summarized: int = 0
    """Messages that are now in the summary."""
    usage: Usage | None = None
    """What the summary cost."""

    def entry(self, entry_id: str) -> NewEntry:
        return NewEntry(entry_id=entry_id, note=msgspec.to_builtins(self), type="compaction")


def compaction_of(entry: Entry) -> Compaction:
    return msgspec.convert(entry.note, Compaction)


class Obligation(msgspec.Struct, frozen=True):
    """Something that a session still has to do or waits for, whatever its model remembers."""

    kind: Literal["child", "send", "timer"]
    name: str
    """The child's or the target's key; a timer's kind."""
    about: str
    """The task, the message, or the time."""
