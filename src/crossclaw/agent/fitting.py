"""Fitting: a request cut to a smaller window, for one answer only.

A fallback may have a far smaller window than the model that it replaces. The conversation is not
compacted for it: that would last, and the overload will not. It is shown the newest turns instead,
with a note that says so.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from crossclaw.agent.origin import CLOSE, OPEN
from crossclaw.agent.weight import IMAGE_TOKENS, weigh_request
from crossclaw.domain.messages import Document, Image, Text
from crossclaw.domain.models import BYTES_A_TOKEN
from crossclaw.domain.texts import without_middle
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelRequest,
    Part,
    ToolReturn,
    Turn,
    UserTurn,
)

LEFT_OUT = f"{OPEN}runtime\nOlder parts of this conversation are left out of this request.{CLOSE}"
SHARE = 0.85  # of the window: the estimate is one
P = TypeVar("P", Text | Image, Part)
SHORT_CHARS = 200  # the least that is left of a text


def fitted(request: ModelRequest, window: int) -> ModelRequest:
    """The request, or as much of its end as fits. It stays legal: it begins with a user's turn, and
    every result follows its call."""
    room = int(window * SHARE) - min(request.output_tokens_max, window // 4)
    if weigh_request(request) <= room:
        return request
    bare = msgspec.structs.replace(request, turns=[])
    left = max(0, room - weigh_request(bare))
    turns = _newest(request.turns, left)
    chars = max(SHORT_CHARS, left * BYTES_A_TOKEN // max(1, len(turns)))
    made = msgspec.structs.replace(request, turns=turns)
    while weigh_request(made) > room and chars >= SHORT_CHARS:
        made = msgspec.structs.replace(request, turns=[_shortened(turn, chars) for turn in turns])
        chars //= 2
    return made


def _newest(turns: Sequence[Turn], tokens: int) -> list[Turn]:
    """The turns from the earliest user message that fits with all that follows; otherwise the last
    user message and what follows from some call on."""
    begins = [n for n, turn in enumerate(turns) if _begins(turn)]
    weights = [_weight(turn) for turn in turns]
    for begin in begins:
        if sum(weights[begin:]) <= tokens:
            return _from_message(turns, begin, begin)
    last = begins[-1] if begins else 0
    calls = [n for n in range(last + 1, len(turns)) if isinstance(turns[n], AssistantTurn)]
    for begin in calls:
        if weights[last] + sum(weights[begin:]) <= tokens:
            return _from_message(turns, last, begin)
    return _from_message(turns, last, calls[-1] if calls else last)


def _from_message(turns: Sequence[Turn], message: int, goes_on: int) -> list[Turn]:
    first = turns[message]
    assert isinstance(first, UserTurn)
    opening = UserTurn([], [Text(LEFT_OUT), *first.content])
    return [opening, *turns[max(goes_on, message + 1) :]]


def _begins(turn: Turn) -> bool:
    return isinstance(turn, UserTurn) and not turn.results


def _weight(turn: Turn) -> int:
    blocks = [*turn.content]
    if isinstance(turn, UserTurn):
        blocks += [block for result in turn.results for block in result.content]
    images = sum(isinstance(block, Image) for block in blocks)
    files = sum(len(b.source.data or "") for b in blocks if isinstance(b, Document))
    plain = [block for block in blocks if not isinstance(block, Image)]
    size = len(msgspec.json.encode(plain)) - files
    return size // BYTES_A_TOKEN + IMAGE_TOKENS * images


def _shortened(turn: Turn, chars: int) -> Turn:
    if isinstance(turn, AssistantTurn):
        return AssistantTurn(
            [Text(_cut(b.text, chars)) if isinstance(b, Text) else b for b in turn.content]
        )
    results = [
        ToolReturn(each.tool_use_id, _cut_all(each.content, chars), each.is_error)
        for each in turn.results
    ]
    return UserTurn(results, _cut_all(turn.content, chars))


def _cut_all(blocks: Sequence[P], chars: int) -> list[P | Text]:
    """The blocks with their texts cut to so many characters. A file is replaced by its text, which
    can be cut."""
    texts = [Text(b.words) if isinstance(b, Document) else b for b in blocks]
    return [Text(_cut(b.text, chars)) if isinstance(b, Text) else b for b in texts]


def _cut(text: str, chars: int) -> str:
    return without_middle(text, chars, "\n[{} characters are left out]\n")
