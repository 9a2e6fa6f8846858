"""Memory: what a model sees of the conversation before its last compaction.

First the messages that stay as they were (the first request, pins), then the summary, then what the
session has under way, read from the ledger and not from the summary: that a child works or a message
awaits its answer cannot be forgotten; last the request that is being worked on, should it be older
than what is kept. All of it stands in the user's role at the beginning, where it changes seldom and a
prompt cache can keep it.
"""

import msgspec

from crossclaw.agent.origin import marked
from crossclaw.agent.view import Prefix, extend_prefix
from crossclaw.domain.compactions import Compaction, Obligation, compaction_of
from crossclaw.domain.messages import (
    AssistantMessage,
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

# A kept message longer than this would fill small windows for ever; it is shown without its rest.
KEPT_CHARS_MAX = 16_000

_ABOUT = {
    "child": "the sub-agent {name} is at work; its end will be told here. Task: {about}",
    "send": "a message of yours to {name} is not yet settled: {about}",
    "timer": "a timer ({name}) is set for {about}",
}


class Memory:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def begin(self, run: Run, newest: Entry | None) -> Prefix:
        """What the view of a run's session begins with, after its newest compaction; empty before the
        first one."""
        if newest is None:
            return Prefix()
        compaction, session_id = compaction_of(newest), run.session_id
        pinned = await self._ledger.list_pinned(session_id)
        obligations = await self._ledger.list_obligations(run.key)
        older = [pin for pin in pinned if pin.seq < compaction.first_kept_seq]
        first = await self._find(session_id, compaction.first_request)
        requests = sorted({compaction.asked, *compaction.asked_with})
        asked = [entry for seq in requests for entry in await self._find(session_id, seq)]
        kept = {entry.seq: entry for entry in [*older, *first] if entry.seq not in requests}
        note = [*_summary(compaction), *_under_way(obligations)]
        shown = [
            *(_alone(kept[seq]) for seq in sorted(kept)),
            *([_note("\n\n".join(note))] if note else []),
            *map(_alone, asked),
        ]
        return _beginning(compaction, shown, frozenset(pin.seq for pin in pinned))

    async def _find(self, session_id: str, seq: int) -> list[Entry]:
        if not seq:
            return []
        return await self._ledger.list_entries(session_id, limit=1, after=seq - 1, before=seq + 1)


def _beginning(compaction: Compaction, shown: list[Entry], pinned: frozenset[int]) -> Prefix:
    return msgspec.structs.replace(
        extend_prefix(shown, Prefix()),
        seq=max(0, compaction.first_kept_seq - 1),
        cleared_through=compaction.cleared_through,
        pinned=pinned,
    )


def _note(words: str) -> Entry:
    message = UserMessage(words)
    return Entry(session_id="", seq=0, entry_id="", at=0, type="message", message=message)


def _summary(compaction: Compaction) -> list[str]:
    if compaction.summary is None:
        return []
    about = (
        f"the {compaction.summarized} messages before this point in short. It is information, not a "
        "request"
    )
    return [marked("summary", compaction.summary, about)]


def _under_way(obligations: list[Obligation]) -> list[str]:
    if not obligations:
        return []
    lines = [
        _ABOUT[each.kind].format(name=each.name, about=" ".join(each.about.split()))
        for each in obligations
    ]
    return [
        "\n- ".join(["[What this session has under way now, as the gateway knows it:", *lines])
        + "]"
    ]


def _alone(entry: Entry) -> Entry:
    """A message as it was, without calls and results, whose other halves are not shown."""
    message = entry.message
    return entry if message is None else msgspec.structs.replace(entry, message=_words(message))


def _words(message: Message) -> Message:
    if isinstance(message, ToolResultMessage):
        kept = f"kept result of {message.tool_name}"
        return UserMessage(marked(kept, _bounded(words_of(message))))
    if isinstance(message.content, str):
        return msgspec.structs.replace(message, content=_bounded(message.content))
    blocks = [
        Text(_bounded(block.text)) if isinstance(block, Text) else block
        for block in message.content
        if not isinstance(block, Thinking | ToolUse | ToolResult)
    ]
    if isinstance(message, AssistantMessage):
        return AssistantMessage([block for block in blocks if isinstance(block, Text)])
    return UserMessage([*blocks], message.timestamp, message.provenance)


def _bounded(text: str) -> str:
    if len(text) <= KEPT_CHARS_MAX:
        return text
    return f"{text[:KEPT_CHARS_MAX]}\n[{len(text) - KEPT_CHARS_MAX} more characters of this message are left out]"
