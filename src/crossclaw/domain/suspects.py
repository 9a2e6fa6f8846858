"""Suspects: which run ends the process, found by letting them begin in groups.

A run that was under way at two crashes without progress makes everything that the process died with
suspect. At the next start the suspects begin group by group, a window of time apart. Should the process
die again, whatever had not begun was not involved; of the rest, the group that began last is the likely
one, and is divided first. Should the crash come after all of its parts have lived through their windows,
then the run takes longer than a window before it kills: everything is divided anew, with windows at least as
long as the process lived, which it has noted itself: a clock may have been set meanwhile, or the machine been off. A run is given up when the process dies while no other suspect has begun; if
runs that are no suspects were under way too, it takes a second time, without them.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

SUSPECT_AFTER = 2  # crashes without progress; one may be anybody's fault, or a power cut
GROUPS_MAX = 8  # with windows of two seconds, everybody has begun after fourteen
WINDOW_MS = 2_000  # most that kill do so at once
WINDOW_MS_MAX = 300_000  # nobody waits longer for one group than for a long model call


class InterruptedRun(msgspec.Struct, frozen=True):
    """A run that was at work when the process died."""

    run_id: str
    attempt: int
    """Claims since it last stored something; 0: it did so in its last one."""


class Suspicion(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who is suspect after a crash, and how they begin. Kept in the ledger for the next one."""

    groups: tuple[tuple[str, ...], ...] = ()
    window_ms: int = WINDOW_MS
    uptime_ms: int = 0
    """The time that the process is known to have lived with it: at least so long, and less than twice that."""
    likely: int = 0
    """The number of groups, the first ones, that are parts of the group that began last before the crash."""
    accused: str | None = None
    """The only suspect that had begun, if it was not the only run that was under way."""
    given_up: tuple[str, ...] = ()


def suspects_after(before: Suspicion | None, died: Sequence[InterruptedRun]) -> Suspicion | None:
    """The suspicion after a crash, or after a stop: then nothing was at work."""
    at_work = {each.run_id: each for each in died}
    groups = before.groups if before is not None else ()
    # Those that ended or came to wait for others are not among the dead.
    begun = [(n, [run for run in group if run in at_work]) for n, group in enumerate(groups)]
    begun = [(number, group) for number, group in begun if group]
    if before is None or not begun:
        return _first_suspicion(died)
    last, newest = begun[-1]
    earlier = [run for _, group in reversed(begun[:-1]) for run in group]
    if not earlier and len(newest) == 1 and at_work[newest[0]].attempt:
        return _accuse(before, at_work[newest[0]], list(at_work))
    if before.likely and last >= before.likely:  # its window was too short to tell
        window_ms = max(before.window_ms, 2 * before.uptime_ms)
        everybody = divide([*earlier, *newest], GROUPS_MAX)
        return Suspicion(everybody, min(window_ms, WINDOW_MS_MAX))
    likely = divide(newest, GROUPS_MAX - bool(earlier))
    rest = divide(earlier, GROUPS_MAX - len(likely))
    return Suspicion((*likely, *rest), before.window_ms, likely=len(likely))


def _first_suspicion(died: Sequence[InterruptedRun]) -> Suspicion | None:
    if not any(each.attempt >= SUSPECT_AFTER for each in died):
        return None
    # What has made progress meanwhile may be the one that kills; it is less likely.
    order = sorted(died, key=lambda each: each.attempt < SUSPECT_AFTER)
    return Suspicion(divide([each.run_id for each in order], GROUPS_MAX))


def _accuse(before: Suspicion, died: InterruptedRun, at_work: list[str]) -> Suspicion:
    """Accuses the only suspect that had begun. A run may be suspect because of others beside it; it is given
    up only for crashes of its own."""
    run = died.run_id
    company = [other for other in at_work if other != run]
    if died.attempt > SUSPECT_AFTER and (not company or before.accused == run):
        return Suspicion(given_up=(run,))
    groups = ((run,), *divide(company, GROUPS_MAX - 1))
    return Suspicion(groups, before.window_ms, likely=1, accused=run)


def divide(runs: Sequence[str], groups_max: int) -> tuple[tuple[str, ...], ...]:
    """Divides the runs into at most so many groups of nearly the same size, in order."""
    count = min(len(runs), groups_max)
    edges = [len(runs) * n // count for n in range(count + 1)] if count else []
    return tuple(tuple(runs[start:end]) for start, end in pairwise(edges))
