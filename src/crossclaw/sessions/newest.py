"""find_newest: the newest message of a transcript that is of the wanted kind."""

from collections.abc import Callable
from typing import TypeVar

from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger

LOOK_BACK = 50  # messages among which it is looked for: those that came after it are few

T = TypeVar("T")


async def find_newest(
    ledger: Ledger, session_id: str, wanted: Callable[[Entry], T | None]
) -> T | None:
    """What `wanted` makes of it; None of an entry is: not this one."""
    entries = await ledger.list_entries(
        session_id, limit=LOOK_BACK, tool_results=False, notes=False
    )
    made = (wanted(entry) for entry in reversed(entries))
    return next((each for each in made if each is not None), None)
