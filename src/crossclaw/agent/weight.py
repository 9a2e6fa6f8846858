"""Weight: how many tokens a part of the conversation takes, estimated without a tokenizer.

Four bytes a token is near for European languages and code; a provider's own count is taken if it is
higher.
"""

from collections.abc import Sequence

import msgspec

from crossclaw.agent.view import CLEARED
from crossclaw.domain.attachments import is_recording
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    ToolResultMessage,
    UserMessage,
)
from crossclaw.domain.models import BYTES_A_TOKEN
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import ModelRequest, UserTurn

PDF_BYTES = 40  # of a PDF for a token of its text
FILE_TOKENS_MAX = 50_000  # as much as a file's text is shown
IMAGE_TOKENS = 1_600  # what the services count for a picture of the usual size


def weigh_text(text: str) -> int:
    return len(text) // BYTES_A_TOKEN + 1


def weigh(entry: Entry, cleared_through: int = 0) -> int:
    """Tokens that an entry takes in the view."""
    message = entry.message
    if message is None:
        return entry.size // BYTES_A_TOKEN if entry.type == "note" else 0
    if isinstance(message, ToolResultMessage) and entry.seq <= cleared_through:
        return min(weigh_text(CLEARED), entry.size // BYTES_A_TOKEN)
    if isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return entry.size // BYTES_A_TOKEN  # nearly all: words alone
    images = _images(message)
    size = entry.size - sum(len(image.source.data or "") for image in images)
    return size // BYTES_A_TOKEN + IMAGE_TOKENS * len(images) + _files(message)


def _files(message: UserMessage | ToolResultMessage) -> int:
    """Tokens of the message's files, guessed from their size until a service has counted them: of a
    PDF the smaller part is text."""
    if isinstance(message.content, str) or not isinstance(message, UserMessage):
        return 0
    return sum(
        min(FILE_TOKENS_MAX, block.source.size // (BYTES_A_TOKEN if _is_text(block) else PDF_BYTES))
        for block in message.content
        if isinstance(block, Document) and not is_recording(block)
    )


def _is_text(file: Document) -> bool:
    return file.source.media_type != "application/pdf"


def _images(message: UserMessage | ToolResultMessage) -> list[Image]:
    parts = message.content if isinstance(message.content, list) else []
    found = [part for part in parts if isinstance(part, Image)]
    stored = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    for part in stored:
        try:
            found.append(msgspec.convert(part, Image))
        except msgspec.ValidationError:
            continue  # some JSON that merely looks like one
    return found


def counted(entries: Sequence[Entry], cleared_through: int = 0) -> int:
    """The provider's count of the window after the last answer, plus an estimate of what came
    since. 0 if there is no count since the last compaction."""
    since = 0
    for entry in reversed(entries):
        if entry.type == "compaction":
            return 0
        if isinstance(entry.message, AssistantMessage) and entry.message.usage is not None:
            return entry.message.usage.window + since
        since += weigh(entry, cleared_through)
    return 0


def weigh_request(request: ModelRequest) -> int:
    """Tokens that the model reads. It encodes the whole request, so it is not asked for every
    one."""
    parts = [
        part
        for turn in request.turns
        if isinstance(turn, UserTurn)
        for part in (*turn.content, *(part for result in turn.results for part in result.content))
    ]
    images = [part for part in parts if isinstance(part, Image)]
    carried = [part for part in parts if isinstance(part, Image | Document)]
    size = len(msgspec.json.encode(request)) - sum(len(c.source.data or "") for c in carried)
    return size // BYTES_A_TOKEN + 1 + IMAGE_TOKENS * len(images)
