"""Lengths: limits for every stored text of a job, so that no job can be too large to be shown."""

from collections.abc import Iterator

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import JobSpec

TEXT_CHARS_MAX = 1_000  # of any that is not named below: ids, models, addresses
EXPRESSION_CHARS_MAX = 500  # the longest sensible one lists every minute of an hour
WORDS_CHARS_MAX = 100_000  # what a run is told; a long brief has a tenth of it
CHARS_MAX = {
    "name": 200,
    "description": 4_000,
    "expr": EXPRESSION_CHARS_MAX,
    "tz": 100,
    "at": 100,
    "text": WORDS_CHARS_MAX,
    "message": WORDS_CHARS_MAX,
}


def check_lengths(spec: JobSpec) -> None:
    for name, text in _texts(spec):
        most = CHARS_MAX.get(name, TEXT_CHARS_MAX)
        if len(text) > most:
            raise Invalid(f"{name} has at most {most} characters, not {len(text)}")


def _texts(part: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, str):
            yield field.name, value
        elif isinstance(value, msgspec.Struct):
            yield from _texts(value)
