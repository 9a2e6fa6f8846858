"""Sight: which sessions somebody may see, as data. Reads of the ledger take it into their query, so
that rows, counts, order and limits know of nothing else."""

import msgspec


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever is given must hold; a sight without anything sees everything."""

    agents: tuple[str, ...] | None = None
    """Sessions of these agents; `*` in a name stands for any letters."""
    key: str | None = None
    """This session alone."""
    spawned_by: str | None = None
    """What this session spawned itself."""
    trees: tuple[frozenset[str], ...] = ()
    """For each: one of these sessions, or something below one of them."""
