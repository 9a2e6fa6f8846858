"""How many pictures and documents one request carries: services refuse more, and would refuse every
later request too.

They are counted from the oldest on in shares of a fixed size, and the last two shares are shown. So
what is shown changes once a share, not with every message, and a prompt cache holds in between.
"""

from collections.abc import Iterator, Sequence

from crossclaw.domain.messages import Document, Image, Text
from crossclaw.providers.contract import Part, ToolReturn, Turn, UserTurn, in_words

SHARE_CHARS = 9_000_000  # of base64; twice that is below Gemini's 20 MB and Anthropic's 32 MB for a whole request
SHARE_COUNT = 45  # twice that is below the 100 pictures of Anthropic's models with smaller windows
OLDER = Text("[An older picture is left out of this request: there are too many.]")


def within_request(turns: Sequence[Turn]) -> list[Turn]:
    shares = list(_shares(turns))
    if not shares or shares[-1] < 2:
        return list(turns)
    shown = iter([share >= shares[-1] - 1 for share in shares])
    return [_with(turn, shown) if isinstance(turn, UserTurn) else turn for turn in turns]


def _shares(turns: Sequence[Turn]) -> Iterator[int]:
    """The number of the share that each picture and document belongs to, in their order."""
    share, count, chars = 0, 0, 0
    for turn in turns:
        for part in _parts(turn):
            size = len(part.source.data or "")
            if count and (count == SHARE_COUNT or chars + size > SHARE_CHARS):
                share, count, chars = share + 1, 0, 0
            count, chars = count + 1, chars + size
            yield share


def _parts(turn: Turn) -> Iterator[Image | Document]:
    if isinstance(turn, UserTurn):
        returned: list[Part] = [part for result in turn.results for part in result.content]
        yield from (p for p in [*returned, *turn.content] if isinstance(p, Image | Document))


def _with(turn: UserTurn, shown: Iterator[bool]) -> UserTurn:
    results = [
        ToolReturn(
            each.tool_use_id,
            [p if not isinstance(p, Image) or next(shown) else OLDER for p in each.content],
            each.is_error,
        )
        for each in turn.results
    ]
    return UserTurn(results, [_kept(part, shown) for part in turn.content])


def _kept(part: Part, shown: Iterator[bool]) -> Part:
    if isinstance(part, Text) or next(shown):
        return part
    return OLDER if isinstance(part, Image) else in_words(part)
