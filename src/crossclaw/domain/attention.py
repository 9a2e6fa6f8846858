"""What needs a person's attention: a row says what happened, why, and what can be done about it.

Rows come from sources, which are asked each time somebody looks: nothing is stored but what was dismissed. A row
goes away when its cause does: the session has answered since, the delivery arrived, the device was let in.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

ATTENTION_KINDS = (
    "run",
    "delivery",
    "wait",
    "job",
    "device",
    "model",
    "store",
    "budget",
    "tool",
    "chat",
    "channel",
    "approval",
)
"""The known kinds; a metric has a line for each, also while there is none."""


class AttentionAction(msgspec.Struct, frozen=True, rename="camel"):
    """A button: the method that a client calls, with its parameters."""

    label: str
    method: str
    params: dict[str, Any]


class AttentionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    """The row's id: the same as long as it is the same thing; what is dismissed is remembered by it."""
    kind: str
    """One of `ATTENTION_KINDS`."""
    what: str
    """The event, as the rest of a sentence that begins with `key`, `subject` or nothing."""
    since: int
    why: str | None = None
    helps: str | None = None
    """Advice, if no button helps."""
    key: str | None = None
    """The session that it is about, which clients show by its name."""
    other: str | None = None
    """A second session, at the end of the sentence."""
    subject: str | None = None
    run_id: str | None = None
    """The run whose trace shows it."""
    actions: tuple[AttentionAction, ...] = ()


AttentionSource = Callable[[], Awaitable[Sequence[AttentionRow]]]
"""A source of rows, asked whenever somebody looks; it answers within milliseconds and at most a few hundred rows."""
