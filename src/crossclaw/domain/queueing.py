"""Queueing: what happens to chat messages that come while their session is busy. Pure decisions.

The settings of the moment at which a message came are stored with its run, so a restart, or a setting that is
changed meanwhile, does not change how it is handled.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from crossclaw.domain.messages import UserMessage, words_of
from crossclaw.domain.texts import with_ellipsis

QueueingMode = Literal["collect", "followup", "steer", "steer-backlog", "interrupt", "backlog"]
QueueDrop = Literal["old", "new", "summarize"]

# Alone, one after the other. The others are answered together.
_ONE_BY_ONE: frozenset[QueueingMode] = frozenset({"followup", "steer", "steer-backlog"})
STEERING: frozenset[QueueingMode] = frozenset({"steer", "steer-backlog"})

BEGINNING_CHARS = 160  # of a message that is only summarised: enough to know what it was about


class Queueing(msgspec.Struct, frozen=True, omit_defaults=True):
    mode: QueueingMode = "collect"
    """`backlog`: said to the run before; a turn of its own follows."""
    debounce_ms: int = 1_000
    cap: int = 20
    drop: QueueDrop = "summarize"

    def wait_ms(self) -> int:
        """How long the last message must be old before those that waited begin."""
        return 0 if self.mode == "interrupt" else self.debounce_ms


class Batch(msgspec.Struct, frozen=True):
    """The waiting messages that are taken together. Those that it does not name go on waiting."""

    taken: Sequence[int]
    summarised: Sequence[int] = ()
    dropped: Sequence[int] = ()


def next_batch(waiting: int, settings: Queueing) -> Batch:
    """The next batch, by the places among the waiting messages, the oldest first."""
    over = max(0, waiting - settings.cap)
    places = range(waiting)
    match settings.drop:
        case "new":
            kept, left_out = places[: waiting - over], places[waiting - over :]
        case _:
            kept, left_out = places[over:], places[:over]
    taken = kept[:1] if settings.mode in _ONE_BY_ONE else kept
    if settings.drop == "summarize":
        return Batch(taken, summarised=left_out)
    return Batch(taken, dropped=left_out)


def dropped_because(settings: Queueing) -> str:
    return (
        f"not read: more than {settings.cap} messages were waiting, and messages.queue.drop is "
        f"{settings.drop}; say it again, or raise messages.queue.cap"
    )


def summary_of(messages: Sequence[UserMessage], cap: int, at: int) -> UserMessage:
    """One message in place of those that were too many."""
    lines = "".join(f"\n- {_beginning(message)}" for message in messages)
    text = (
        f"[Queue overflow: more than {cap} messages came while you were busy. Of the {len(messages)} "
        f"oldest you see only the beginning.]{lines}"
    )
    return UserMessage(text, at, messages[0].provenance)


def reminder_of(message: UserMessage, at: int) -> UserMessage:
    """The message with which the turn that follows a steered message begins."""
    text = f"[This reached you while you were at work; say what is left to say to it: {_beginning(message)}]"
    return UserMessage(text, at, message.provenance)


def _beginning(message: UserMessage) -> str:
    sender = message.provenance.sender if message.provenance else None
    words = " ".join(words_of(message).split()) or "(no text)"
    words = f"{sender}: {words}" if sender else words
    return with_ellipsis(words, BEGINNING_CHARS)
