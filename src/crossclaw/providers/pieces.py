"""Pieces: splits a finished message into words, for providers that have it whole from the start."""

import re
from collections.abc import Iterable, Iterator

from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Text,
    Thinking,
    ToolUse,
    Usage,
    words_of,
)
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    UserTurn,
)

_WORD = re.compile(r"\s*\S+\s*|\s+")


def split_words(text: str) -> list[str]:
    """The words of a text with their white space: joined they are the text again."""
    return _WORD.findall(text)


def pieces_of(blocks: Iterable[AssistantBlock]) -> Iterator[ModelPiece]:
    for block in blocks:
        match block:
            case Text(text=text):
                yield from map(TextPiece, split_words(text))
            case Thinking(thinking=thinking):
                yield from map(ThinkingPiece, split_words(thinking))
            case ToolUse(id=call_id, name=name):
                yield ToolPiece(call_id, name)


def count_usage(request: ModelRequest, blocks: list[AssistantBlock]) -> Usage:
    """The usage of an answer, estimated: one word counts as one token, and a turn that was read
    before as one. Coarse, but the same every time, and no dearer in a long conversation."""
    read = _count(request.system) + sum(_count(text) for text in _last_words(request))
    return Usage(
        input=read + len(request.turns) - 1, output=_count(words_of(AssistantMessage(blocks)))
    )


def _last_words(request: ModelRequest) -> Iterator[str]:
    match request.turns[-1]:
        case UserTurn(results=results, content=content):
            returned = [part for result in results for part in result.content]
            yield from (part.text for part in [*returned, *content] if isinstance(part, Text))
        case AssistantTurn(content=content):
            yield words_of(AssistantMessage(content))


def _count(text: str) -> int:
    return len(text.split())
