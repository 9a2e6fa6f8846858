"""Texts that are shown in little room."""


def with_ellipsis(text: str, chars_max: int) -> str:
    """What is too long ends with an ellipsis, which counts."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
