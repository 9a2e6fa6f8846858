"""The record: what the driver itself has seen and done. It lies outside of the gateway, and the
verdict holds the gateway's ledger against it."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from crossclaw.domain.keys import SessionKey

Fate = Literal["ok", "error"]

AGENTS = {"direct": "main", "librarian": "librarian"}
"""Places that are no chats: sessions that are spoken to directly, and whose they are."""

UNHEARD = "\0unheard"
"""The reply of somebody who only heard how a run ended."""


class Place(NamedTuple):
    """Where a message goes: a chat of a channel, or a session that is spoken to directly."""

    channel: str
    chat: str

    @property
    def key(self) -> SessionKey:
        if self.channel in AGENTS:
            return SessionKey.named(AGENTS[self.channel], self.chat)
        return SessionKey.group("main", self.channel, self.chat)


@dataclass(slots=True, eq=False)
class Letter:
    """A message of a client, found again everywhere by its token."""

    token: str
    client: str
    place: Place
    text: str
    asks: str | None = None
    """The token of a message that the run sends on and waits for."""
    spawns: str | None = None
    """The token of a task that the run gives to a sub-agent."""
    runs: set[str] = field(default_factory=set)
    """What the acknowledgements said: more than one run is one too many."""
    acknowledged: bool = False
    fate: Fate = "ok"

    @property
    def reply(self) -> str:
        return f"re {self.token}"


class Outcome(NamedTuple):
    run: str
    status: str
    reply: str | None


class Sending(NamedTuple):
    """What a platform got."""

    channel: str
    chat: str
    key: str
    text: str


class Death(NamedTuple):
    """The end of a process, and the runs that were at work and had stored nothing since they began."""

    at_work: set[str]
    from_outside: bool


@dataclass(slots=True)
class Record:
    letters: list[Letter] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    sendings: list[Sending] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    """Requests that the gateway answered with an error."""
    kills: int = 0
    falls: int = 0
    """Processes that a poisonous message took with it."""
    given_up: set[str] = field(default_factory=set)
    """Runs that kills from outside cut off as if they had done it: no gateway can know better."""
    deaths: list[Death] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    """Runs whose model was away."""
    excuses: tuple[str, ...] = ()
    """Words of complaints and refusals that are in order here."""
    fallen: list[str] = field(default_factory=list)
    """Processes that did not start, work or end as they should."""
    tears: int = 0
    """Transcripts whose end was cut off between two lives."""
    stops_s: list[float] = field(default_factory=list)
    """How long each graceful stop took."""
    ready_s: float = 0.0
    """The slowest start."""
    drain_s: float | None = None
    """From the last kill until all was done; None: it never was."""
    behind_poison_s: float = 0.0
    """How long messages behind a poisonous one waited after it had been given up."""

    @property
    def acknowledged(self) -> int:
        return sum(letter.acknowledged for letter in self.letters)

    @property
    def excused(self) -> set[str]:
        """Runs that may have ended as an error."""
        return self.given_up | self.failed

    @property
    def poison(self) -> set[str]:
        return {run for letter in self.letters if letter.fate == "error" for run in letter.runs}

    @property
    def tokens(self) -> set[str]:
        questions = {letter.asks for letter in self.letters if letter.asks}
        tasks = {letter.spawns for letter in self.letters if letter.spawns}
        return questions | tasks | {letter.token for letter in self.letters}

    def by_sender(self) -> dict[tuple[str, Place], list[Letter]]:
        """Each client's letters to each place, in the order in which it sent them."""
        found: dict[tuple[str, Place], list[Letter]] = defaultdict(list)
        for letter in self.letters:
            found[letter.client, letter.place].append(letter)
        return found
