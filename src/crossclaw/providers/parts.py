"""Parts of a conversation as several services want them: text, results, pictures."""

from collections.abc import Iterable, Sequence

from crossclaw.domain.messages import AssistantBlock, Document, Image, Text, Thinking
from crossclaw.domain.texts import NO_OUTPUT
from crossclaw.providers.contract import Part, ToolReturn

NO_WORDS = "(no words)"
NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's own placeholder for the signature of another model's call
(ai.google.dev/gemini-api/docs/thought-signatures)."""


def without_blank_texts(content: Iterable[Part]) -> list[Part]:
    """The parts without blank texts, which most services refuse."""
    return [part for part in content if not isinstance(part, Text) or part.text.strip()]


def said(content: Sequence[AssistantBlock]) -> str:
    return "".join(block.text for block in content if isinstance(block, Text))


def result_words(result: ToolReturn, between: str = "\n") -> str:
    """A result as text, for services that have no field for errors and accept no empty result."""
    words = between.join(part.text for part in result.content if isinstance(part, Text))
    return f"Error: {words}" if result.is_error else words or NO_OUTPUT


def pictures(result: ToolReturn) -> list[Image]:
    return [part for part in result.content if isinstance(part, Image)]


def media_type(part: Image | Document) -> str:
    return part.source.media_type or "image/png"


def picture_url(image: Image) -> str:
    return image.source.url or inline(image)


def inline(part: Image | Document) -> str:
    return f"data:{media_type(part)};base64,{part.source.data}"


def with_thought(thinking: Thinking | None, text: str) -> list[AssistantBlock]:
    """The thinking, then the text, as far as there are any."""
    words: list[AssistantBlock] = [Text(text)] if text else []
    return [thinking, *words] if thinking else words
