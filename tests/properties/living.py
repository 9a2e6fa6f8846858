"""A life of the gateway: deeds of people, clients, agents and the machine, in any order and beside each other,
and what must be true when all is quiet again."""

import tempfile
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import msgspec

from crossclaw.app import Gateway
from crossclaw.channels.contract import Piece
from crossclaw.config import Config
from crossclaw.domain.errors import CrossclawError, ProviderRefused
from crossclaw.domain.events import FeedEvent, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece, UserTurn
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, VirtualClock, open_gateway
from crossclaw.testing.time import NOON_MS
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.tools import Counting
from tests.stores import OpenStore, look_into

MAIN, WORK, OTHER = "agent:main:main", "agent:main:work", "agent:librarian:main"
GROUP = "agent:main:memory:group:g1"
KEYS = (MAIN, WORK, OTHER, GROUP)
WORDS = ("hello", "count", "spawn", "spawn-delete", "ask", "tell", "tell-group", "fail", "long")
GATEWAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no groups": {"sendPolicy": {"rules": [{"match": {"chatType": "group"}, "action": "deny"}]}},
    "one at a time": {},
    "poor": {},
}
# With a price of its own, no list of prices is read in a thread, for which virtual time would not wait.
PRICED = {"id": "test", "maxTokens": 500, "cost": {"input": 10.0, "output": 20.0}}
QUIET_S = 900  # longer than any timer, timeout or retry here


class Deed(NamedTuple):
    what: str
    where: str = MAIN
    word: str = "hello"
    pause_s: float = 0.0


class Chat(MemoryChannel):
    """A platform on which nothing may be said that is denied at that moment."""

    def __init__(self, life: "Life") -> None:
        super().__init__("memory", settings=OPEN_TO_ALL)
        self._life = life

    async def send(self, piece: Piece) -> str | None:
        if piece.address.to == "g1" and await self._life.group_is_denied():
            self._life.wrongs.append(f"said where it is denied: {piece.text}")
        return await super().send(piece)


class Actor:
    """Does what the last words say. Every turn takes two seconds, of which the first says something."""

    name = "scripted"

    def __init__(self) -> None:
        self._calls = 0

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self._calls += 1
        tell(TextPiece("Well. "))
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        said = [block.text for block in last.content if isinstance(block, Text)]
        words = said[-1].split() if said and said[-1].startswith("m") else []
        word = words[1] if len(words) == 2 else ""
        await anyio.sleep(40 if word == "long" else 2)
        if word == "fail":
            raise ProviderRefused("not today")
        if last.results or (use := self._use(word, {tool.name for tool in request.tools})) is None:
            return AssistantMessage([Text(f"said {self._calls}")], stop_reason="end_turn")
        return AssistantMessage([use], stop_reason="tool_use")

    def _use(self, word: str, tools: set[str]) -> ToolUse | None:
        deeds: dict[str, tuple[str, dict[str, Any]]] = {
            "count": ("count", {}),
            "spawn": ("sessions_spawn", {"task": "work"}),
            "spawn-delete": ("sessions_spawn", {"task": "work", "cleanup": "delete"}),
            "ask": ("sessions_send", {"sessionKey": OTHER, "message": "and you?"}),
            "tell": ("sessions_send", {"sessionKey": WORK, "message": "so", "timeoutSeconds": 0}),
            "tell-group": ("sessions_send", {"sessionKey": GROUP, "message": "all", "timeoutSeconds": 0}),
        }  # fmt: skip
        name, arguments = deeds.get(word, ("", {}))
        return ToolUse(f"c{self._calls}", name, arguments) if name in tools else None

    async def close(self) -> None:
        pass


class _Unheard(list[tuple[str, str]]):
    """Of a process that was killed: what it would have said after that."""

    def append(self, said: tuple[str, str]) -> None:
        pass


class Life:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._clock = VirtualClock(NOON_MS)
        self._kind = "plain"
        self._number = 0
        self._jobs: list[str] = []
        self._gateway: Gateway | None = None
        self.wrongs: list[str] = []
        self.heard: list[tuple[str, str]] = []
        self.attempted: dict[str, str] = {}
        self.accepted: set[str] = set()
        self.maybe_gone: set[str] = set()
        self._deleting: set[str] = set()
        self._ended: Counter[str] = Counter()

    async def live(self, plan: list[Deed]) -> None:
        at = 0
        home = self._folder / "gateway"
        home.mkdir()
        while at <= len(plan):
            home, at = await self._one(home, plan, at)
        self._check(home)

    async def _one(self, home: Path, plan: list[Deed], at: int) -> tuple[Path, int]:
        """Until it is killed, closed, or all is done. What is said while it closes was said."""
        self._lives += 1
        chat = Chat(self)
        try:
            return await self._until_an_end(home, plan, at, chat)
        finally:
            self.heard += chat.sent

    async def _until_an_end(
        self, home: Path, plan: list[Deed], at: int, chat: "Chat"
    ) -> tuple[Path, int]:
        self._ended = Counter()
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(
                open_gateway(
                    home,
                    Actor(),
                    config=_config(self._kind),
                    channels=[chat],
                    tools=[Counting("count")],
                    clock=self._clock,
                )
            )
            self._gateway = gateway
            gateway.feed.subscribe(self._hear)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for place, deed in enumerate(plan[at:], at):
                if deed.what in ("crash", "close", "reload"):
                    if deed.what == "crash":
                        home = crashed_copy(home, f"life {self._lives}")
                        self._gateway = None  # what this one still does is nobody's concern
                        self.heard += chat.sent
                        chat.sent = _Unheard()
                    self._in_flight_may_be_gone()
                    self._kind = deed.word if deed.what == "reload" else self._kind
                    tasks.cancel_scope.cancel()
                    return home, place + 1
                tasks.start_soon(self._do, gateway, chat, deed)
                await anyio.sleep(deed.pause_s)
            await anyio.sleep(QUIET_S)
            await self._look(gateway)
            tasks.cancel_scope.cancel()
        return home, len(plan) + 1

    def _hear(self, event: FeedEvent) -> None:
        if isinstance(event, RunEnded):
            self._ended[event.run.run_id] += 1

    async def group_is_denied(self) -> bool:
        if self._gateway is None:
            return False
        session = await self._gateway.ledger.find_session(SessionKey.parse(GROUP))
        own = session.send_policy if session else None
        return own == "deny" or (own is None and self._kind == "no groups")

    # ── deeds ──────────────────────────────────────────────────────────────────────────────────

    async def _do(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        with suppress(CrossclawError):  # a refusal is an answer; it must leave nothing behind
            await getattr(self, f"_{deed.what}")(gateway, chat, deed)

    def _accept(self, gateway: Gateway, text: str) -> None:
        if self._gateway is gateway:
            self.accepted.add(text)

    def _new_text(self, key: str, word: str) -> str:
        self._number += 1
        text = f"m{self._number} {word}"
        self.attempted[text] = key
        return text

    async def _say(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        in_group = deed.where == GROUP
        text = self._new_text(GROUP if in_group else MAIN, deed.word)
        await chat.say("ana", text, message_id=text, group="g1" if in_group else None)
        self._accept(gateway, text)

    async def _ask(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        text = self._new_text(deed.where, deed.word)
        await call(gateway, "chat.send", sessionKey=deed.where, message=text, idempotencyKey=text)
        self._accept(gateway, text)

    async def _post(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        self._number += 1
        to, key = ("g1" if deed.where == GROUP else "user:ana"), f"p{self._number}"
        await call(gateway, "send", to=to, message=f"post {key}", idempotencyKey=key)

    async def _reset(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.reset", key=deed.where)

    async def _delete(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        self._deleting.add(deed.where)
        self._gone(deed.where)
        answer = await call(gateway, "sessions.delete", key=deed.where)
        self._gone(deed.where)
        self._deleting.discard(deed.where)
        if answer["deleted"]:
            await self._no_child_is_left(gateway, SessionKey.parse(deed.where))

    async def _archive(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.archive", key=deed.where)

    async def _unarchive(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.unarchive", key=deed.where)

    async def _stop(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "chat.abort", sessionKey=deed.where)

    async def _deny(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.patch", key=deed.where, sendPolicy="deny")

    async def _allow(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.patch", key=deed.where, sendPolicy=None)

    async def _queue(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        mode = {"count": "steer", "long": "interrupt", "ask": "followup"}.get(deed.word, "collect")
        cap = 2 if deed.word == "fail" else None
        await call(gateway, "sessions.patch", key=deed.where, queueMode=mode, queueCap=cap)

    async def _compact(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        await call(gateway, "sessions.compact", key=deed.where)

    async def _job(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        made = await call(
            gateway,
            "cron.add",
            name="job",
            schedule={"kind": "every", "everyMs": 300_000},
            payload={"kind": "agentTurn", "message": "m0 long" if deed.word == "long" else "work"},
            delivery={"mode": "announce", "channel": "memory", "to": "g1"},
        )
        self._jobs.append(made["id"])
        await call(gateway, "cron.run", id=made["id"], mode="force")

    async def _job_off(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        for job_id in self._jobs:
            await call(gateway, "cron.update", id=job_id, patch={"enabled": False})

    async def _job_gone(self, gateway: Gateway, chat: MemoryChannel, deed: Deed) -> None:
        for job_id in self._jobs:
            await call(gateway, "sessions.delete", key=f"cron:{job_id}")
            await call(gateway, "cron.remove", id=job_id)

    # ── what must be true ──────────────────────────────────────────────────────────────────────

    def _gone(self, key: str) -> None:
        self.maybe_gone |= {text for text, where in self.attempted.items() if where == key}

    def _in_flight_may_be_gone(self) -> None:
        """A deletion may have been under way."""
        for key in self._deleting:
            self._gone(key)

    async def _no_child_is_left(self, gateway: Gateway, key: SessionKey) -> None:
        if await gateway.ledger.find_session(key) is not None:
            return  # there again already
        for spawn in await gateway.ledger.list_spawns(key, open_only=True):
            child = SessionKey.stored(spawn.child_key)
            if runs := await gateway.ledger.list_open_runs(child):
                self.wrongs.append(f"outlives its parent {key}: {runs}")

    async def _look(self, gateway: Gateway) -> None:
        """Jobs are switched off first: they would go on for ever."""
        for job in await gateway.ledger.list_jobs():
            if not job.built_in:
                await call(gateway, "cron.update", id=job.job_id, patch={"enabled": False})
        await anyio.sleep(QUIET_S)
        if gateway.slots.taken or gateway.lanes.at_work or gateway.outbox.at_work:
            self.wrongs.append(f"a slot is not given back: {gateway.slots.taken}")
        if twice := [run_id for run_id, count in self._ended.items() if count > 1]:
            self.wrongs.append(f"ended twice: {twice}")

    def _check(self, home: Path) -> None:
        db = look_into(home / "state" / "crossclaw.sqlite")
        try:
            for wrong, question in LEFT_OVER.items():
                if rows := list(db.execute(question)):
                    self.wrongs.append(f"{wrong}: {rows}")
            self._check_messages(db)
            self._check_deliveries(db)
            self._check_lanes(db)
        finally:
            db.close()

    def _check_messages(self, db: OpenStore) -> None:
        bodies = [bytes(row[0]).decode() for row in db.execute("SELECT body FROM entries WHERE role = 'user' OR type = 'note'")]  # fmt: skip
        for text in self.attempted:
            found = sum(f'"{text}"' in body for body in bodies)
            least = 1 if text in self.accepted - self.maybe_gone else 0
            if not least <= found <= 1:
                self.wrongs.append(f"{text!r} is there {found} times")

    def _check_deliveries(self, db: OpenStore) -> None:
        made = Counter((row[0], row[1]) for row in db.execute("SELECT chat, text FROM outbox WHERE state IN ('delivered', 'uncertain')"))  # fmt: skip
        sure = Counter((row[0], row[1]) for row in db.execute("SELECT chat, text FROM outbox WHERE state = 'delivered'"))  # fmt: skip
        heard = Counter(self.heard)
        if heard - made or sure - heard:
            self.wrongs.append(f"said {heard - made} too often, {sure - heard} too seldom")

    def _check_lanes(self, db: OpenStore) -> None:
        rows = db.execute(
            "SELECT key, run_id, started_at, ended_at FROM runs WHERE merged_into IS NULL "
            "AND started_at IS NOT NULL AND kind != 'command' ORDER BY key, id"
        )
        before = ("", "", 0, 0)
        for row in rows:
            if row[0] == before[0] and row[2] < before[3]:
                self.wrongs.append(f"{row[1]} began before {before[1]} had ended")
            before = row


LEFT_OVER = {
    "a run never ends": "SELECT run_id, key, status FROM runs WHERE ended_at IS NULL",
    "a run is held": "SELECT run_id, owner FROM runs WHERE owner IS NOT NULL",
    "an accepted message lies about": "SELECT run_id FROM inbox",
    "somebody waits for ever": "SELECT run_id, target_run_id FROM waits",
    "a delivery stays": "SELECT id, text, state FROM outbox WHERE state IN ('pending', 'sending')",
    "an exchange is not over": "SELECT exchange_id, state FROM exchanges WHERE state != 'over'",
    "a child is not reported": "SELECT child_key, state FROM spawns WHERE announced_at IS NULL",
    "a tick stays": "SELECT job_id, run_id FROM job_slots WHERE status = 'running'",
    "a reservation stays": "SELECT account_id, run_id FROM reservations",
    "an account is overdrawn": "SELECT account_id FROM accounts WHERE tokens_spent > tokens_max + 2000",
    "an entry of nobody's": "SELECT session_id FROM entries EXCEPT SELECT session_id FROM transcripts",
    "a transcript of nobody's": "SELECT key FROM transcripts EXCEPT SELECT key FROM sessions",
    "a run answers for another that does not": "SELECT r.run_id FROM runs r JOIN runs c ON c.run_id = r.merged_into WHERE r.status != c.status",
}


def _config(kind: str) -> Config:
    defaults: dict[str, Any] = {"timeoutSeconds": 300, "subagents": {"archiveAfterMinutes": 5}}
    if kind == "one at a time":
        defaults["maxConcurrent"] = 1
    if kind == "poor":
        defaults["budget"] = {"tokens": 9_000}
    raw = {
        "agents": {"defaults": defaults, "list": [{"id": "main"}, {"id": "librarian"}]},
        "session": {"agentToAgent": {"maxPingPongTurns": 1}, **GATEWAYS[kind]},
        "models": {"providers": {"scripted": {"models": [PRICED]}}},
    }
    return msgspec.convert(raw, Config)


async def live(plan: list[Deed]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder))
        await life.live(plan)
        return life.wrongs
