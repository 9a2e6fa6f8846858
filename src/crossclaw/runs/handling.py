"""Handling: the interface between the lanes and whoever executes runs."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.runs.run_store import FollowUps


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, and its last entries, which are stored in the same step."""

    outcome: Outcome
    entries: Sequence[NewEntry] = ()


LastWords = Callable[[EndStatus, str], Sequence[NewEntry]]
"""The entries that a run leaves which ends so, for this reason."""


class PartialReply:
    """What a run has said so far in the current turn: stored if it is cut off."""

    def __init__(self) -> None:
        self.last_words: LastWords = lambda status, error: ()
        """Set by whoever carries out the run, whenever it has said more."""

    def cut_off(self, outcome: Outcome) -> Ending:
        entries = self.last_words(outcome.status, outcome.error or outcome.status)
        said = [e.message.text for e in entries if isinstance(e.message, AssistantMessage)]
        return Ending(msgspec.structs.replace(outcome, reply="".join(said) or None), entries)


class RunHandler(Protocol):
    """Executes a run that the lanes have claimed, and returns what follows from its end."""

    async def execute(self, run: Run, words: PartialReply) -> Ending: ...

    async def follow(self, run: Run, outcome: Outcome) -> FollowUps:
        """What follows from the end, to be stored in the step that ends the run."""
        ...
