"""Sessions and their entries, as the ledger has them."""

from typing import Literal

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.budgets import Amount
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Message

EntryType = Literal["message", "compaction", "note"]

LABEL_CHARS_MAX = 64  # a label is a name in lists; OpenClaw's clients take no longer one


UNBOUND = Authority(owner=True)
"""The bound of a session that has none: every run keeps the authority it came with."""


class Session(msgspec.Struct, frozen=True):
    """A session: its key, its current session id and its settings. A reset gives the key a new session id;
    the old transcript stays readable by its own."""

    key: SessionKey
    session_id: str
    created_at: int
    updated_at: int
    channel: str | None = None
    display_name: str | None = None
    label: str | None = None
    spawned_by: str | None = None
    archived_at: int | None = None
    model: str | None = None
    thinking: str | None = None
    verbose: str | None = None
    send_policy: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    """Tokens that filled the model's window at the last call."""
    context_tokens: int | None = None
    cost_usd: float = 0.0
    system_sent: bool = False
    aborted_last_run: bool = False
    last_address: Address | None = None
    compactions: int = 0
    authority: Authority = UNBOUND
    """What any run of this session may do at most."""
    queue_mode: str | None = None
    """Overrides `messages.queue.mode`; the next three override its neighbours there."""
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: str | None = None
    last_run_id: str | None = None
    """The run that ended last, how it ended and why; runs that only speak of another one count when they fail."""
    last_status: str | None = None
    last_error: str | None = None
    group_activation: str | None = None
    """Overrides the config for a group: `always`, or `mention`."""
    unreadable: bool = False
    """Whether its stored form is damaged: then it is shown in lists, and nothing else."""


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session begins with that is not there yet."""

    channel: str | None = None
    display_name: str | None = None
    label: str | None = None
    spawned_by: str | None = None
    address: Address | None = None
    authority: Authority = UNBOUND


class NewSession(SessionFacts, frozen=True, kw_only=True):
    """A session to be begun, should it not be there yet."""

    key: SessionKey
    session_id: str


class NewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry to be appended: a message, or a note about the conversation."""

    entry_id: str
    message: Message | None = None
    note: dict[str, object] | None = None
    type: EntryType = "message"
    spent: Amount | None = None
    """The amount it took from the account of its run, settled in the step that appends it."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a transcript. `seq` counts from 1 without holes."""

    session_id: str
    seq: int
    entry_id: str
    at: int
    type: EntryType
    run_id: str | None = None
    message: Message | None = None
    note: dict[str, object] | None = None
    pinned: bool = False
    size: int = 0
    """Bytes of its JSON: what limits are counted in."""
