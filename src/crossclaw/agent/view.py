"""The view: a total function from a transcript's entries to input that every model accepts.

Whatever crashed when, whatever came between a call and its result: the first turn is the user's,
turns alternate, every tool_use is answered exactly once in the turn after it, ids are unique, and
no text is empty. Thinking goes back only to the model that wrote it, and only after the same
beginning (system prompt, tools, what a compaction left): services refuse it otherwise. A view only
grows at its end until the next compaction. The history is not changed; this is only how it is
shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from typing import Any, NamedTuple, TypeVar

import msgspec

from crossclaw.agent.continuation import piece_of
from crossclaw.agent.origin import runtime_words, unmarked, with_origin, with_plain_names
from crossclaw.agent.session_files import FilesNote, read_files_note
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolResultMessage,
    ToolUse,
    UserMessage,
    without_state,
)
from crossclaw.domain.sessions import Entry
from crossclaw.providers.calls import plain_letters
from crossclaw.providers.contract import AssistantTurn, Part, ToolReturn, Turn, UserTurn

INTERRUPTED = "No result: the call was interrupted, and nobody knows how far it came."
CLEARED = "[This old result was left out to make room. Call the tool again if you need it.]"
NOT_SHOWN = "(The conversation before this is not shown.)"
GO_ON = "(Please go on.)"
CUT = (
    "(The length limit cut your message off here. Go on exactly where it stopped; repeat nothing.)"
)
NO_WORDS = "(no text)"
REFUSED_PICTURE = (
    "[A picture or file stood here; the model's service refused it, so it is left out.]"
)
REFUSED = "[A message stood here; the model's service refused it, so it is left out.]"
P = TypeVar("P", Text | Image, Part)
ID_CHARS_MAX = 40  # of a call; more is refused by some providers
_SUFFIX_CHARS = 6
NAME_CHARS_MAX = 64  # of a tool


class ThinkingOrigin(NamedTuple):
    """Whose thinking may be shown: its signature is invalid for another model, and for the same one
    after another beginning."""

    provider: str
    model: str
    beginning: str = ""
    """A digest of everything before the conversation."""
    snapshot: str = ""
    """Which state of the workspace's files the prompt has: later changes are said in the
    conversation."""


class _Result(NamedTuple):
    content: Any
    is_error: bool


class Prefix(msgspec.Struct, frozen=True):
    """A view of the entries up to `seq`. Nothing that comes later changes it: it ends where no call
    waits for a result, or where a later run has begun."""

    seq: int = 0
    turns: tuple[Turn, ...] = ()
    ids: frozenset[str] = frozenset()
    cleared_through: int = 0
    """Tool results up to this seq are left out, except pinned ones."""
    pinned: frozenset[int] = frozenset()
    without_pictures: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    """Messages that a model has refused as a whole; for those above, only their pictures."""
    pictures: bool = False
    """Whether the view contains pictures."""
    context: str | None = None
    """The context that a run was last given; it is not repeated."""


NOTHING_YET = Prefix()


def build_view(
    entries: Sequence[Entry],
    prefix: Prefix = NOTHING_YET,
    thinking_origin: ThinkingOrigin | None = None,
) -> list[Turn]:
    """Legal model input from these entries, which follow the prefix."""
    turns = list(extend_prefix(entries, prefix, thinking_origin).turns)
    if turns and isinstance(turns[0], AssistantTurn):
        turns.insert(0, UserTurn([], [Text(NOT_SHOWN)]))
    if not turns or isinstance(turns[-1], AssistantTurn):
        turns.append(UserTurn([], [Text(GO_ON)]))
    return turns


def extend_prefix(
    entries: Sequence[Entry], prefix: Prefix, thinking_origin: ThinkingOrigin | None = None
) -> Prefix:
    """A prefix that covers these entries as well. They must be settled (see `Prefix`)."""
    if not entries:
        return prefix
    shown = list(_shown(entries, prefix, thinking_origin.snapshot if thinking_origin else ""))
    results = _pair([message for message, _ in shown])
    turns, ids, context = list(prefix.turns), set(prefix.ids), prefix.context
    for position, (message, to_be_continued) in enumerate(shown):
        if isinstance(message, AssistantMessage):
            _add_assistant(turns, ids, _thought_by(thinking_origin, message), results, position)
        elif isinstance(message, UserMessage):
            _add_user(turns, [], _user_content(message, context))
            context = (message.runtime and message.runtime.context) or context
        elif isinstance(message, FilesNote):
            _add_user(turns, [], [*message.texts])
        if to_be_continued:
            _add_user(turns, [], [Text(CUT)])
    return msgspec.structs.replace(
        prefix,
        seq=entries[-1].seq,
        turns=tuple(turns),
        ids=frozenset(ids),
        context=context,
        pictures=prefix.pictures or any(has_pictures(message) for message, _ in shown),
    )


def with_note(prefix: Prefix, words: str) -> Prefix:
    """The prefix with the gateway's own words after it, marks included."""
    turns = list(prefix.turns)
    _add_user(turns, [], [Text(words)])
    return msgspec.structs.replace(prefix, turns=tuple(turns))


def _shown(
    entries: Sequence[Entry], prefix: Prefix, snapshot: str
) -> Iterator[tuple[Message | FilesNote, bool]]:
    """The messages, and the pieces of an unfinished one that the output limit cut; the flag is True
    for a piece after which the model was or is asked to go on. What a run is told about files as it
    begins is placed in front of its message."""
    whole_later: set[str | None] = set()
    later: set[str | None] = set()
    """Runs that have a later message."""
    shown: list[tuple[Message | FilesNote, bool]] = []
    note, note_run_id = None, None
    for entry in reversed(_as_they_were_heard(entries)):
        message = entry.message
        if note is not None and not (
            isinstance(message, UserMessage) and entry.run_id == note_run_id
        ):
            shown.append((note, False))
            note = None
        if message is not None:
            cleared = entry.seq <= prefix.cleared_through and entry.seq not in prefix.pinned
            message = _without_results(message) if cleared else message
            shown.append((_without_refused(message, entry.seq, prefix), False))
            later |= {entry.run_id} if entry.run_id else set()
            if isinstance(message, AssistantMessage) and message.content:
                whole_later.add(entry.run_id)
        elif (found := read_files_note(entry, snapshot)) is not None:
            note, note_run_id = found, entry.run_id
        elif entry.run_id not in whole_later and (piece := piece_of(entry)) is not None:
            shown.append((piece, not later))
    return reversed(shown if note is None else [*shown, (note, False)])


def _as_they_were_heard(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries in the order in which the model saw them. A report that was stored while the
    model was answering comes after its answer: the request did not have it, and must stay as it
    was."""
    ordered: list[Entry] = []
    for entry in entries:
        ordered.append(entry)
        message = entry.message
        after = message.after if isinstance(message, AssistantMessage) else None
        if after is None or after == entry.seq - 1:
            continue
        late = [e for e in ordered if e.seq > after and isinstance(e.message, UserMessage)]
        if late:
            ordered = [*(e for e in ordered if e not in late), *late]
    return ordered


def _without_refused(message: Message, seq: int, prefix: Prefix) -> Message:
    """The message with a note in place of what a service has refused: it would refuse every later
    request too."""
    if seq in prefix.left_out and isinstance(message, UserMessage):
        return msgspec.structs.replace(message, content=REFUSED)
    if seq not in prefix.without_pictures or not isinstance(message.content, list):
        return message
    blocks = [Text(REFUSED_PICTURE) if is_picture(block) else block for block in message.content]
    return msgspec.structs.replace(message, content=blocks)


def has_pictures(message: Message | FilesNote | None) -> bool:
    content = None if message is None else message.content
    return isinstance(content, list) and any(map(is_picture, content))


def is_picture(block: object) -> bool:
    """Whether a block is a picture or a file, also in the form in which a tool's result is
    stored."""
    return isinstance(block, Image | Document) or (
        isinstance(block, dict) and block.get("type") == "image"
    )


def _without_results(message: Message) -> Message:
    if isinstance(message, ToolResultMessage):
        short = isinstance(message.content, str) and len(message.content) <= len(CLEARED)
        return message if short else msgspec.structs.replace(message, content=CLEARED)
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        blocks = [
            msgspec.structs.replace(block, content=CLEARED)
            if isinstance(block, ToolResult)
            else block
            for block in message.content
        ]
        return msgspec.structs.replace(message, content=blocks)
    return message


def _thought_by(
    thinking_origin: ThinkingOrigin | None, message: AssistantMessage
) -> AssistantMessage:
    """The message without thinking that its reader cannot or may not read. A signature is valid
    only after the beginning it was made after; other state of the same model is always kept."""
    if thinking_origin is None or thinking_origin[:2] != (message.provider, message.model):
        return msgspec.structs.replace(message, content=without_state(message.blocks))
    same = thinking_origin.beginning == (message.beginning or "")
    # A turn that thinks must begin with it: an unsealed beginning takes the rest along.
    readable = bool(message.blocks) and _is_sealed(message.blocks[0])
    kept = [
        block
        for block in message.blocks
        if not isinstance(block, Thinking)
        or (readable and _is_sealed(block) and (same or not (block.signature or block.redacted)))
    ]
    return msgspec.structs.replace(message, content=kept)


def _is_sealed(block: Text | Thinking | ToolUse) -> bool:
    return isinstance(block, Thinking) and block.is_sealed


def _unthinking(turn: AssistantTurn) -> AssistantTurn:
    if not any(isinstance(block, Thinking) for block in turn.content):
        return turn
    return AssistantTurn([block for block in turn.content if not isinstance(block, Thinking)])


def _pair(messages: Sequence[Message | FilesNote]) -> dict[tuple[int, str], _Result]:
    """Which result belongs to which call: the latest call of that id before it that has none yet. A
    result without a call is left out, and so is a second one."""
    open_calls: dict[str, int] = {}
    results: dict[tuple[int, str], _Result] = {}
    for position, message in enumerate(messages):
        if isinstance(message, FilesNote):
            continue
        if isinstance(message, AssistantMessage):
            open_calls.update((call.id, position) for call in message.tool_calls)
            continue
        for call_id, result in _results_in(message):
            asked_at = open_calls.pop(call_id, None)
            if asked_at is not None:
                results[asked_at, call_id] = result
    return results


def _results_in(message: UserMessage | ToolResultMessage) -> Iterable[tuple[str, _Result]]:
    if isinstance(message, ToolResultMessage):
        yield message.tool_use_id, _Result(message.content, message.is_error)
    elif not isinstance(message.content, str):
        for block in message.content:
            if isinstance(block, ToolResult):
                yield block.tool_use_id, _Result(block.content, block.is_error)


def _add_assistant(
    turns: list[Turn],
    ids: set[str],
    message: AssistantMessage,
    results: dict[tuple[int, str], _Result],
    position: int,
) -> None:
    content: list[Text | Thinking | ToolUse] = []
    returns: list[ToolReturn] = []
    seen: set[str] = set()
    for block in message.blocks:
        if isinstance(block, Text) and not block.text.strip():
            continue
        if isinstance(block, ToolUse):
            if block.id in seen:
                continue
            seen.add(block.id)
            unique = _unique(block.id, ids)
            result = results.get((position, block.id), _Result(INTERRUPTED, True))
            returns.append(ToolReturn(unique, _result_content(result.content), result.is_error))
            block = msgspec.structs.replace(block, id=unique, name=_plain_name(block.name))
        content.append(block)
    if not any(isinstance(block, Text | ToolUse) for block in content):
        return  # a failed or silent turn; thinking alone is no turn
    if turns and isinstance(turns[-1], AssistantTurn):
        # What stood there stays as it was; what follows it was thought behind words that are gone.
        turns[-1] = AssistantTurn(
            [*turns[-1].content, *_unthinking(AssistantTurn(content)).content]
        )
    else:
        turns.append(AssistantTurn(content))
    if returns:
        _add_user(turns, returns, [])


def _unique(call_id: str, ids: set[str]) -> str:
    """A call id that is unique in the whole conversation, as providers demand and some models do
    not deliver. Ids stay distinct also where only plain letters are allowed."""
    base = call_id or "call"
    if len(base) > ID_CHARS_MAX - _SUFFIX_CHARS:
        digest = blake2s(base.encode("utf-8", "replace"), digest_size=8).hexdigest()
        base = f"call_{digest}"
    unique, number = base, 1
    while plain_letters(unique) in ids:
        number += 1
        unique = f"{base}_{number}"
    ids.add(plain_letters(unique))
    return unique


def _plain_name(name: str) -> str:
    """A tool name that providers accept: a model may call a tool that does not exist, by any
    name."""
    return plain_letters(name)[:NAME_CHARS_MAX] or "unknown"


def _add_user(turns: list[Turn], results: list[ToolReturn], content: Sequence[Part]) -> None:
    if turns and isinstance(turns[-1], UserTurn):
        last = turns[-1]
        turns[-1] = UserTurn([*last.results, *results], [*last.content, *content])
    elif results or content:
        turns.append(UserTurn(results, [*content]))


def _user_content(message: UserMessage, context_before: str | None) -> list[Part]:
    runtime = [runtime_words(message.runtime, context_before)] if message.runtime else []
    if isinstance(message.content, str):
        blocks: list[Part] = [Text(message.content)]
    else:
        blocks = [block for block in message.content if not isinstance(block, ToolResult)]
        if not blocks and message.content:
            return []  # only results: they stand with their calls
    return [*runtime, *with_origin(message.provenance, _plain(blocks))]


def _plain(blocks: Sequence[P]) -> list[P | Text]:
    """The words and pictures of people, without blank texts and without the gateway's marks."""
    shown: list[P | Text] = [
        Text(unmarked(block.text)) if isinstance(block, Text) else with_plain_names(block)
        for block in blocks
        if not isinstance(block, Text) or block.text.strip()
    ]
    return shown or [Text(NO_WORDS)]


def _result_content(content: Any) -> list[Text | Image]:
    if isinstance(content, str):
        return _plain([Text(content)])
    try:
        blocks = msgspec.convert(content, list[Text | Image])
    except msgspec.ValidationError:
        blocks = [Text(msgspec.json.encode(content).decode())]
    return _plain(blocks)
