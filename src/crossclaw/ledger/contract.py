"""The ledger's contract: steps in, truth out. A SQLite file fulfils it, and a PostgreSQL database.

A *step* is a few operations (`ledger/operations.py`) that become durable together or not at all: "the
run ended" and "what follows from it" are one step. `commit` returns after the step is on disk; then,
and only then, may anybody be told.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.approvals import Approval, StandingGrant
from crossclaw.domain.budgets import Account
from crossclaw.domain.compactions import Obligation
from crossclaw.domain.credentials import Credential
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.jobs import Job, Tick, TickStatus
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import KINDS, Kinds, Media
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry, Session
from crossclaw.domain.sight import Sight
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.agreed import HeldTool
from crossclaw.ledger.channels import ChatPairingRequest, HeardMessage, PairedSender
from crossclaw.ledger.gateways import Membership
from crossclaw.ledger.hints import HearHints
from crossclaw.ledger.media import MediaWords
from crossclaw.ledger.operations import (
    Dedupe,
    Delivery,
    DeliveryPreview,
    Export,
    Op,
    R,
    Timer,
)
from crossclaw.ledger.pieces import DeliveryPiece
from crossclaw.ledger.watching import Watching


class Hit(msgspec.Struct, frozen=True):
    """An entry that a search found."""

    key: SessionKey
    entry: Entry


Appended = Callable[[set[str]], None]
"""Takes the ids of the sessions that got entries, after the commit."""


class Reads(Protocol):
    """All reads, as `operations` has all writes: an engine implements this list and that one.

    A read sees everything that was committed before it began. It takes a `limit`, or `BOUNDED_BY` says what
    else keeps its answer small. What cannot be read is a `StoreError`, whatever the engine calls it.
    """

    async def find_session(self, key: SessionKey) -> Session | None: ...

    async def find_damaged_session(self, key: SessionKey) -> Session | None:
        """What can be told of a session whose row cannot be read, for whoever deletes it or begins it anew."""
        ...

    async def find_session_by_id(self, session_id: str, *, former: bool = False) -> Session | None:
        """With `former` also by an id that it had before a reset: the session as it is now, under
        that id."""
        ...

    async def find_sessions_by_label(
        self, label: str, *, agent_id: str | None = None, sight: Sight
    ) -> list[Session]: ...

    async def list_line(self, key: SessionKey) -> frozenset[str]:
        """The key and those of all sessions above it; of a session that is not there, the key."""
        ...

    async def list_sessions(
        self,
        *,
        limit: int,
        agent_id: str | None = None,
        sight: Sight,
        updated_after: int | None = None,
        kinds: Sequence[str] | None = None,
        label: str | None = None,
        spawned_by: str | None = None,
        search: str | None = None,
        offset: int = 0,
    ) -> list[Session]:
        """Newest first, without archived ones. Filters and sight count before the limit; `search`
        is looked for in key, id, label and name."""
        ...

    async def count_sessions(self, *, agent_id: str | None = None, sight: Sight) -> int: ...

    async def count_sessions_of_agents(self) -> dict[str, int]:
        """Of every agent that has some, in one look."""
        ...

    async def list_archived(
        self, *, before: int, agent_id: str | None = None, limit: int
    ) -> list[Session]:
        """Sessions that were put away before that time, the oldest first."""
        ...

    async def list_quiet(self, *, before: int, limit: int) -> list[Session]:
        """Listed sessions in which nothing has happened since that time, the oldest first."""
        ...

    async def moment_ago(self, *, now: int, passed_ms: int) -> int:
        """What the clock said so much time before now, as `PassTime` has counted it: that a clock was set ahead, or that
        the gateway was not there, is no time that has passed. One number; bounded by how often that happened."""
        ...

    async def find_run(self, run_id: str) -> Run | None: ...

    async def find_deduped(self, dedupe: Dedupe) -> str | None:
        """The run that the same request has become before. One for something else under its key is not it."""
        ...

    async def list_request_times(
        self, scope: str, prefix: str, *, since: int, limit: int
    ) -> list[int]:
        """When requests were accepted whose key begins so, the newest first."""
        ...

    async def has_open_run(self, key: SessionKey) -> bool: ...

    async def list_open_runs(self, key: SessionKey) -> list[Run]:
        """In lane order; the first may be running."""
        ...

    async def find_inbox(self, run_id: str) -> UserMessage | None:
        """The message of a run that has not begun."""
        ...

    async def lanes_with_work(self) -> list[SessionKey]: ...

    async def list_held_tools(self) -> list[HeldTool]: ...

    async def find_approval(self, approval_id: str) -> Approval | None: ...

    async def list_waiting_approvals(self) -> list[Approval]:
        """Calls that wait for a person's yes, the oldest first."""
        ...

    async def list_grants(
        self, *, agent_ids: Sequence[str] | None = None, limit: int
    ) -> list[StandingGrant]:
        """What was allowed for good for these agents, or for all; the newest first."""
        ...

    async def last_seq(self, session_id: str) -> int: ...

    async def list_entries(
        self,
        session_id: str,
        *,
        limit: int,
        before: int | None = None,
        after: int = 0,
        tool_results: bool = True,
        notes: bool = True,
        forward: bool = False,
    ) -> list[Entry]:
        """The newest `limit` entries with after < seq < before, or `forward` the oldest; always in their
        order. Without `notes` only messages count."""
        ...

    async def with_media(self, entries: Sequence[Entry], kinds: Kinds = KINDS) -> list[Entry]:
        """The same entries with the bytes of the pictures and files that they name in them, as base64. Entries are
        read with names only: these may be megabytes each, so whoever asks says for how many."""
        ...

    async def find_media(self, sha256: str) -> Media | None:
        """A picture or a file by its hash, as a message of the ledger names it."""
        ...

    async def find_media_words(self, hashes: Collection[str]) -> dict[str, MediaWords]:
        """What models have said about pictures, of those of which something is known."""
        ...

    async def find_compaction(self, session_id: str) -> Entry | None:
        """The newest one, which tells the whole."""
        ...

    async def list_pinned(self, session_id: str) -> list[Entry]: ...

    async def list_obligations(self, key: SessionKey) -> list[Obligation]:
        """Children that work, sends that are not over, timers that name the session (`sessionKey`
        in their payload)."""
        ...

    async def list_tails(
        self, session_ids: Sequence[str], *, limit: int, tool_results: bool = True
    ) -> dict[str, list[Entry]]:
        """The newest `limit` messages of each of many sessions, in one read."""
        ...

    async def search(
        self, words: str, *, limit: int, agent_id: str | None = None, sight: Sight
    ) -> list[Hit]: ...

    async def tool_was_started(self, run_id: str, tool_use_id: str) -> bool: ...

    async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
        """Pending and sending ones, in the order in which they were put."""
        ...

    async def find_open_delivery(self, chat: Address) -> Delivery | None:
        """The next one of a chat, pending or being sent."""
        ...

    async def find_preview(self, delivery_key: str) -> DeliveryPreview | None:
        """The message that shows a reply while it is written."""
        ...

    async def list_pieces(self, delivery_id: int) -> list[DeliveryPiece]:
        """Of a delivery that is longer than one message, in their order."""
        ...

    async def find_cursor(self, channel: str, account_id: str, name: str) -> str | None:
        """How far an account of a chat platform has read."""
        ...

    async def is_paired(self, channel: str, account_id: str, senders: Sequence[str]) -> bool:
        """Whether one of them was approved to write to the account directly."""
        ...

    async def list_pairing_requests(self, *, at: int, limit: int) -> list[ChatPairingRequest]:
        """Those that are not too old, the oldest first."""
        ...

    async def list_paired_senders(self, *, limit: int) -> list[PairedSender]:
        """The newest first."""
        ...

    async def list_heard(
        self, channel: str, account_id: str, chat: str, thread_id: str, *, limit: int
    ) -> list[HeardMessage]:
        """The newest messages of a group that nobody has answered, the oldest of them first."""
        ...

    async def find_account(self, account_id: str) -> Account | None: ...

    async def list_accounts(self, keys: Sequence[SessionKey]) -> dict[SessionKey, Account]:
        """What the newest run of each session spends from; only of those that have a budget."""
        ...

    async def find_exchange(self, exchange_id: str) -> Exchange | None: ...

    async def find_spawn(self, child_key: SessionKey) -> Spawn | None: ...

    async def list_spawns(self, parent_key: SessionKey, *, open_only: bool = False) -> list[Spawn]:
        """A session's children, oldest first; `open_only`: those whose end is not yet reported."""
        ...

    async def find_delivery(self, delivery_key: str) -> Delivery | None: ...

    async def find_job(self, job_id: str) -> Job | None: ...

    async def list_jobs(self) -> list[Job]: ...

    async def list_due_jobs(self, *, due_before: int, limit: int) -> list[Job]:
        """The longest due first."""
        ...

    async def next_job_at(self, *, after: int) -> int | None: ...

    async def list_ticks(
        self, job_id: str | None, *, limit: int, status: TickStatus | None = None
    ) -> list[Tick]:
        """Of one job or of all, the newest first."""
        ...

    async def count_ticks_under_way(self) -> int:
        """Of all jobs: those whose run is open."""
        ...

    async def have_talked(self, one: SessionKey, other: SessionKey) -> bool:
        """Whether there was an exchange between the two, whoever began it."""
        ...

    async def list_made_runs(self) -> list[Run]:
        """Open runs that go back to a credential, the oldest first."""
        ...

    async def list_credentials(self) -> list[Credential]:
        """All of them, the oldest first. They are few: `gateway.pairing` has the limits."""
        ...

    async def list_timers(
        self, *, due_before: int, limit: int, kinds: Sequence[str] | None = None
    ) -> list[Timer]:
        """The one that is due first comes first."""
        ...

    async def count_timers(self) -> dict[str, int]:
        """How many there are of each kind."""
        ...

    async def list_exports(self, *, behind: bool, after: str = "", limit: int) -> list[Export]:
        """Transcripts by session id; `behind`: only those whose copy lacks entries."""
        ...

    async def list_old_exports(self, *, before: int, after: str = "", limit: int) -> list[Export]:
        """Whole plain copies of transcripts that were closed or last written to before that moment,
        or whose session is archived. By session id."""
        ...

    async def list_compressed(self, session_ids: Sequence[str]) -> set[str]:
        """Those of them whose copy is compressed."""
        ...

    async def list_transcripts(self, key: SessionKey, *, limit: int, offset: int) -> list[Export]:
        """All that a session has had, the oldest first: a reset closes one and begins the next."""
        ...

    async def find_export(self, session_id: str) -> Export | None: ...


BOUNDED_BY = {
    "find_sessions_by_label": "the engine looks at nine: an error names eight",
    "list_line": "how deep spawns may go",
    "count_sessions_of_agents": "the agents in the config, and those that once were",
    "list_open_runs": "the limit of a lane",
    "lanes_with_work": "sessions with a run that is not over: each was accepted",
    "list_waiting_approvals": "WAITING_MAX of ledger/approvals",
    "list_held_tools": "the tools of the configured MCP servers",
    "list_pinned": "the limit of pins",
    "list_pieces": "the limit of pieces of a reply",
    "list_obligations": "children at work, sends under way and timers of one session",
    "list_tails": "the sessions asked for, `limit` entries of each",
    "list_accounts": "the sessions asked for",
    "list_spawns": "the children of one session: maxChildrenPerAgent at work, and those that were",
    "list_jobs": "the limit of jobs",
    "list_made_runs": "runs that are not over",
    "list_credentials": "the limits of pairing",
    "count_timers": "the kinds of timers there are",
    "list_compressed": "the transcripts asked for",
    "with_media": "the entries asked for: whoever asks has looked at their sizes",
    "find_media_words": "the pictures asked for",
}
"""Reads that answer many and take no limit: what bounds them."""


class Ledger(Reads, Protocol):
    owner: str
    """Names this opening of the store in the runs that it claims."""

    shared: bool
    """Whether other gateways may write to it too."""

    @property
    def gateways(self) -> Membership | None:
        """The others, where several gateways share the ledger."""
        ...

    watching: Watching
    """The reads of those who look at everything at once."""

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        """One step: all of it or nothing, durable on return. Answers one result an operation."""
        ...

    async def do(self, op: Op[R]) -> R:
        """A step of one operation."""
        ...

    def on_append(self, listener: Appended) -> None:
        """Hear, after each commit, which session ids got entries. A hint, nothing more."""
        ...

    def on_hint(self, kind: str, callback: HearHints) -> None:
        """Hear what other gateways on this ledger have done (`ledger/hints.py`); None at least once a second, for
        whoever looks himself. A ledger that nobody shares says nothing."""
        ...

    def unreadable(self) -> Mapping[str, int]:
        """How often a row of each table could not be read, since the start."""
        ...

    async def close(self) -> None: ...
