"""Sight: which sessions somebody may see, as data. Reads of the ledger take it into their query, so
that rows, counts, order and limits know of nothing else."""

import msgspec


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """A set of sessions that somebody may see. Every field that is given must hold; with none, it sees nothing."""

    everything: bool = False
    agents: tuple[str, ...] | None = None
    """Sessions of these agents; `*` in a name stands for any letters."""
    key: str | None = None
    """This session alone."""
    keys: frozenset[str] | None = None
    """These sessions."""
    spawned_by: str | None = None
    """Only sessions that this session spawned itself."""
    partners: "Partners | None" = None
    trees: tuple[frozenset[str], ...] = ()
    """Groups of roots: a session must be one of each group, or below one of them."""


class Partners(msgspec.Struct, frozen=True):
    """A session, those that it was given, those that it has exchanged messages with, and its children."""

    own: str
    given: frozenset[str] = frozenset()


EVERYTHING = Sight(everything=True)
NOTHING = Sight()
