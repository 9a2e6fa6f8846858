"""Continuation: when the output limit cuts a reply, the model is asked to go on, and the pieces
become one reply.

Each piece is stored as it arrives, as a note that nobody shows; the message that ends the series
holds all of them and is stored, shown and delivered as one. A crash in between repeats at most the
piece in flight: what was stored is read again, and the model goes on behind it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.providers.calls import RAW

# Follow-up requests for one reply. Six times the usual limit is some fifty thousand words' worth of
# tokens; a model that is cut more often than that repeats itself.
CONTINUATIONS_MAX = 5

STILL_CUT = (
    f"\n\n[The reply is longer than {CONTINUATIONS_MAX + 1} messages of the model; it ends here.]"
)

CUT_CALL = "(cut by the output limit) "
"""Put before the arguments of a call that the limit cut: so the reason is seen wherever they are
shortened."""

_PIECE = "reply-piece"


def piece_entry(entry_id: str, message: AssistantMessage) -> NewEntry:
    note = {"kind": _PIECE, "message": msgspec.to_builtins(message)}
    return NewEntry(entry_id=entry_id, note=note, type="note")


def piece_of(entry: Entry) -> AssistantMessage | None:
    if entry.note is None or entry.note.get("kind") != _PIECE:
        return None
    return msgspec.convert(entry.note["message"], AssistantMessage)


def open_pieces(entries: Sequence[Entry], run_id: str) -> list[AssistantMessage]:
    """The stored pieces of the message that a run is still writing."""
    pieces: list[AssistantMessage] = []
    for entry in reversed(entries):
        if entry.run_id != run_id:
            continue
        if entry.message is not None:
            break
        if (piece := piece_of(entry)) is not None:
            pieces.append(piece)
    return pieces[::-1]


def joined(pieces: Sequence[AssistantMessage], last: AssistantMessage) -> AssistantMessage:
    """One message made of all pieces: thinking first, text without a seam, then calls. Signatures
    of thinking are left out: they are valid only for the message as it was."""
    if not pieces:
        return last
    blocks = [block for message in (*pieces, last) for block in message.blocks]
    thoughts: list[AssistantBlock] = [
        Thinking(block.thinking)
        for block in blocks
        if isinstance(block, Thinking) and block.thinking
    ]
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls = [block for block in blocks if isinstance(block, ToolUse)]
    content = [*thoughts, *([Text(text)] if text else []), *calls]
    usage = _total([message.usage for message in (*pieces, last)])
    return msgspec.structs.replace(last, content=content, usage=usage)


def with_cut_call(answer: AssistantMessage) -> AssistantMessage:
    """The answer, whose cut-off call is made unreadable so that it does not run: half of its
    arguments may look whole and mean something else. Only the last block of a cut message can be
    one."""
    last = answer.blocks[-1] if answer.blocks else None
    if answer.stop_reason != "max_tokens" or not isinstance(last, ToolUse):
        return answer
    written = last.input.get(RAW) or msgspec.json.encode(last.input).decode()
    cut = msgspec.structs.replace(last, input={RAW: f"{CUT_CALL}{written}"})
    return msgspec.structs.replace(answer, content=[*answer.blocks[:-1], cut])


def cut_call(answer: AssistantMessage) -> ToolUse | None:
    """The call in which the output limit cut the message, if any."""
    last = answer.blocks[-1] if answer.blocks else None
    return last if answer.stop_reason == "max_tokens" and isinstance(last, ToolUse) else None


def is_empty(answer: AssistantMessage) -> bool:
    """Whether the answer has neither text nor a call: all its tokens went into thinking, or it had
    nothing to say."""
    return not answer.tool_calls and not answer.text.strip()


def _total(usages: Iterable[Usage | None]) -> Usage | None:
    counted = [usage for usage in usages if usage is not None]
    if not counted:
        return None
    total = sum(counted[1:], counted[0])
    return msgspec.structs.replace(total, filled=counted[-1].window)
