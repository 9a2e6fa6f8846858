"""The ledger's contract: which writes and reads an engine has. A SQLite file implements it, and a
PostgreSQL database.

A *step* is a few operations (`ledger/operations.py`) that become durable together or not at all:
"the run ended" and "what follows from it" are one step. `commit` returns after the step is on disk;
only then may anybody be told.
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
from crossclaw.ledger.monitoring import MonitoringReads
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


class Hit(msgspec.Struct, frozen=True):
    """An entry that a search found."""

    key: SessionKey
    entry: Entry


Appended = Callable[[set[str]], None]
"""Called with the ids of the sessions that got entries, after the commit."""


class Reads(Protocol):
    """All reads, as `operations` has all writes: an engine implements both.

    A read sees everything that was committed before it began. It takes a `limit`, or `BOUNDED_BY`
    says what else keeps its result small. What cannot be read is a `StoreError`, whatever the
    engine calls it.
    """

    async def find_session(self, key: SessionKey) -> Session | None: ...

    async def find_damaged_session(self, key: SessionKey) -> Session | None:
        """What is readable of a session with a damaged row, to delete it or to begin it anew."""
        ...

    async def find_session_by_id(self, session_id: str, *, former: bool = False) -> Session | None:
        """A session by its id; with `former`, also by an id that it had before a reset: the session
        as it is now, under that id."""
        ...

    async def find_sessions_by_label(
        self, label: str, *, agent_id: str | None = None, sight: Sight
    ) -> list[Session]: ...

    async def list_line(self, key: SessionKey) -> frozenset[str]:
        """The key and those of all sessions above it; only the key, if the session does not
        exist."""
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
        """Sessions, newest first, without archived ones. Filters and sight apply before the limit;
        `search` looks in key, id, label and name."""
        ...

    async def count_sessions(self, *, agent_id: str | None = None, sight: Sight) -> int: ...

    async def count_sessions_of_agents(self) -> dict[str, int]:
        """The number of sessions of every agent that has any, in one read."""
        ...

    async def list_archived(
        self, *, before: int, agent_id: str | None = None, limit: int
    ) -> list[Session]:
        """Sessions that were archived before that time, the oldest first."""
        ...

    async def list_quiet(self, *, before: int, limit: int) -> list[Session]:
        """Listed sessions in which nothing has happened since that time, the oldest first."""
        ...

    async def moment_ago(self, *, now: int, passed_ms: int) -> int:
        """The clock's time so much elapsed time ago, as `PassTime` has counted it: no time passes
        when the clock is set ahead, or while the gateway is not running. One number; bounded by how
        often that happened."""
        ...

    async def find_run(self, run_id: str) -> Run | None: ...

    async def find_deduped(self, dedupe: Dedupe) -> str | None:
        """The run that the same request has become before. A different request under the same key
        does not count."""
        ...

    async def list_request_times(
        self, scope: str, prefix: str, *, since: int, limit: int
    ) -> list[int]:
        """When requests were accepted whose key has this prefix, the newest first."""
        ...

    async def has_open_run(self, key: SessionKey) -> bool: ...

    async def list_open_runs(self, key: SessionKey) -> list[Run]:
        """A session's open runs in lane order; the first may be running."""
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
        """The standing grants of these agents, or of all; the newest first."""
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
        """The newest `limit` entries with after < seq < before, or with `forward` the oldest;
        always in order. Without `notes` only messages count."""
        ...

    async def find_entry(self, session_id: str, seq: int) -> Entry | None:
        """The entry with this number in a transcript."""
        ...

    async def with_media(self, entries: Sequence[Entry], kinds: Kinds = KINDS) -> list[Entry]:
        """The same entries with the bytes of their pictures and files, as base64. Entries are read
        with references only: the bytes may be megabytes each, so the caller says for how many."""
        ...

    async def find_media(self, sha256: str) -> Media | None:
        """A picture or a file by its hash, which a message in the ledger refers to."""
        ...

    async def find_media_words(self, hashes: Collection[str]) -> dict[str, MediaWords]:
        """Models' descriptions of these pictures, as far as there are any."""
        ...

    async def find_compaction(self, session_id: str) -> Entry | None:
        """The newest compaction of a session, which contains what earlier ones said."""
        ...

    async def list_pinned(self, session_id: str) -> list[Entry]: ...

    async def list_obligations(self, key: SessionKey) -> list[Obligation]:
        """What a session has under way: children at work, sends that are not over, timers that name
        it (`sessionKey` in their payload)."""
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
        """Pending and sending deliveries, in the order in which they were put."""
        ...

    async def find_open_delivery(self, chat: Address) -> Delivery | None:
        """The next delivery of a chat, pending or being sent."""
        ...

    async def find_preview(self, delivery_key: str) -> DeliveryPreview | None:
        """The message that shows a reply while it is written."""
        ...

    async def list_pieces(self, delivery_id: int) -> list[DeliveryPiece]:
        """The pieces of a delivery that is longer than one message, in order."""
        ...

    async def find_cursor(self, channel: str, account_id: str, name: str) -> str | None:
        """How far an account of a chat platform has read."""
        ...

    async def is_paired(self, channel: str, account_id: str, senders: Sequence[str]) -> bool:
        """Whether one of them was approved to write to the account directly."""
        ...

    async def list_pairing_requests(self, *, at: int, limit: int) -> list[ChatPairingRequest]:
        """Requests for pairing that have not expired, the oldest first."""
        ...

    async def list_paired_senders(self, *, limit: int) -> list[PairedSender]:
        """Paired senders, the newest first."""
        ...

    async def list_heard(
        self, channel: str, account_id: str, chat: str, thread_id: str, *, limit: int
    ) -> list[HeardMessage]:
        """The newest messages of a group that were not meant for the agent, the oldest of them
        first."""
        ...

    async def find_account(self, account_id: str) -> Account | None: ...

    async def list_accounts(self, keys: Sequence[SessionKey]) -> dict[SessionKey, Account]:
        """The budget account of the newest run of each session that has one."""
        ...

    async def find_exchange(self, exchange_id: str) -> Exchange | None: ...

    async def find_spawn(self, child_key: SessionKey) -> Spawn | None: ...

    async def list_spawns(self, parent_key: SessionKey, *, open_only: bool = False) -> list[Spawn]:
        """A session's children, oldest first; with `open_only`, those whose end is not yet
        reported."""
        ...

    async def find_delivery(self, delivery_key: str) -> Delivery | None: ...

    async def find_job(self, job_id: str) -> Job | None: ...

    async def list_jobs(self) -> list[Job]: ...

    async def list_due_jobs(self, *, due_before: int, limit: int) -> list[Job]:
        """Due jobs, the longest due first."""
        ...

    async def next_job_at(self, *, after: int) -> int | None: ...

    async def list_ticks(
        self, job_id: str | None, *, limit: int, status: TickStatus | None = None
    ) -> list[Tick]:
        """Ticks of one job or of all, the newest first."""
        ...

    async def count_ticks_under_way(self) -> int:
        """The number of ticks of all jobs whose run is open."""
        ...

    async def have_talked(self, one: SessionKey, other: SessionKey) -> bool:
        """Whether there was an exchange between the two, whoever began it."""
        ...

    async def list_made_runs(self) -> list[Run]:
        """Open runs that were made with a credential, the oldest first."""
        ...

    async def list_credentials(self) -> list[Credential]:
        """All credentials, the oldest first. They are few: `gateway.pairing` has the limits."""
        ...

    async def list_timers(
        self, *, due_before: int, limit: int, kinds: Sequence[str] | None = None
    ) -> list[Timer]:
        """Due timers, the earliest first."""
        ...

    async def count_timers(self) -> dict[str, int]:
        """The number of timers of each kind."""
        ...

    async def list_exports(self, *, behind: bool, after: str = "", limit: int) -> list[Export]:
        """Transcripts by session id; with `behind`, only those whose copy lacks entries."""
        ...

    async def list_old_exports(self, *, before: int, after: str = "", limit: int) -> list[Export]:
        """Complete, uncompressed copies of transcripts that were closed or last written to before
        that time, or whose session is archived. By session id."""
        ...

    async def list_compressed(self, session_ids: Sequence[str]) -> set[str]:
        """Which of these sessions have a compressed copy."""
        ...

    async def list_transcripts(self, key: SessionKey, *, limit: int, offset: int) -> list[Export]:
        """All transcripts of a session, the oldest first: a reset closes one and begins the
        next."""
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
"""Reads that return many and take no limit: what bounds them instead."""


class Ledger(Reads, Protocol):
    owner: str
    """The name of this opening of the store in the runs that it claims."""

    shared: bool
    """Whether other gateways may write to it too."""

    @property
    def gateways(self) -> Membership | None:
        """The membership among the gateways that share the ledger; None if it is not shared."""
        ...

    monitoring: MonitoringReads
    """The reads for those who look at the whole gateway."""

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        """Stores one step: all of it or nothing, durable on return. Returns one result for each
        operation."""
        ...

    async def do(self, op: Op[R]) -> R:
        """Stores a step of one operation."""
        ...

    def on_append(self, listener: Appended) -> None:
        """Calls the listener after each commit with the session ids that got entries. A hint,
        nothing more."""
        ...

    def on_hint(self, kind: str, callback: HearHints) -> None:
        """Calls back with what other gateways on this ledger have done (`ledger/hints.py`), and at
        least once a second with None, so that the callee looks itself. Never, if the ledger is not
        shared."""
        ...

    def unreadable(self) -> Mapping[str, int]:
        """How often a row of each table could not be read, since the start."""
        ...

    async def close(self) -> None: ...
