"""Messages found from the end of a transcript: the newest of a kind, and those of a run. Entries have no index by
run, so a run's are read backwards, as far as it reaches; what came after a run of long ago is passed over by its
time."""

from collections.abc import Callable
from typing import TypeVar

from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger

LOOK_BACK = 50  # messages among which it is looked for: those that came after it are few

ENTRIES_A_PAGE = 200  # most runs have fewer, and so it is one read
SLACK_MS = 60_000  # a clock that was set back a little in between

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


async def message_of(ledger: Ledger, run: Run, *, media: bool = False) -> UserMessage | None:
    """The message that a run answers, if wanted with its pictures and files; None if it is not there any more."""
    found = [entry for entry in await entries_of(ledger, run) if _begins(run, entry)]
    for entry in await ledger.with_media(found) if media else found:
        if isinstance(entry.message, UserMessage):
            return entry.message
    return None


async def entries_of(ledger: Ledger, run: Run) -> list[Entry]:
    """A run's entries in order, without the results of tools."""
    found: list[Entry] = []
    before: int | None = None
    while True:
        page = await ledger.list_entries(
            run.session_id, limit=ENTRIES_A_PAGE, before=before, tool_results=False
        )
        own = [entry for entry in page if entry.run_id == run.run_id]
        found[:0] = own
        if len(page) < ENTRIES_A_PAGE or any(_begins(run, entry) for entry in own):
            return found
        if not own and page[0].at < run.created_at - SLACK_MS:
            return found  # its beginning is not there: all of these are older
        before = page[0].seq
        if not own and run.ended_at is not None and page[0].at > run.ended_at + SLACK_MS:
            before = await _first_after(ledger, run.session_id, before, run.ended_at + SLACK_MS)


def _begins(run: Run, entry: Entry) -> bool:
    """Whether a run began with this message: its own, or the summary of too many. One that entered the transcript
    while another run was at work has a name of its own there: its run goes on with a reminder."""
    is_early = run.plan.queue is not None and run.plan.queue.mode == "backlog"
    names = ("early" if is_early else "message", "summary")
    is_named = entry.entry_id in [entry_id_of(name, run.run_id) for name in names]
    return is_named and isinstance(entry.message, UserMessage)


async def _first_after(ledger: Ledger, session_id: str, high: int, at: int) -> int:
    """The number of the first entry that is younger, by bisection below `high`: entries are in the order of time."""
    low = 1
    while low < high:
        middle = (low + high) // 2
        found = await ledger.list_entries(session_id, limit=1, after=middle - 1, forward=True)
        if found and found[0].at <= at:
            low = middle + 1
        else:
            high = middle
    return low
