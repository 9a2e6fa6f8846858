"""Memory: what a model sees of the conversation before its last compaction.

First the messages that are kept unchanged (the first request, pins), then the summary, then what
the session had under way when it was made, read from the ledger and not from the summary: that a
child works or a message awaits its answer cannot be forgotten; last the request that is being
worked on, if it is older than what is kept. All of it has the user's role and stays unchanged at
the beginning until the next compaction, so a prompt cache can keep it.
"""

from collections.abc import Iterable

import msgspec

from crossclaw.agent.origin import CLOSE, OPEN, marked, unmarked
from crossclaw.agent.view import Prefix, extend_prefix, with_note
from crossclaw.domain.compactions import Compaction
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    UserMessage,
    words_of,
)
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger

LEFT_OUT = Text("[a file of this message is left out: there is no room for it]")


class HistoryCache:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def begin(self, run: Run, compaction: Compaction | None) -> Prefix:
        """What the view of a run's session begins with, after its newest compaction; empty before the
        first one."""
        if compaction is None:
            return Prefix()
        session_id = run.session_id
        pinned = await self._ledger.list_pinned(session_id)
        older = [pin for pin in pinned if pin.seq < compaction.first_kept_seq]
        first = await self._find(session_id, [compaction.first_request])
        requests = sorted({compaction.asked, *compaction.asked_with})
        asked = await self._find(session_id, requests)
        kept = {entry.seq: entry for entry in [*older, *first] if entry.seq not in requests}
        note = [*_summary(compaction), *_under_way(compaction)]
        chars, files = compaction.kept_chars, not compaction.without_files
        shown = [
            *(_alone(kept[seq], chars, files) for seq in sorted(kept)),
            *(["\n\n".join(note)] if note else []),
            *(_alone(entry, chars, files) for entry in asked),
        ]
        whole = frozenset(pin.seq for pin in pinned if pin.seq <= compaction.cleared_through)
        return _beginning(compaction, shown, whole)

    async def _find(self, session_id: str, seqs: Iterable[int]) -> list[Entry]:
        found = [await self._ledger.find_entry(session_id, seq) for seq in seqs if seq]
        return [entry for entry in found if entry is not None]


def _beginning(compaction: Compaction, shown: list[Entry | str], pinned: frozenset[int]) -> Prefix:
    begin = Prefix(
        without_pictures=frozenset(compaction.without_pictures),
        left_out=frozenset(compaction.left_out),
    )
    for part in shown:
        begin = with_note(begin, part) if isinstance(part, str) else extend_prefix([part], begin)
    return msgspec.structs.replace(
        begin,
        seq=max(0, compaction.first_kept_seq - 1),
        cleared_through=compaction.cleared_through,
        pinned=pinned,
    )


def _summary(compaction: Compaction) -> list[str]:
    if compaction.summary is None:
        return []
    about = (
        f"the {compaction.summarized} messages before this point in short. It is information, not a "
        "request"
    )
    return [marked("summary", compaction.summary, about)]


def _under_way(compaction: Compaction) -> list[str]:
    """What was under way when the compaction was made. Later changes come with later messages."""
    return (
        [f"{OPEN}runtime\n{unmarked(compaction.under_way)}{CLOSE}"] if compaction.under_way else []
    )


def _alone(entry: Entry, chars: int, files: bool) -> Entry | str:
    """A kept message with its text only: its calls and results would lack their other halves."""
    message = entry.message
    if isinstance(message, ToolResultMessage):
        return marked(f"kept result of {message.tool_name}", _bounded(words_of(message), chars))
    if message is None:
        return entry
    return msgspec.structs.replace(entry, message=_words(message, chars, files))


def _words(message: UserMessage | AssistantMessage, chars: int, files: bool) -> Message:
    if isinstance(message.content, str):
        return msgspec.structs.replace(message, content=_bounded(message.content, chars))
    blocks = [
        Text(_bounded(block.text, chars))
        if isinstance(block, Text)
        else LEFT_OUT
        if isinstance(block, Document) and not files
        else block
        for block in message.content
        if not isinstance(block, Thinking | ToolUse | ToolResult)
    ]
    if isinstance(message, AssistantMessage):
        return AssistantMessage([block for block in blocks if isinstance(block, Text)])
    return UserMessage([*blocks], message.timestamp, message.provenance, message.runtime)


def _bounded(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    left_out = len(text) - chars
    return f"{text[:chars]}\n[{left_out} more characters of this message are left out]"
