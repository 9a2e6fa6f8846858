"""Rows: a session as the session tools show it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.domain.messages import encode_message, shown_message
from crossclaw.domain.sessions import Entry, Session
from crossclaw.door.registry import Result
from crossclaw.policy.send import channel_of
from crossclaw.sessions.budgets import BudgetRow


class RowBasics(Result, frozen=True, kw_only=True):
    """What every row of a session says, whoever asks: lists, the session tools and the table of the page."""

    key: str
    kind: str
    channel: str
    updated_at: int
    session_id: str
    model: str
    display_name: str | None = None
    label: str | None = None
    context_tokens: int | None = None
    agent_gone: bool = False
    """Whether the session's agent is no longer configured: it can be read and deleted, not talked to."""
    unreadable: bool = False
    """Whether the session's stored form is damaged: `crossclaw doctor` names it."""


class RowFacts(RowBasics, frozen=True, kw_only=True):
    """What the rows of lists and of the session tools say beyond that."""

    total_tokens: int
    system_sent: bool
    aborted_last_run: bool
    thinking_level: str | None = None
    verbose_level: str | None = None
    send_policy: str | None = None
    last_channel: str | None = None
    last_to: str | None = None
    budget: BudgetRow | None = None


def row_basics(
    session: Session, *, channel: str, context_tokens: int | None, agent_gone: bool
) -> dict[str, Any]:
    """All that a `RowBasics` says but key, kind and model, which have another form for agents than for clients."""
    return {
        "channel": channel,
        "updated_at": session.updated_at,
        "session_id": session.session_id,
        "display_name": session.display_name,
        "label": session.label,
        "context_tokens": context_tokens,
        "agent_gone": agent_gone,
        "unreadable": session.unreadable,
    }


def row_facts(
    session: Session, *, window: int, budget: BudgetRow | None, agent_gone: bool
) -> dict[str, Any]:
    """All of them but key, kind and model."""
    channel, address = channel_field(session), session.last_address
    context_tokens = session.context_tokens or window
    return {
        **row_basics(
            session, channel=channel, context_tokens=context_tokens, agent_gone=agent_gone
        ),
        "total_tokens": session.total_tokens,
        "system_sent": session.system_sent,
        "aborted_last_run": session.aborted_last_run,
        "thinking_level": session.thinking,
        "verbose_level": session.verbose,
        "send_policy": session.send_policy,
        "last_channel": address.channel if address else _known_channel(channel),
        "last_to": address.to if address else None,
        "budget": budget,
    }


class Row(RowFacts, frozen=True, kw_only=True):
    updated: str
    """The same as `updatedAt` for readers."""
    delivery_context: dict[str, str] | None = None
    transcript_path: str | None = None
    messages: list[Any] | None = None


def channel_field(session: Session) -> str:
    """The row's channel: for groups the channel on record, for direct chats the one last used, for internal
    work "internal"."""
    kind = session.key.kind
    if kind in ("cron", "hook", "node"):
        return "internal"
    last = session.last_address.channel if session.last_address else None
    if kind == "group":
        return session.channel or session.key.channel or "unknown"
    return last or channel_of(session.key, session) or "unknown"


def _known_channel(channel: str) -> str | None:
    """The channel of a row; None for internal work and where no channel is known."""
    return None if channel in ("internal", "unknown") else channel


def tool_row(
    session: Session,
    *,
    caller_agent_id: str | None,
    model: str,
    window: int,
    transcript: Path | None,
    messages: list[Any] | None = None,
    budget: BudgetRow | None = None,
    agent_gone: bool = False,
) -> Row:
    address = session.last_address
    context = msgspec.to_builtins(address) if address else None
    if context:
        context.pop("threadId", None)
    return Row(
        key=session.key.display(caller_agent_id),
        kind=session.key.kind,
        model=model,
        updated=_readable(session.updated_at),
        delivery_context=context,
        transcript_path=str(transcript) if transcript else None,
        messages=messages,
        **row_facts(session, window=window, budget=budget, agent_gone=agent_gone),
    )


def _readable(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%a %Y-%m-%d %H:%M} UTC"


def is_unreadable(entry: Entry) -> bool:
    """Whether it stands for an entry whose stored form is damaged."""
    return entry.note is not None and entry.note.get("kind") == "unreadable"


UNREADABLE = "[A message stood here. Its stored form is damaged and cannot be read; crossclaw doctor names it.]"


def stored_message(entry: Entry) -> dict[str, Any]:
    """A message as it is stored, with its entry's id and time. What the gateway told the session's own model
    about it is left out."""
    if is_unreadable(entry):
        said = {"unreadable": True, "bytes": entry.size, "timestamp": entry.at}
        return {"id": entry.entry_id, "role": "note", **said}
    assert entry.message is not None
    message: dict[str, Any] = msgspec.json.decode(encode_message(shown_message(entry.message)))
    message.setdefault("timestamp", entry.at)
    return {"id": entry.entry_id, **message}
