"""What gateways that share a ledger send each other about runs: text as it is written, and where to read the
rest.

What is stored is only named, and the receiver reads it from the ledger; what is not (pieces of a reply, signs
of life of a tool) travels whole. A link that breaks loses those pieces and nothing else.
"""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from crossclaw.domain.events import (
    ApprovalAsked,
    ApprovalSettled,
    CallRepeated,
    CompactionPhase,
    EntryAppended,
    FeedEvent,
    HeartbeatNews,
    Injected,
    JobNews,
    ReplyPiece,
    RunEnded,
    RunStarted,
    SessionChanged,
    SpeechAllowed,
    ThoughtPiece,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from crossclaw.domain.keys import SessionKey, key_of
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.neighbours import ConnectedClients, read_clients

WAITING_MAX = (
    10_000  # events that a slow neighbour has not taken; beyond, its link ends and it comes again
)
THOUGHT_EVERY_S = (
    1.0  # a chat sees by it that somebody is typing; the thoughts themselves are nobody else's
)
CLIENTS_EVERY_S = 1.0  # a thousand that come back at once are a few lines, not a thousand; the first is told at once
RUNS_SPOKEN_MAX = 10_000  # runs whose words so far are known, on either side

_WHOLE: dict[str, Any] = {
    each.__name__: each
    for each in (
        CallRepeated,
        ToolStarted,
        ToolProgress,
        ToolEnded,
        SessionChanged,
        SpeechAllowed,
        CompactionPhase,
        JobNews,
        HeartbeatNews,
    )
}


class LinkedEvent(msgspec.Struct, omit_defaults=True):
    """One line of a link."""

    kind: str
    run_id: str = ""
    key: str = ""
    agent_id: str = ""
    session_id: str = ""
    seq: int = 0
    piece: str = ""
    text: str | None = None
    flag: bool = False
    body: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(LinkedEvent)


class LinkWriter:
    """One neighbour's subscription to the feed, and to who is connected here (`clients`). `lines` is what it
    has not read yet."""

    def __init__(self, clients: Callable[[], ConnectedClients] | None = None) -> None:
        self._clients = clients or ConnectedClients
        self._clients_changed = clients is not None
        self._clients_from = 0.0
        """The time at which the list may be sent again, by the event loop's clock."""
        self._lines: list[bytes] = []
        self._spoken: set[str] = set()
        self._thought: dict[str, float] = {}
        """The time of the next sign of life of a thinking run, by its id."""
        self._news = anyio.Event()
        self.is_full = False

    def on_event(self, event: FeedEvent) -> None:
        linked = self._linked(event)
        if linked is None:
            return
        if len(self._lines) >= WAITING_MAX:
            self.is_full = True
        else:
            self._lines.append(msgspec.json.encode(linked) + b"\n")
        self._news.set()

    def send_clients(self) -> None:
        """Queues the new list of clients: somebody has come or gone."""
        self._clients_changed = True
        self._news.set()

    async def take(self, patience_s: float) -> bytes:
        """Waits for lines; after a while returns at least a sign of life."""
        if self._clients_changed:
            patience_s = min(patience_s, max(0.0, self._clients_from - anyio.current_time()))
        with anyio.move_on_after(patience_s):
            await self._news.wait()
        self._news = anyio.Event()
        lines, self._lines = self._lines, []
        if self._clients_changed and anyio.current_time() >= self._clients_from:
            lines.append(self._clients_line())
        return b"".join(lines) or b"\n"

    def _clients_line(self) -> bytes:
        self._clients_changed = False
        self._clients_from = anyio.current_time() + CLIENTS_EVERY_S
        body = msgspec.to_builtins(self._clients())
        return msgspec.json.encode(LinkedEvent("clients", body=body)) + b"\n"

    def _linked(self, event: FeedEvent) -> LinkedEvent | None:
        match event:
            case ReplyPiece():
                return self._said(event)
            case ThoughtPiece():
                return self._thinks(event)
            case RunStarted(run=run):
                return LinkedEvent("start", run.run_id)
            case RunEnded(run=run, withheld=withheld):
                self._spoken.discard(run.run_id)
                self._thought.pop(run.run_id, None)
                return LinkedEvent("end", run.run_id, flag=withheld)
            case EntryAppended(key=key, entry=entry) | Injected(key=key, entry=entry):
                named = LinkedEvent("entry", key=key.text, agent_id=key.agent_id)
                named.session_id, named.seq = entry.session_id, entry.seq
                named.flag = isinstance(event, Injected)
                return named
            case ApprovalAsked(approval=approval) | ApprovalSettled(approval=approval):
                asked = isinstance(event, ApprovalAsked)
                return LinkedEvent("approval", approval.approval_id, flag=asked)
            case _ if type(event).__name__ in _WHOLE:
                body: dict[str, Any] = msgspec.to_builtins(event)
                named_key = getattr(event, "key", None)
                agent_id = named_key.agent_id if isinstance(named_key, SessionKey) else ""
                return LinkedEvent(type(event).__name__, agent_id=agent_id, body=body)
        return None

    def _thinks(self, thought: ThoughtPiece) -> LinkedEvent | None:
        now, run_id = anyio.current_time(), thought.run_id
        if now < self._thought.get(run_id, 0.0):
            return None
        if len(self._thought) >= RUNS_SPOKEN_MAX:
            self._thought.clear()
        self._thought[run_id] = now + THOUGHT_EVERY_S
        return LinkedEvent("thought", run_id, thought.key.text, thought.key.agent_id)

    def _said(self, said: ReplyPiece) -> LinkedEvent:
        """The event for a piece of a reply: the whole text the first time; then what was added."""
        linked = LinkedEvent(
            "piece", said.run_id, said.key.text, said.key.agent_id, piece=said.piece
        )
        linked.flag = said.restarted
        if said.restarted or said.run_id not in self._spoken or said.text == said.piece:
            linked.text = said.text
            if len(self._spoken) >= RUNS_SPOKEN_MAX:
                self._spoken.clear()
            self._spoken.add(said.run_id)
        return linked


class LinkReader:
    """Turns lines of a link into events; what was only named is read from the ledger."""

    def __init__(
        self, ledger: Ledger, on_clients: Callable[[ConnectedClients], None] = lambda _: None
    ) -> None:
        self._ledger, self._on_clients = ledger, on_clients
        self._texts: dict[str, str] = {}

    async def read(self, line: bytes) -> FeedEvent | None:
        linked = _decoder.decode(line)
        match linked.kind:
            case "piece":
                return self._said(linked)
            case "thought":
                return ThoughtPiece(linked.run_id, key_of(linked.key, linked.agent_id), "")
            case "clients":
                self._on_clients(read_clients(linked.body))
                return None
            case "start" | "end":
                return await self._run(linked)
            case "entry":
                return await self._entry(linked)
            case "approval":
                return await self._approval(linked)
        kind = _WHOLE.get(linked.kind)
        return None if kind is None else _whole(kind, linked)

    async def _run(self, linked: LinkedEvent) -> RunStarted | RunEnded | None:
        run = await self._ledger.find_run(linked.run_id)
        if linked.kind == "end":
            self._texts.pop(linked.run_id, None)
        if run is None:
            return None
        return RunEnded(run, linked.flag) if linked.kind == "end" else RunStarted(run)

    async def _approval(self, linked: LinkedEvent) -> ApprovalAsked | ApprovalSettled | None:
        approval = await self._ledger.find_approval(linked.run_id)
        if approval is None:
            return None
        return ApprovalAsked(approval) if linked.flag else ApprovalSettled(approval)

    def _said(self, linked: LinkedEvent) -> ReplyPiece | None:
        before = self._texts.get(linked.run_id)
        if linked.text is None and before is None:
            return None  # its beginning was not heard: the end says the whole
        text = linked.text if linked.text is not None else f"{before}{linked.piece}"
        if len(self._texts) >= RUNS_SPOKEN_MAX:
            self._texts.clear()
        self._texts[linked.run_id] = text
        key = key_of(linked.key, linked.agent_id)
        return ReplyPiece(linked.run_id, key, linked.piece, text, restarted=linked.flag)

    async def _entry(self, linked: LinkedEvent) -> EntryAppended | Injected | None:
        found = await self._ledger.find_entry(linked.session_id, linked.seq)
        kind = Injected if linked.flag else EntryAppended
        return kind(key_of(linked.key, linked.agent_id), found) if found else None


def _whole(kind: Any, linked: LinkedEvent) -> FeedEvent:
    body = linked.body or {}
    if isinstance(key := body.get("key"), dict):
        body = {**body, "key": {"text": key["text"]}}
    event: FeedEvent = msgspec.convert(body, kind)
    if linked.agent_id and isinstance(key := getattr(event, "key", None), SessionKey):
        key.__dict__["agent_id"] = linked.agent_id
    return event
