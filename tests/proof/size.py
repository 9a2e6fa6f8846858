"""How much of a proof is run: all of it by `make proof`, an even sample by `make test`."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("CROSSCLAW_PROOF") == "full"
EXAMPLES_FULL = 10_000  # of a property: as many random histories as no model may be hurt by


def examples(sample: int, full: int = EXAMPLES_FULL) -> int:
    """How many a property is tried with."""
    return full if FULL else sample


def share(cases: Iterable[T], stride: int) -> Iterator[T]:
    """All cases, or every `stride`-th: a stride that is prime walks through all combinations."""
    return islice(cases, 0, None, 1 if FULL else stride)
