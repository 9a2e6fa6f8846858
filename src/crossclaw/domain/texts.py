"""Texts: shortening them, and making them from other values."""

from typing import Any

import msgspec

NO_OUTPUT = "(no output)"  # what a model reads where nothing was said


def text_or_json(value: Any) -> str:
    """A text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def with_ellipsis(text: str, chars_max: int) -> str:
    """The text; one that is too long ends with an ellipsis, which counts."""
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"


def without_middle(text: str, chars_max: int, gap: str) -> str:
    """The text; one that is too long keeps its two ends, with `gap` and the number of characters between them."""
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]}{gap.format(len(text) - 2 * half)}{text[-half:]}"


def short_count(number: int) -> str:
    """A short number: 1234567 is 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
