"""What a call that failed has cost, where the service did not say: counted from its request and from the words heard."""

from collections.abc import Mapping
from typing import Any

from crossclaw.domain.messages import Usage
from crossclaw.providers.contract import ModelPiece, TellPiece, TextPiece, ThinkingPiece, ToolPiece

CHARS_A_TOKEN = 4
PICTURE_CHARS = 6_400  # as much as the 1,600 tokens that a picture of the usual size counts


class HeardChars:
    """Counts the characters of an answer as they pass."""

    def __init__(self, tell: TellPiece) -> None:
        self._tell = tell
        self.said = 0

    def __call__(self, piece: ModelPiece) -> None:
        match piece:
            case TextPiece(text=text) | ThinkingPiece(thinking=text) | ToolPiece(name=text):
                self.said += len(text)
        self._tell(piece)


def estimated_usage(params: Mapping[str, Any], said_chars: int) -> Usage:
    """The estimated usage, if the service did not count: what it must have read and has said."""
    return Usage(input=_chars(params) // CHARS_A_TOKEN, output=said_chars // CHARS_A_TOKEN + 1)


def _chars(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if not value.startswith("data:") else PICTURE_CHARS
    if isinstance(value, dict):
        return sum(
            PICTURE_CHARS if name == "data" else _chars(part) for name, part in value.items()
        )
    return sum(map(_chars, value)) if isinstance(value, list | tuple) else 4
