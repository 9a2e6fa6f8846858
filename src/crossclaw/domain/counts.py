"""Counts: a number with its noun, as people say it."""


def count_of(number: int, noun: str, several: str | None = None) -> str:
    """The number with its noun: `1 transcript`, `2,000 transcripts`."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
